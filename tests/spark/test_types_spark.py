"""The rows of docs/types.md, each tried in Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from documented_types import ROWS, documented_type
from headrace.arrow.spark_types import spark_type
from headrace.arrow.types import wire_type

SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def sql_name(type_: Any) -> str:
    if isinstance(type_, str):
        return SQL_NAMES.get(type_, type_)
    if type_["type"] == "array":
        return f"array<{sql_name(type_['elementType'])}>"
    if type_["type"] == "map":
        return f"map<{sql_name(type_['keyType'])},{sql_name(type_['valueType'])}>"
    fields = [f"{field['name']}:{sql_name(field['type'])}" for field in type_["fields"]]
    return f"struct<{','.join(fields)}>"


@pytest.mark.parametrize(("arrow", "spark", "refused", "way"), ROWS, ids=[row[0] for row in ROWS])
def test_documented_type_each_row_is_true(arrow: str, spark: str, refused: str, way: str) -> None:
    type_ = documented_type(arrow)
    if refused:
        with pytest.raises(hr.UnsupportedTypeError, match=r"column 'amount'.*: \w+"):
            wire_type(type_, "amount")
        return
    wire = wire_type(type_, "amount")
    assert sql_name(spark_type(wire)) == spark
    viewed = pa.types.is_timestamp(type_) and type_.unit == "us"
    assert way.startswith("as it is") == (wire == type_ or viewed)


def comments(ctx: hr.SessionContext, table: str) -> dict[str, str | None]:
    return {row["col_name"]: row["comment"] for row in ctx.sql(f"DESCRIBE {table}").collect()}


def test_column_comments_show_in_describe(ctx: hr.SessionContext) -> None:
    inner = pa.struct([pa.field("x", pa.int64(), metadata={"comment": "inside"}), pa.field("y", pa.int64())])
    fields = [
        pa.field("id", pa.int64(), metadata={"comment": "it's the \u00fc key"}),
        pa.field("st", inner, metadata={"comment": "a struct"}),
        pa.field("plain", pa.dictionary(pa.int8(), pa.string())),
    ]
    rows = pa.table(
        [pa.array([1]), pa.array([{"x": 2, "y": 3}], inner), pa.array(["p"]).dictionary_encode().cast(fields[2].type)],
        schema=pa.schema(fields),
    )
    ctx.register_table("commented", hr.MemTable(rows))
    sink = ctx.register_streaming_table("commented_stream", rows.schema)
    for name in ("commented", "commented_stream"):
        assert comments(ctx, name) == {"id": "it's the \u00fc key", "st": "a struct", "plain": None}
        struct: Any = ctx.table(name).schema["st"].dataType
        assert [field.metadata for field in struct] == [{"comment": "inside"}, {}]
    sink.close()
    assert ctx.collect("SELECT st.x, id FROM commented WHERE plain = 'p'").to_pylist() == [{"x": 2, "id": 1}]
