"""AdbcTable: a table of a database, through ADBC; described in the driver, read where Spark runs its tasks."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headrace.arguments import checked
from headrace.errors import PlanError, RegistrationError, WriteError
from headrace.expr.nodes import And, Column, Comparison, Expr, IsNull, Literal, Not
from headrace.plan import ExecutionPlan, ScanRequest, SortKey, Statistics
from headrace.pruning.predicate import ContainerStats, PruningPredicate
from headrace.stream import Offset, ReadLimit, StreamProvider
from headrace.tables.adbc.access import AdbcAccess, driver_name
from headrace.tables.adbc.columns import DatabaseColumn, columns_of, derived, qualified, quoted, text_literal
from headrace.tables.adbc.latest import latest_value
from headrace.tables.adbc.out_of_range import null_out_of_range, supports_nulls
from headrace.tables.adbc.ranges import KeyRange, key_ranges, supports_ranges
from headrace.tables.adbc.relation import AdbcRelation, Description
from headrace.tables.adbc.spooling import AdbcSpooledWrite
from headrace.tables.adbc.target import AdbcTarget, postgres_casts
from headrace.tables.adbc.writing import AdbcStagedWrite, AdbcTransactionWrite
from headrace.tables.cursor import Cursor, CursorValue, most_rows
from headrace.write import WritableProvider, WriteMode, WritePlan, WriteRequest


class AdbcTable(AdbcRelation, StreamProvider, WritableProvider):
    """A table or view of a database. Columns, filters, aggregates, orders and limits become SQL; rows come as Arrow.

    ``driver`` names the package ``adbc_driver_<name>``, with or without that prefix: "postgresql" (also "postgres" and
    "pg"), "sqlite" ("sqlite3"), "duckdb". With another driver whole columns are read and Spark does the rest. ``uri``
    is what the driver connects with, ``db_kwargs`` further options of the driver; neither is shown in EXPLAIN and
    reprs, and in errors no URI with a password, nor a whole secret of eight or more characters. ``table`` is a name,
    "schema.name", or a tuple where a name has a dot; names are quoted, so they must match the database's case.

    ``partition_on``: an integer, date or timestamp column (nulls are allowed; best with an index); the table is read
    as ``partitions`` ranges of it, each on a connection of its own. Without it there is one partition. ``order_by``
    (SortKeys or column names): each partition is sorted by the database, and Spark is told so.

    Infinite dates and timestamps, timestamps after 294247-01-10 and a NaN of ``numeric`` have no equal in Spark: a
    query that reads one fails, and names the column. ``out_of_range_as_null`` (PostgreSQL and DuckDB): they are null,
    to filters, aggregates, orders and joins too. The database then compares an expression, which a plain index does
    not serve.

    The filters that the database decides as Spark does are exact, all others stay with Spark. So it is with GROUP BY,
    DISTINCT and aggregates, and with ORDER BY ... LIMIT ... OFFSET: where the database means what Spark means, each is
    one query on one connection. The keys that a join's other side has become an IN list; a join of two tables of one
    database is one query, if ``spark.sql.optimizer.datasourceV2JoinPushdown`` is on (Spark 4.1). Each partition, and
    each retry, is a query of its own: rows that change meanwhile are seen as they are then.

    ``cursor``: a column whose values grow as rows come or change, such as ``updated_at`` or a serial number. With it
    ``ctx.stream(name)`` reads the rows that are new by that column, after ``start_after`` (None: from the first). The
    database is asked again when a query starts from its checkpoint, so rows come at least once: a row that changes
    comes again, and what it was before may never come. Rows whose cursor is null never come. Nor does a row that is
    committed after others of the same or a greater value, unless ``lookback`` reaches it: each micro-batch also has the
    rows so far before its start (a ``timedelta``, or an ``int`` for integers), most of them again.

    Tables of PostgreSQL, SQLite and DuckDB can be written to: rows are ingested in bulk, and one transaction at the end
    of the statement makes them seen, with the removal of those that they replace. It also notes the epoch of a
    streaming query, in a table ``headrace_epochs`` beside this one, so that a batch that comes again is there once.
    PostgreSQL: tasks load staging tables at the same time, which the transaction copies; ``staged=False`` sends all
    rows through this process, over one connection in one transaction, which takes half the work. SQLite and DuckDB, of
    which one process writes at a time: rows wait in files of this process for the end of the statement.

    ``upsert_on``: the columns of a unique key. A row that is appended replaces the one with the same key.

    Raises ValueError for names and numbers that make no sense and for a malformed URI of PostgreSQL's, which it does
    not show, and TypeError for an ``order_by`` of other things.
    """

    @checked(without="order_by")
    def __init__(
        self,
        driver: str,
        uri: str,
        table: str | Sequence[str],
        partition_on: str | None = None,
        *,
        partitions: int = 4,
        order_by: Iterable[SortKey | str] = (),
        db_kwargs: Mapping[str, str] | None = None,
        out_of_range_as_null: bool = False,
        cursor: str | None = None,
        lookback: datetime.timedelta | int | None = None,
        start_after: CursorValue | None = None,
        upsert_on: Sequence[str] = (),
        staged: bool = True,
    ) -> None:
        access = AdbcAccess(driver_name(driver), uri, tuple((db_kwargs or {}).items()))
        self._table = tuple(table.split(".") if isinstance(table, str) else table)
        if not self._table:
            raise ValueError("AdbcTable needs the name of a table")
        super().__init__(access, ".".join(self._table), qualified(self._table))  # raises for names that cannot be
        self._key_ranges = [KeyRange()]
        self._partition_on = partition_on
        self._partitions = partitions
        self._order_by = _sort_keys(order_by)
        if partitions < 1:
            raise ValueError(f"partitions must be positive, not {partitions}")
        self._out_of_range_as_null = out_of_range_as_null
        self._upsert_on = tuple(upsert_on)
        self._staged = staged
        self._compared: set[str] = set()
        if out_of_range_as_null and not supports_nulls(access.driver):
            raise ValueError(f"out_of_range_as_null is for postgresql and duckdb, not {driver!r}")
        if access.dialect is None and (partition_on is not None or self._order_by or cursor is not None):
            raise ValueError(
                f"partition_on, order_by and cursor need a driver whose SQL Headrace knows, not {driver!r}"
            )
        if cursor is None and (lookback is not None or start_after is not None):
            raise ValueError("lookback and start_after are for a stream: name its column with cursor=")
        self._cursor_arguments = cursor, lookback, start_after
        self._cursor: Cursor | None = None

    def __repr__(self) -> str:
        return f"<AdbcTable: {self.name} through {self._access.driver}>"

    def schema(self) -> pa.Schema:
        """Asks the database for the columns, the ends of ``partition_on`` and the number of rows it estimates.

        The only I/O of planning. Raises MissingPackageError without the driver, the driver's own errors (without
        credentials), and RegistrationError for a ``partition_on``, ``order_by`` or ``cursor`` that cannot be.
        """
        with self._access.connected() as cursor:
            columns = columns_of(cursor, self._access.dialect, self._table)
            if self._out_of_range_as_null:
                driver = self._access.driver
                columns = [
                    replace(column, sql=null_out_of_range(column.sql, column.type, driver)) for column in columns
                ]
            self._source = derived(columns, qualified(self._table), self._access.dialect)
            self._compared = {column.name for column in columns if column.sql == quoted(column.name)}
            by_name = {column.name: replace(column, sql=quoted(column.name)) for column in columns}
            for name in (self._partition_on, *(key.column for key in self._order_by), *self._upsert_on):
                if name is not None and name not in by_name:
                    raise RegistrationError(f"{self.name} has no column {name!r} ({', '.join(by_name)})")
            if self._partition_on is not None:
                self._key_ranges = self._ranges(cursor, by_name[self._partition_on])
            statistics = self._estimate(cursor)
        schema = pa.schema([(column.name, column.type) for column in columns])
        self._described = Description(schema, by_name, statistics)
        self._cursor = self._checked_cursor(schema)
        return schema

    def refresh(self) -> None:
        """Asks the database again for the ends of ``partition_on`` and the number of rows it estimates.

        Raises the driver's error where the table is gone.
        """
        described, ranges = self._description(), self._key_ranges
        with self._access.connected() as cursor:
            self._check_source(cursor)
            if self._partition_on is not None:
                ranges = self._ranges(cursor, described.columns[self._partition_on])
            statistics = self._estimate(cursor)
        self._key_ranges, self._described = ranges, replace(described, statistics=statistics)

    def _checked_cursor(self, schema: pa.Schema) -> Cursor | None:
        name, lookback, start_after = self._cursor_arguments
        if name is None:
            return None
        cursor = Cursor.of(self.name, schema, name, lookback, start_after)
        if self._sql(IsNull(Column(name))) is None:
            raise RegistrationError(
                f"cursor={name!r} of {self.name} has no declared type in the database, which may compare its values in "
                "several ways; declare it INTEGER or TEXT, or make a view that casts it"
            )
        return cursor

    def _why_no_stream(self) -> str | None:
        if self._cursor_arguments[0] is not None:
            return None
        return f"AdbcTable {self.name} has no cursor: say by which column it grows, AdbcTable(..., cursor='updated_at')"

    def _stream_cursor(self) -> Cursor:
        if self._cursor is None:
            raise PlanError(self._why_no_stream() or f"AdbcTable {self.name}: schema() has not been called")
        return self._cursor

    def initial_offset(self) -> Offset:
        return self._stream_cursor().initial()

    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Asks the database, on a connection of its own: for the greatest value, or where there is a limit for that of
        the last row within it. Rows of one value stay together. Bytes are estimated from the types of the columns.
        """
        cursor, described = self._stream_cursor(), self._description()
        column = described.columns[cursor.column]
        wanted: list[Expr] = [Not(IsNull(Column(column.name)))]
        if pa.types.is_temporal(column.type):
            wanted.append(_python_dates(column))
        wanted += cursor.after(cursor.value(start), cursor.until(limit.until))
        rows = f"{self._source}{self._where(wanted)}"
        found = latest_value(self._access, column, rows, most_rows(limit, described.schema))
        return start if found is None else cursor.offset(found)

    def scan_between(self, start: Offset, end: Offset, request: ScanRequest) -> ExecutionPlan:
        cursor = self._stream_cursor()
        within = cursor.between(cursor.value(start), cursor.value(end))
        return self._plan(request, within, cursor.describe(start, end))

    def write_modes(self) -> set[WriteMode]:
        return {WriteMode.APPEND, WriteMode.TRUNCATE, WriteMode.OVERWRITE}

    def can_overwrite(self, filters: Sequence[Expr]) -> bool:
        """Where the database decides them as Spark does, on the columns as they are stored."""
        stored = all(expr.columns() <= self._compared for expr in filters)
        return stored and all(self._sql(expr) is not None for expr in filters)

    def can_delete(self, filters: Sequence[Expr]) -> bool:
        return self._access.dialect is not None and self.can_overwrite(filters)

    def insert(self, request: WriteRequest) -> WritePlan:
        target, where = self._target(), self._where(request.filters)
        if self._access.dialect != "postgres":
            return AdbcSpooledWrite(target, request, where)
        kind = AdbcStagedWrite if self._staged else AdbcTransactionWrite
        return kind(target, request, where)

    def delete(self, filters: tuple[Expr, ...]) -> None:
        target = self._target()
        with self._access.connected(writes=True) as cursor:
            self._check_source(cursor)
            cursor.execute(target.delete_sql(self._where(filters)))

    def _check_source(self, cursor: Any) -> None:
        """Raises the driver's error where the table is gone, or in SQLite a column, which it would take for text."""
        cursor.execute(f"SELECT 1 FROM {self._source} WHERE 1 = 0")
        cursor.fetchall()

    def _target(self) -> AdbcTarget:
        """Raises WriteError for a driver whose SQL is not known, and for a table that is gone."""
        described, access = self._description(), self._access
        schema = described.schema
        if access.dialect is None:
            raise WriteError(
                f"AdbcTable writes through the drivers postgresql, sqlite and duckdb, not {access.driver!r} (table "
                f"{self.name})"
            )
        if access.dialect != "postgres":
            numeric = tuple(column.name for column in described.columns.values() if column.numeric)
            return AdbcTarget(access, self._table, schema, self._upsert_on, numeric=numeric)
        with access.connected() as cursor:
            namespace, casts = postgres_casts(cursor, self._table, schema)
        return AdbcTarget(access, (namespace, self._table[-1]), schema, self._upsert_on, tuple(casts.items()))

    def _ranges(self, cursor: Any, column: DatabaseColumn) -> list[KeyRange]:
        if not supports_ranges(column.type):
            raise RegistrationError(
                f"partition_on={column.name!r} of {self.name} has type {column.type}; ranges need an integer, date or "
                "timestamp column"
            )
        name, where = column.sql, ""
        if not pa.types.is_integer(column.type):  # what Python has no date for is in the first range, or in the last
            where = f" WHERE {_python_dates(column).to_sql(str(self._access.dialect))}"
        cursor.execute(f"SELECT min({name}) AS low, max({name}) AS high FROM {self._source}{where}")
        found = cursor.fetch_arrow_table()
        low, high = (value[0].cast(column.type).as_py() for value in found.columns)
        return key_ranges(low, high, self._partitions)

    def _estimate(self, cursor: Any) -> Statistics | None:
        """PostgreSQL keeps an estimate; the others would have to count."""
        if self._access.dialect != "postgres":
            return None
        table = text_literal(qualified(self._table))
        cursor.execute(f"SELECT CAST(reltuples AS BIGINT) FROM pg_class WHERE oid = to_regclass({table})")
        row = cursor.fetchone()
        return Statistics(num_rows=row[0]) if row is not None and row[0] > 0 else None

    def _conditions(self, request: ScanRequest) -> list[list[Expr]]:
        """What each partition's rows fulfil, without the ranges that the filters rule out."""
        described, key, ranges = self._description(), self._partition_on, self._key_ranges
        if key is None:
            return [[]]
        containers = [ContainerStats({key: range_.stats()}) for range_ in ranges]
        kept = PruningPredicate((*request.filters, *request.runtime_filters), described.schema).keep(containers)
        predicates = [
            range_.predicate(key, described.schema.field(key).type)
            for range_, keep in zip(ranges, kept, strict=True)
            if keep
        ]
        return [[] if predicate is None else [predicate] for predicate in predicates]

    def _ordering(self, request: ScanRequest) -> tuple[SortKey, ...]:
        """The leading keys that are read; what is sorted by others would be sorted for nothing."""
        names = [key.column for key in self._order_by]
        read = next((i for i, name in enumerate(names) if name not in request.projection), len(names))
        return self._order_by[:read]

    def _text(self, request: ScanRequest) -> str:
        parts = [super()._text(request)]
        if request.aggregation is None and not request.order and self._partition_on is not None:
            kept, total = len(self._conditions(request)), len(self._key_ranges)
            parts.append(f"{kept} of {total} ranges of {self._partition_on}")
        return ", ".join(parts)


def _python_dates(column: DatabaseColumn) -> Expr:
    """Python has a date for it: not so for infinity, nor for years before 1 and after 9999."""
    zone = None if pa.types.is_date(column.type) or column.type.tz is None else datetime.UTC
    first, last = datetime.datetime(1, 1, 1, tzinfo=zone), datetime.datetime(9999, 12, 31, tzinfo=zone)
    ends = (first.date(), last.date()) if pa.types.is_date(column.type) else (first, last)
    least, greatest = (Literal(end, column.type) for end in ends)
    key = Column(column.name)
    return And(Comparison(">=", key, least), Comparison("<", key, greatest))


def _sort_keys(order_by: Iterable[SortKey | str]) -> tuple[SortKey, ...]:
    if isinstance(order_by, str) or not isinstance(order_by, Iterable):
        raise TypeError(f"order_by is a list of sort keys: [{order_by!r}]")
    keys = tuple(SortKey(key) if isinstance(key, str) else key for key in order_by)
    for key in keys:
        if not isinstance(key, SortKey):
            raise TypeError(f"order_by takes SortKeys and column names, not {key!r}")
    return keys
