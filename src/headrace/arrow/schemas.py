"""How a schema may be written wherever one is asked for: Arrow's own, DDL text, or pairs; driver Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa

SchemaLike: TypeAlias = pa.Schema | str | Sequence[tuple[str, pa.DataType | str]]
"""A ``pa.schema``, ``"id BIGINT NOT NULL, name STRING"``, or ``[("id", pa.int64()), ("name", "STRING")]``."""


def schema_of(value: Any, where: str) -> pa.Schema:
    """``value`` as a schema. Raises TypeError for what is none, ValueError for DDL text that is none.

    ``where`` begins the message: ``SimpleTable's schema``.
    """
    if isinstance(value, pa.Schema):
        return value
    try:
        if isinstance(value, str):
            from headrace.arrow.ddl import schema_from_ddl  # its patterns take a while to compile

            return schema_from_ddl(value)
        if isinstance(value, (list, tuple)):
            return pa.schema([_field(item, where) for item in value])
    except ValueError as error:
        raise ValueError(f"{where} cannot be read: {error}") from None
    what = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    raise TypeError(
        f"{where} must be a pyarrow.Schema, DDL text such as 'id BIGINT NOT NULL, name STRING', or a list of pairs of "
        f"name and type, not {what}"
    )


def _field(item: Any, where: str) -> pa.Field:
    if isinstance(item, pa.Field):
        return item
    pair = item if isinstance(item, (tuple, list)) and len(item) == 2 else (None, None)
    name, type_ = pair
    if isinstance(name, str) and isinstance(type_, pa.DataType):
        return pa.field(name, type_)
    if isinstance(name, str) and isinstance(type_, str):
        from headrace.arrow.ddl import field_from_ddl

        try:
            return field_from_ddl(name, type_)
        except ValueError as error:
            raise ValueError(f"column {name!r}: {error}") from None
    raise TypeError(
        f"{where} as a list has a pair of name and type for each column, ('id', pa.int64()) or ('id', 'BIGINT'), "
        f"not {item!r}"
    )
