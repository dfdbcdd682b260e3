"""AdbcTarget: a table of a database as something that is written to, and the SQL for that; driver and executors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import WriteError
from headrace.tables.adbc.access import AdbcAccess
from headrace.tables.adbc.columns import qualified, quoted, text_literal
from headrace.tables.adbc.sql_types import sql_type
from headrace.write import WriteMode, WriteRequest

_EPOCHS = "headrace_epochs"
_BEGIN = {"postgres": "BEGIN", "sqlite": "BEGIN IMMEDIATE", "duckdb": "BEGIN TRANSACTION"}
_LOOKS_LIKE_A_NUMBER = r"^[\s\v]*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[\s\v]*(\x00(?s:.*))?$"
"""To SQLite, which reads a number up to the first NUL and drops the rest."""
_SQLITE_WAIT_MS = 60_000  # for another process that writes to the file


@dataclass(frozen=True)
class AdbcTarget:
    """``table`` with its schema's name, where there is one. ``where``: the condition of an OVERWRITE, in SQL.

    ``casts``: columns that the driver's bulk ingest cannot fill, and the types to which PostgreSQL casts what it can.
    ``numeric``: columns in which SQLite stores text that looks like a number as a number.
    """

    access: AdbcAccess
    table: tuple[str, ...]
    schema: pa.Schema
    upsert_on: tuple[str, ...] = ()
    casts: tuple[tuple[str, str], ...] = ()
    numeric: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether rows can be ingested into the table itself. DuckDB's driver does not tell when it refuses a row."""
        return not self.upsert_on and not self.casts and self.access.driver != "duckdb"

    def beside(self, name: str) -> tuple[str, ...]:
        """Another table of the same schema."""
        return (*self.table[:-1], name)

    def ingest(self, cursor: Any, table: tuple[str, ...], batches: Iterator[pa.RecordBatch], **options: Any) -> None:
        """Bulk ingest of all rows into a table that is there. What ``batches`` raises is raised, and nothing else."""
        raised: list[BaseException] = []
        sent = 0

        def whole() -> Iterator[pa.RecordBatch]:
            nonlocal sent
            try:
                for batch in batches:
                    self._check_sqlite(batch)
                    sent += batch.num_rows
                    yield batch
            except BaseException as error:  # the driver would make a text of it
                raised.append(error)
                raise

        places = {"catalog_name": table[-2]} if self.access.driver == "sqlite" and table[1:] else {}
        if self.access.driver != "sqlite" and table[1:]:
            places = {"db_schema_name": table[-2]} | ({"catalog_name": table[-3]} if table[2:] else {})
        reader = pa.RecordBatchReader.from_batches(self.schema, whole())
        try:
            stored = cursor.adbc_ingest(table[-1], reader, **{"mode": "append", **places, **options})
        except Exception as error:
            raise (raised[0] if raised else self.access.scrubbed(error)) from None
        if raised:
            raise raised[0]
        if stored not in (sent, -1):  # -1: the driver does not count
            raise WriteError(f"of {sent:,} rows {stored:,} were stored in {qualified(table)}")

    def _check_sqlite(self, batch: pa.RecordBatch) -> None:
        """Refuse what SQLite would store as another value."""
        if self.access.driver != "sqlite":
            return
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if pa.types.is_floating(field.type) and pc.any(pc.is_nan(column)).as_py():
                raise WriteError(f"SQLite has no NaN, and column {field.name!r} has one: write NULL instead")
            if field.name in self.numeric and pa.types.is_string(field.type):
                numbers = column.filter(pc.match_substring_regex(column, _LOOKS_LIKE_A_NUMBER))
                if len(numbers):
                    raise WriteError(
                        f"column {field.name!r} of {qualified(self.table)} gets the text {numbers[0].as_py()[:80]!r}, "
                        "which SQLite would store as a number, as the declared type of the column has NUMERIC "
                        "affinity; nothing was written. Declare the column TEXT in the database"
                    )

    def fill(self, cursor: Any, batches: Iterator[pa.RecordBatch], scratch: str) -> None:
        """All rows into the table, within a transaction; through a temporary table ``scratch`` where it is needed."""
        if self.is_plain:
            self.ingest(cursor, self.table, batches)
            return
        if self.access.dialect == "postgres":
            cursor.execute(f"CREATE TEMPORARY TABLE {quoted(scratch)} ({self.staged_columns()})")
            self.ingest(cursor, (scratch,), batches, temporary=True)
        else:
            self.ingest(cursor, (scratch,), batches, mode="create", temporary=True)
        cursor.execute(self.copy_sql((scratch,)))
        cursor.execute(f"DROP TABLE {quoted(scratch)}")

    def copy_sql(self, staged: tuple[str, ...]) -> str:
        """All rows of another table into this one; those of a key that is there replace the one that has it."""
        casts = dict(self.casts)
        names = [quoted(name) for name in self.schema.names]
        values = [
            f"CAST({quoted(name)} AS {casts[name]})" if name in casts else quoted(name) for name in self.schema.names
        ]
        source = f"SELECT {', '.join(values)} FROM {qualified(staged)}"
        sql = f"INSERT INTO {qualified(self.table)} ({', '.join(names)}) {source}"
        if not self.upsert_on:
            return sql
        others = [quoted(name) for name in self.schema.names if name not in self.upsert_on]
        new = ", ".join(f"{name} = excluded.{name}" for name in others)
        action = f"UPDATE SET {new}" if others else "NOTHING"
        keys = ", ".join(map(quoted, self.upsert_on))
        return f"{sql} WHERE true ON CONFLICT ({keys}) DO {action}"  # without WHERE, SQLite takes ON for a join's

    def staged_columns(self) -> str:
        """Columns as bulk ingest fills them in PostgreSQL."""
        return ", ".join(f"{quoted(field.name)} {sql_type(field.type, 'postgres')}" for field in self.schema)

    def delete_sql(self, where: str) -> str:
        return f"DELETE FROM {qualified(self.table)}{where}"

    def begin(self, cursor: Any, request: WriteRequest, where: str) -> bool:
        """A transaction in which rows are to be written: what they replace is gone. False, and there is none, where the
        epoch was committed before."""
        if self.access.driver == "sqlite":
            cursor.execute(f"PRAGMA busy_timeout = {_SQLITE_WAIT_MS}")
        if request.epoch is not None:
            self._make_epochs(cursor)
        cursor.execute(_BEGIN[str(self.access.dialect)])
        if request.epoch is not None and not self._advance(cursor, request.query_id, request.epoch):
            cursor.execute("ROLLBACK")
            return False
        if request.mode is not WriteMode.APPEND:
            cursor.execute(self.delete_sql(where))
        return True

    @contextlib.contextmanager
    def transaction(self, request: WriteRequest, where: str) -> Iterator[Any]:
        """A cursor in a transaction that is committed at the end; None where the epoch was committed before."""
        with self.access.connected(writes=True) as cursor:
            if not self.begin(cursor, request, where):
                yield None
                return
            try:
                yield cursor
            except BaseException:
                with contextlib.suppress(Exception):  # of a connection that is lost, and with it the transaction
                    cursor.execute("ROLLBACK")
                raise
            self.commit(cursor)

    def commit(self, cursor: Any) -> None:
        """Of a transaction in which a statement failed, databases make a rollback without a word: it is asked first."""
        cursor.execute("SELECT 1")
        cursor.fetchall()
        cursor.execute("COMMIT")

    def _make_epochs(self, cursor: Any) -> None:
        """Unless there is one: who may only write to tables needs no right to make them then."""
        with contextlib.suppress(Exception):
            cursor.execute(f"SELECT epoch FROM {qualified(self.beside(_EPOCHS))} LIMIT 0")
            cursor.fetchall()
            return
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {qualified(self.beside(_EPOCHS))} "
            "(table_name VARCHAR(200), query_id VARCHAR(200), epoch BIGINT, PRIMARY KEY (table_name, query_id))"
        )

    def _advance(self, cursor: Any, query_id: str, epoch: int) -> bool:
        """Notes the epoch. Whoever notes the same one at the same time waits here for the end of this transaction."""
        epochs, values = qualified(self.beside(_EPOCHS)), f"{text_literal(self.table[-1])}, {text_literal(query_id)}"
        cursor.execute(
            f"INSERT INTO {epochs} AS noted VALUES ({values}, {int(epoch)}) ON CONFLICT (table_name, query_id) "
            "DO UPDATE SET epoch = excluded.epoch WHERE noted.epoch < excluded.epoch RETURNING epoch"
        )
        return bool(cursor.fetchall())


_INGESTED_AS = {"varchar": "text"}
"""Types that bulk ingest fills as if they were others."""


def postgres_casts(cursor: Any, table: tuple[str, ...], schema: pa.Schema) -> tuple[str, dict[str, str]]:
    """The schema that the table is in, and the columns that bulk ingest cannot fill, with their types."""
    found = f"to_regclass({text_literal(qualified(table))})"
    cursor.execute(f"""
        SELECT n.nspname, a.attname, t.typname, format_type(a.atttypid, a.atttypmod)
        FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
        JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE a.attrelid = {found} AND a.attnum > 0 AND NOT a.attisdropped""")
    rows = cursor.fetchall()
    if not rows:
        raise WriteError(f"there is no table {qualified(table)} any more")
    casts = {}
    for _, name, stored, declared in rows:
        ingested = sql_type(schema.field(name).type, "postgres").partition("(")[0]
        ingested = f"_{ingested.removesuffix('[]')}" if ingested.endswith("[]") else ingested
        if ingested != _INGESTED_AS.get(stored, stored):
            casts[name] = declared
    return str(rows[0][0]), casts
