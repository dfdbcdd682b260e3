"""Which type of a database's holds the values of an Arrow type; driver and executors, pure."""

from __future__ import annotations

import pyarrow as pa

from headrace.errors import WriteError

_TYPES: dict[str, dict[pa.DataType, str]] = {
    "postgres": {
        **{pa.bool_(): "bool", pa.int8(): "int2", pa.int16(): "int2", pa.int32(): "int4", pa.int64(): "int8"},
        **{pa.float32(): "float4", pa.float64(): "float8", pa.string(): "text", pa.large_string(): "text"},
        **{pa.binary(): "bytea", pa.large_binary(): "bytea", pa.date32(): "date"},
    },
    "duckdb": {
        **{pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INTEGER"},
        **{pa.int64(): "BIGINT", pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR"},
        **{pa.binary(): "BLOB", pa.date32(): "DATE"},
    },
    "sqlite": {pa.int64(): "INTEGER", pa.float64(): "REAL", pa.string(): "TEXT", pa.binary(): "BLOB"},
}


def sql_type(type_: pa.DataType, dialect: str) -> str:
    """The type's name. Raises WriteError where the database has none for it."""
    if type_ in _TYPES[dialect]:
        return _TYPES[dialect][type_]
    if dialect != "sqlite":
        if pa.types.is_timestamp(type_):
            return "timestamp" if type_.tz is None else "timestamptz"
        if pa.types.is_decimal128(type_):
            return f"numeric({type_.precision}, {type_.scale})"
        if pa.types.is_list(type_) or pa.types.is_large_list(type_):
            return f"{sql_type(type_.value_type, dialect)}[]"
    raise WriteError(f"{dialect} has no type for columns of type {type_}")
