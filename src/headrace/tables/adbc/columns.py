"""What a database's columns are in Arrow and how SQL asks for them; runs in the driver, at registration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headrace.arrow.types import wire_type, with_nested
from headrace.errors import UnsupportedTypeError
from headrace.plan import SortKey

_POSTGRES_KEPT = {
    *("bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "bytea"),
    *("date", "timestamp", "timestamptz"),
}
_BINARY_COLLATION = {"postgres": '"C"', "sqlite": "BINARY", "duckdb": '"binary"'}
_SQLITE_MARKS = {pa.int64(): "0", pa.float64(): "0.0", pa.string(): "''", pa.binary(): "x''"}
_SQLITE_SAMPLE_ROWS = 1000


@dataclass(frozen=True)
class DatabaseColumn:
    """``sql`` asks for it; what the driver then sends is cast to ``type``.

    ``bytewise``: text of which the database calls only equal bytes equal. ``loose``: of no declared type in SQLite,
    so that what is one value here may be several there (10 and '10'). ``numeric``: SQLite makes numbers of texts that
    look like them when they are stored here ('0123' becomes 123).
    """

    name: str
    type: pa.DataType
    sql: str
    bytewise: bool = False
    loose: bool = False
    numeric: bool = False


def columns_of(cursor: Any, dialect: str | None, table: Sequence[str]) -> list[DatabaseColumn]:
    """The table's columns. A type that Spark has no equal of is asked for as text, where the dialect is known.

    Raises the driver's errors, such as that there is no such table.
    """
    if dialect == "sqlite":
        found = _sqlite_columns(cursor, table)
        if found:
            return found
    cursor.execute(f"SELECT * FROM {qualified(table)} LIMIT 0" if dialect else f"SELECT * FROM {qualified(table)}")
    reader = cursor.fetch_record_batch()
    schema = reader.schema
    reader.close()
    if dialect == "postgres":
        bytewise = _bytewise_columns(cursor, table)
        return [replace(_postgres_column(field), bytewise=field.name in bytewise) for field in schema]
    column = _typed_column if dialect else _plain_column
    return [column(field) for field in schema]


def quoted(name: str) -> str:
    """Raises ValueError for a name no database can have."""
    if not name or "\0" in name:
        raise ValueError(f"{name!r} names nothing in a database")
    return '"' + name.replace('"', '""') + '"'


def text_literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def qualified(table: Sequence[str]) -> str:
    return ".".join(map(quoted, table))


def derived(columns: Sequence[DatabaseColumn], source: str, dialect: str | None) -> str:
    """Return the source of a FROM in which each column's name means its ``sql``: ``source`` itself where it does so.

    SQLite takes a name in double quotes for text where the table has lost that column, but never one in grave accents.
    """
    if dialect == "sqlite":
        columns = [replace(column, sql="`" + column.name.replace("`", "``") + "`") for column in columns]
    if all(column.sql == quoted(column.name) for column in columns):
        return source
    return f"(SELECT {', '.join(f'{column.sql} AS {quoted(column.name)}' for column in columns)} FROM {source}) AS t"


def compared_sql(column: DatabaseColumn, dialect: str, *, equality: bool = False) -> str:
    """A column in a form that compares as in Spark: text by its bytes. ``equality``: only what is equal matters."""
    if column.type != pa.string() or (equality and column.bytewise):
        return column.sql
    return f"CAST({quoted(column.name)} AS TEXT) COLLATE {_BINARY_COLLATION[dialect]}"


def joined_column(column: DatabaseColumn, dialect: str | None) -> str:
    """A column of one side of a join. SQLite's text is cast: a number or a blob in it equals its text here too."""
    return f"CAST({column.sql} AS TEXT)" if dialect == "sqlite" and column.type == pa.string() else column.sql


def order_sql(key: SortKey, column: DatabaseColumn, dialect: str) -> str:
    """One item of ORDER BY, ordered as in Spark: text by its bytes, nulls where the key says."""
    direction = "DESC" if key.descending else "ASC"
    return f"{compared_sql(column, dialect)} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def sqlite_marked(select: str, columns: Sequence[DatabaseColumn], *, limited: bool) -> str:
    """``select`` with a first row that tells the types.

    SQLite's driver takes a column's type from the first rows, and calls it an integer where those are null: it then
    fails at the first text. LIMIT keeps SQLite from thinking that the inner order is of no use.
    """
    marks = ", ".join(f"{_SQLITE_MARKS[column.type]} AS {quoted(column.name)}" for column in columns)
    return f"SELECT {marks} UNION ALL SELECT * FROM ({select}{'' if limited else ' LIMIT -1'})"


def _plain_column(field: pa.Field) -> DatabaseColumn:
    return DatabaseColumn(field.name, field.type, quoted(field.name))


def _typed_column(field: pa.Field) -> DatabaseColumn:
    if any(map(pa.types.is_time, with_nested(field.type))):  # Spark has a type for it, which is off by default
        return _as_text(field.name)
    try:
        wire_type(field.type, field.name)
    except UnsupportedTypeError:
        return _as_text(field.name)
    return _plain_column(field)


def _postgres_column(field: pa.Field) -> DatabaseColumn:
    """The driver names PostgreSQL's type in the field's metadata.

    Cast to text: what has no Arrow type (inet, time with zone) or one that is not the value Spark should see
    (money in cents, uuid and jsonb as bytes), and ``char(n)``, whose padding PostgreSQL does not count as text.
    """
    metadata = field.metadata or {}
    name = metadata.get(b"POSTGRESQL:type", b"").decode()
    if not name:  # an older driver
        return _plain_column(field) if _is_plain(field.type) else _as_text(field.name)
    if name in _POSTGRES_KEPT:
        return _plain_column(field)
    if name.startswith("_") and name[1:] in _POSTGRES_KEPT:
        return DatabaseColumn(field.name, field.type, _one_dimension(field.name, name))
    if name == "oid":  # unsigned, and the driver says int32
        return DatabaseColumn(field.name, pa.int64(), f"CAST({quoted(field.name)} AS BIGINT)")
    decimal = _postgres_decimal(metadata) if name == "numeric" else None
    if decimal is not None:  # arrives as text
        return DatabaseColumn(field.name, decimal, quoted(field.name))
    return _as_text(field.name)


def _one_dimension(name: str, array_type: str) -> str:
    """An array, of which the driver loses all dimensions but one: PostgreSQL refuses those with more, in our words."""
    words = text_literal(f"column {name} has an array of several dimensions, which Spark has no type for: ")
    column = quoted(name)
    refused = f"CAST({words} || array_dims({column}) AS {quoted(array_type)})"
    return f"CASE WHEN array_ndims({column}) > 1 THEN {refused} ELSE {column} END"


def _bytewise_columns(cursor: Any, table: Sequence[str]) -> set[str]:
    """Columns of PostgreSQL's text types with a deterministic collation, whose ``=`` therefore compares bytes.

    Not those of a foreign table: what its own server calls equal is not known here.
    """
    import adbc_driver_manager  # there, as its driver has brought the cursor

    query = f"""
        SELECT a.attname FROM pg_attribute a
        JOIN pg_class r ON r.oid = a.attrelid JOIN pg_collation c ON c.oid = a.attcollation
        WHERE a.attrelid = to_regclass({text_literal(qualified(table))}) AND a.attnum > 0 AND r.relkind <> 'f'
          AND a.atttypid IN ('text'::regtype, 'varchar'::regtype)
          AND coalesce(CAST(to_jsonb(c) ->> 'collisdeterministic' AS boolean), true)"""  # PostgreSQL 11 has no others
    try:
        cursor.execute(query)
        return {name for (name,) in cursor.fetchall()}
    except adbc_driver_manager.Error:
        return set()  # not quite PostgreSQL: a binary collation is right everywhere


def _is_plain(type_: pa.DataType) -> bool:
    kind = pa.types
    number = kind.is_boolean(type_) or kind.is_integer(type_) or kind.is_floating(type_)
    return bool(number or kind.is_binary(type_) or kind.is_date32(type_) or kind.is_timestamp(type_))


def _postgres_decimal(metadata: dict[bytes, bytes]) -> pa.DataType | None:
    """The Arrow type of ``numeric(p, s)``; None where values may have any number of digits."""
    modifier = int(metadata.get(b"POSTGRESQL:typmod", b"-1")) - 4
    precision, scale = modifier >> 16, modifier & 0x7FF
    if modifier < 0 or not 0 < precision <= 38 or scale > precision:  # a negative scale is a large one here
        return None
    return pa.decimal128(precision, scale)


def _as_text(name: str) -> DatabaseColumn:
    return DatabaseColumn(name, pa.string(), f"CAST({quoted(name)} AS TEXT)")


def _sqlite_columns(cursor: Any, table: Sequence[str]) -> list[DatabaseColumn]:
    """From the declared types by SQLite's own rules of affinity; from the first rows where those leave it open."""
    arguments = ", ".join(text_literal(part) for part in reversed(table))
    cursor.execute(f"SELECT name, type FROM pragma_table_xinfo({arguments}) WHERE hidden <> 1 ORDER BY cid")
    declared = [(str(name), str(type_ or "").upper()) for name, type_ in cursor.fetchall()]
    any_is_free = any(type_ == "ANY" for _, type_ in declared) and _is_strict(cursor, table)
    columns = []
    for name, declaration in declared:
        type_, free = _affinity(declaration), declaration in ("", "ANY" if any_is_free else "")
        sampled = type_ or _sampled(cursor, table, name)
        numeric = type_ is None and not free
        columns.append(DatabaseColumn(name, sampled, quoted(name), loose=type_ is None, numeric=numeric))
    return columns


def _is_strict(cursor: Any, table: Sequence[str]) -> bool:
    """Whether SQLite keeps values as they are in columns of the type ANY. It has strict tables since 3.37."""
    schema = f" AND schema = {text_literal(table[-2])}" if table[1:] else ""
    cursor.execute(f"SELECT max(strict) FROM pragma_table_list WHERE name = {text_literal(table[-1])}{schema}")
    return bool(cursor.fetchall()[0][0])


def _affinity(declared: str) -> pa.DataType | None:
    """None where the affinity is SQLite's NUMERIC, or there is none."""
    if "INT" in declared:
        return pa.int64()
    if any(part in declared for part in ("CHAR", "CLOB", "TEXT")):
        return pa.string()
    if "BLOB" in declared:
        return pa.binary()
    if any(part in declared for part in ("REAL", "FLOA", "DOUB")):
        return pa.float64()
    return None


def _sampled(cursor: Any, table: Sequence[str], name: str) -> pa.DataType:
    sample = f"SELECT {quoted(name)} AS v FROM {qualified(table)} WHERE {quoted(name)} IS NOT NULL"
    cursor.execute(f"SELECT DISTINCT typeof(v) FROM ({sample} LIMIT {_SQLITE_SAMPLE_ROWS})")
    kinds = {kind for (kind,) in cursor.fetchall()}
    if kinds and kinds <= {"integer", "real"}:
        return pa.int64() if kinds == {"integer"} else pa.float64()
    return pa.binary() if kinds == {"blob"} else pa.string()
