"""Headrace's reading of DDL text against Spark's own, over text made at random."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from effort import cases
from headrace.arrow.ddl import ddl_of, schema_from_ddl
from headrace.arrow.spark_types import spark_schema
from headrace.arrow.types import wire_schema
from headrace.spark.versions import has_time_type

PLAIN = (
    *("boolean", "tinyint", "BYTE", "smallint", "short", "INT", "integer", "bigint", "Long", "float", "real", "double"),
    *("string", "binary", "date", "timestamp", "timestamp_ntz", "timestamp_ltz", "void", "variant", "decimal", "dec"),
    *("numeric(5)", "decimal(38,38)", "DECIMAL( 10 , 2 )", "interval day", "interval day to second"),
    *("INTERVAL hour TO minute", "interval minute to second", "interval second"),
)
names = st.sampled_from(["a", "B_1", "`x y`", "`tick``s`", "1st", "date", "struct", "timestamp", "comment", "_"])
comments = st.sampled_from(["", "", " COMMENT 'plain'", ' comment "it\'s"', " COMMENT 'it\\'s'", " COMMENT 'a\\nb'"])


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    fields = st.lists(
        st.builds(
            "{}{}{}{}{}".format,
            names,
            st.sampled_from([": ", " ", ":"]),
            inner,
            st.sampled_from(["", " NOT NULL"]),
            comments,
        ),
        max_size=3,
        unique_by=lambda text: text.split(":")[0].split(" ")[0].lower(),
    )
    return st.one_of(
        inner.map("array<{}>".format),
        st.builds("map<{}, {}>".format, inner, inner),
        fields.map(lambda texts: f"STRUCT<{', '.join(texts)}>"),
    )


types = st.recursive(st.sampled_from(PLAIN), nested, max_leaves=5)
columns = st.lists(
    st.tuples(names, types, st.sampled_from(["", " NOT NULL", " not null"]), comments),
    min_size=1,
    max_size=4,
    unique_by=lambda column: column[0].lower(),
)


def json_of(schema: pa.Schema) -> Any:
    return StructType.fromJson(spark_schema(wire_schema(schema), schema)).jsonValue()


def of_spark(text: str) -> Any:
    """Spark's schema; a variant has the same JSON there."""
    found = _parse_datatype_string(text)
    assert isinstance(found, StructType)
    return found.jsonValue()


@settings(max_examples=cases(300), deadline=None)
@given(columns)
def test_schema_from_ddl_is_what_spark_reads(spark: SparkSession, described: Any) -> None:
    text = ", ".join(f"{name} {type_}{null}{comment}" for name, type_, null, comment in described)
    try:
        expected = of_spark(text)
    except PySparkException:
        with pytest.raises(ValueError, match="at character"):
            schema_from_ddl(text)
        return
    if "void NOT NULL" in text or "void not null" in text or "map<void" in text:
        return  # Spark takes what is never null and always null; Arrow has none
    schema = schema_from_ddl(text)
    assert json_of(schema) == expected
    assert of_spark(ddl_of(schema)) == expected


def test_time_is_what_spark_reads_where_it_has_one(spark: SparkSession) -> None:
    if has_time_type():
        assert json_of(schema_from_ddl("a TIME, b time(3)")) == of_spark("a TIME, b time(3)")
    assert schema_from_ddl("a TIME").field("a").type == pa.time64("ns")


@pytest.mark.parametrize("text", ["a", "a int b", "a int,", "a array<int", "a decimal(39)", "a map<int>", "1 int", ""])
def test_text_that_spark_refuses_is_refused(spark: SparkSession, text: str) -> None:
    refused = False
    try:
        of_spark(text)
    except (PySparkException, AssertionError):
        refused = True
    if refused:
        with pytest.raises(ValueError, match="at character"):
            schema_from_ddl(text)
    else:
        assert json_of(schema_from_ddl(text)) == of_spark(text)
