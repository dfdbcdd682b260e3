"""Schemas as DDL text: what is read, what is written again, and where an error is."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.arrow.ddl import ddl_of, field_from_ddl, schema_from_ddl
from headrace.arrow.types import VARIANT

PLAIN = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "BYTE": pa.int8(),
    "SMALLINT": pa.int16(),
    "SHORT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "REAL": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "CHAR(3)": pa.string(),
    "VARCHAR(10)": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_LTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "DECIMAL": pa.decimal128(10, 0),
    "DEC(4)": pa.decimal128(4, 0),
    "NUMERIC(38, 38)": pa.decimal128(38, 38),
    "INTERVAL DAY TO SECOND": pa.duration("us"),
    "INTERVAL HOUR": pa.duration("us"),
    "TIME": pa.time64("ns"),
    "TIME(0)": pa.time64("ns"),
    "VARIANT": VARIANT,
    "ARRAY<INT>": pa.list_(pa.int32()),
    "MAP<STRING, ARRAY<DOUBLE>>": pa.map_(pa.string(), pa.list_(pa.float64())),
    "STRUCT<a: INT NOT NULL, b STRING>": pa.struct([pa.field("a", pa.int32(), nullable=False), ("b", pa.string())]),
    "STRUCT<>": pa.struct([]),
}


@pytest.mark.parametrize("text", PLAIN)
def test_schema_from_ddl_of_each_type_is_arrows(text: str) -> None:
    for written in (text, text.lower(), f"  {text}\t"):
        assert schema_from_ddl(f"c {written}") == pa.schema([("c", PLAIN[text])])
        assert schema_from_ddl(f"c: {written} NOT NULL") == pa.schema([pa.field("c", PLAIN[text], nullable=False)])
        assert field_from_ddl("c", written) == pa.field("c", PLAIN[text])


@pytest.mark.parametrize("text", PLAIN)
def test_ddl_of_a_schema_is_read_as_the_same_schema(text: str) -> None:
    schema = schema_from_ddl(f"`a ``b` {text} NOT NULL COMMENT 'it''s \\\\ so', c {text}")
    assert schema.names == ["a `b", "c"]
    assert schema_from_ddl(ddl_of(schema)).equals(schema, check_metadata=True)


def test_schema_from_ddl_keeps_comments_and_the_parts_of_intervals_in_metadata() -> None:
    schema = schema_from_ddl("a INTERVAL HOUR TO SECOND COMMENT \"how\nlong\", b TIME(3), c INT comment 'x\\ty'")
    assert [field.metadata for field in schema] == [
        {b"headrace.spark_type": b"interval hour to second", b"comment": b"how\nlong"},
        {b"headrace.spark_type": b"time(3)"},
        {b"comment": b"x\ty"},
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("a VOID", ["a"]),
        ("a INT, -- the key\n  b STRING /* free\n text */", ["a", "b"]),
        ("struct<a: int, b: string>", ["a", "b"]),
        ("`weird, name` INT, 1a INT, größe INT, date DATE, not INT", ["weird, name", "1a", "größe", "date", "not"]),
    ],
    ids=["empty", "void", "comments", "struct", "names"],
)
def test_schema_from_ddl_of_unusual_text_has_its_columns(text: str, names: list[str]) -> None:
    assert schema_from_ddl(text).names == names


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("id BIGNT", 4, "'BIGNT' is no type that Headrace knows; is BIGINT meant?"),
        ("id geometry(4326)", 4, "'geometry' is no type that Headrace knows \\(BOOLEAN, "),
        ("id", 3, "expected a type, found the end"),
        ("id int,", 8, "expected a column's name, found the end"),
        ("1 int", 1, "expected a column's name, found '1'"),
        ("id int b string", 8, "expected ',' or the end, found 'b'"),
        ("id int not", 11, "expected 'NULL', found the end"),
        ("id int comment why", 16, "expected a comment in quotes, found 'why'"),
        ("a int,\nb array<int", 19, "expected '>', found the end"),
        ("a map<string>", 13, "expected ',', found '>'"),
        ("a struct<x int", 15, "expected '>', found the end"),
        ("a decimal(39, 2)", 3, "DECIMAL\\(39, 2\\) is none of Spark's"),
        ("a decimal(3, 4)", 3, "DECIMAL\\(3, 4\\) is none of Spark's"),
        ("a decimal(x)", 11, "expected a number, found 'x'"),
        ("a decimal(1, 2, 3)", 18, "2 numbers at most"),
        ("a varchar", 10, "expected '\\(', found the end"),
        ("a time(9)", 3, "no TIME\\(9\\): 0 to 6 digits"),
        ("a interval", 3, "INTERVAL is not supported: say of what it is"),
        ("a interval month", 3, "INTERVAL MONTH is not supported: use INT"),
        ("a interval second to day", 3, "INTERVAL SECOND TO DAY is not supported: the first unit is larger"),
        ("a void not null", 12, "every value of VOID is null"),
        ("a map<void, int>", 7, "a key of a map is never null"),
        ("a-b int", 2, "'-' is not expected"),
        ("a int default 5", 7, "expected ',' or the end, found 'default'"),
    ],
)
def test_schema_from_ddl_of_bad_text_says_what_and_where(text: str, place: int, words: str) -> None:
    with pytest.raises(ValueError, match=f"at character {place} of the schema: .*{words}") as raised:
        schema_from_ddl(text)
    line, mark = str(raised.value).splitlines()[-2:]
    assert mark.index("^") - 2 == place - 1 - (text.rfind("\n", 0, place - 1) + 1)
    assert line[2:] in text
