"""Methods of a session and of a result, given something of a wrong type."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr

SCHEMA = pa.schema([("a", pa.int64())])
TABLE = hr.MemTable(pa.table({"a": [1]}))
RAW = re.compile(
    r"NoneType has no|has no attribute|object is not|unsupported operand|not supported between|Py4J|java\."
)


class Wrong:
    """Nothing that any parameter takes."""


CALLS: dict[str, Callable[[Any], Any]] = {
    "catalog": lambda ctx: hr.SessionContext(ctx.spark, catalog=Wrong()),  # type: ignore[arg-type]
    "collect": lambda ctx: ctx.collect(Wrong()),
    "config": lambda ctx: hr.SessionContext(config=Wrong()),  # type: ignore[arg-type]
    "config-list": lambda ctx: hr.SessionContext(config=["spark.ui.enabled"]),  # type: ignore[arg-type]
    "deregister_catalog": lambda ctx: ctx.deregister_catalog(Wrong()),
    "deregister_table": lambda ctx: ctx.deregister_table(TABLE),
    "deregister_table_function": lambda ctx: ctx.deregister_table_function(Wrong()),
    "execute_stream": lambda ctx: ctx.execute_stream(Wrong()),
    "explain": lambda ctx: ctx.explain(Wrong()),
    "master": lambda ctx: hr.SessionContext(master=Wrong()),  # type: ignore[arg-type]
    "planning": lambda ctx: hr.SessionContext(ctx.spark, planning=Wrong()),  # type: ignore[arg-type]
    "progress": lambda ctx: ctx.execute_stream("SELECT 1", progress="yes"),
    "refresh_catalog": lambda ctx: ctx.refresh_catalog(Wrong()),
    "register_catalog": lambda ctx: ctx.register_catalog("c", Wrong()),
    "register_catalog-name": lambda ctx: ctx.register_catalog(Wrong(), Wrong()),
    "register_streaming_table-capacity": lambda ctx: ctx.register_streaming_table("t", SCHEMA, Wrong()),
    "register_streaming_table-name": lambda ctx: ctx.register_streaming_table(Wrong(), SCHEMA),
    "register_streaming_table-partitions": lambda ctx: ctx.register_streaming_table("t", SCHEMA, partitions=Wrong()),
    "register_streaming_table-schema": lambda ctx: ctx.register_streaming_table("t", Wrong()),
    "register_table": lambda ctx: ctx.register_table("t", Wrong()),
    "register_table-name": lambda ctx: ctx.register_table(Wrong(), TABLE),
    "register_table-verify": lambda ctx: ctx.register_table("t", TABLE, verify=Wrong()),
    "register_table_function": lambda ctx: ctx.register_table_function("f", Wrong()),
    "register_table_function-name": lambda ctx: ctx.register_table_function(Wrong(), lambda: TABLE),
    "spark": lambda ctx: hr.SessionContext(Wrong()),  # type: ignore[arg-type]
    "sql": lambda ctx: ctx.sql(Wrong()),
    "table": lambda ctx: ctx.table(TABLE),
    "table_exists": lambda ctx: ctx.table_exists(None),
    "as_data_source": lambda ctx: hr.as_data_source(Wrong(), "x"),  # type: ignore[arg-type]
    "as_data_source-name": lambda ctx: hr.as_data_source(TABLE, Wrong()),  # type: ignore[arg-type]
    "from_data_source": lambda ctx: hr.from_data_source(Wrong()),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_method_given_something_of_a_wrong_type_says_what_it_takes(
    ctx: hr.SessionContext, call: Callable[[Any], Any]
) -> None:
    with pytest.raises((TypeError, ValueError, hr.HeadraceError)) as found:
        call(ctx)
    assert re.search(
        r"takes|must be|is text|expected|\bis a\b|\bis SQL\b|not Wrong|Wrong object|is for", str(found.value)
    )
    assert not RAW.search(str(found.value)), found.value
    assert ctx.table_names() == []
