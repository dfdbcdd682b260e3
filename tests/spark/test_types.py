"""What each Arrow type becomes in Spark, without Spark: the promises of docs/types.md."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.arrow.conversion import converter, to_wire
from headrace.arrow.nulls import forbidden_null, forbids_nulls
from headrace.arrow.spark_types import pruned_schema, spark_schema_json, spark_type
from headrace.arrow.types import wire_schema, wire_type
from places import ROOT

DOCS = ROOT / "docs" / "types.md"
ROWS = re.findall(r"^\| `(pa\..+?)` \| (?:`(.+?)`|(refused)) \| (.+?) \|$", DOCS.read_text(), re.MULTILINE)
SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def documented_type(text: str) -> pa.DataType:
    return eval(text, {"pa": pa})


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


def test_documented_types_of_arrow_none_is_missing() -> None:
    every = {getattr(pa.lib, name) for name in dir(pa.lib) if name.startswith("Type_")}
    unreachable = {pa.lib.Type_INTERVAL_MONTHS, pa.lib.Type_INTERVAL_DAY_TIME}  # pyarrow cannot make them
    assert every - unreachable <= {documented_type(arrow).id for arrow, *_ in ROWS}


def runs(values: pa.Array, ends: list[int]) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), values)


def coded(values: pa.Array, indices: list[int | None]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), values)


LOSSLESS = {
    "uint8": pa.array([1, None, 255, 0], pa.uint8()),
    "uint16": pa.array([1, None, 2**16 - 1, 0], pa.uint16()),
    "uint32": pa.array([1, None, 2**32 - 1, 0], pa.uint32()),
    "uint64": pa.array([1, None, 2**64 - 1, 0], pa.uint64()),
    "float16": pa.array([np.float16(1.5), None, np.float16(-0.0), np.float16("inf")], pa.float16()),
    "large_string": pa.array(["a", None, "", "zürich"], pa.large_string()),
    "string_view": pa.array(["a", None, "", "more than twelve bytes"], pa.string_view()),
    "large_binary": pa.array([b"a", None, b"", b"\x00\xff"], pa.large_binary()),
    "binary_view": pa.array([b"a", None, b"", b"more than twelve bytes"], pa.binary_view()),
    "fixed_size_binary": pa.array([b"abc", None, b"xyz", b"\0\0\0"], pa.binary(3)),
    "date64": pa.array([dt.date(2020, 1, 1), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)], pa.date64()),
    "timestamp_s": pa.array([1, None, -5, 0], pa.timestamp("s")),
    "timestamp_ms_zone": pa.array([1, None, -5, 0], pa.timestamp("ms", "Asia/Tokyo")),
    "timestamp_ns": pa.array([1000, None, -5000, 0], pa.timestamp("ns")),
    "duration_ns": pa.array([1000, None, -5000, 0], pa.duration("ns")),
    "decimal32": pa.array([Decimal("1.25"), None, Decimal("-3.10"), Decimal(0)], pa.decimal32(5, 2)),
    "decimal64": pa.array([Decimal("1.25"), None, Decimal("-3.10"), Decimal(0)], pa.decimal64(15, 2)),
    "decimal256": pa.array([Decimal("9" * 38), None, Decimal(-1), Decimal(0)], pa.decimal256(38, 0)),
    "decimal_hundreds": pa.array([Decimal("1.2E+4"), None, Decimal("-1E+2"), Decimal(0)], pa.decimal128(5, -2)),
    "list_view": pa.array([[1, 2], None, [], [None]], pa.list_view(pa.int32())),
    "large_list_view": pa.array([[1, 2], None, [], [None]], pa.large_list_view(pa.uint8())),
    "large_list": pa.array([[1, 2], None, [], [None]], pa.large_list(pa.int32())),
    "fixed_size_list": pa.array([[1, 2], None, [3, None], [5, 6]], pa.list_(pa.uint8(), 2)),
    "struct": pa.array(
        [{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 3, "b": ""}],
        pa.struct([("a", pa.uint8()), ("b", pa.large_string())]),
    ),
    "map": pa.array([[("k", 1)], None, [], [("a", None), ("b", 2)]], pa.map_(pa.large_string(), pa.uint32())),
    "map_of_lists": pa.array(
        [[("k", [1, None])], None, [], [("a", None)]], pa.map_(pa.string(), pa.large_list(pa.uint8()))
    ),
    "list_of_structs": pa.array(
        [[{"a": "x"}], None, [], [{"a": None}, None]],
        pa.list_(pa.struct([("a", pa.dictionary(pa.int8(), pa.string()))])),
    ),
    "dictionary": coded(pa.array(["x", "y"]), [1, None, 0, 1]),
    "dictionary_with_null_value": coded(pa.array(["x", None]), [1, None, 0, 1]),
    "dictionary_of_views": coded(pa.array(["x", "y"], pa.string_view()), [1, None, 0, 1]),
    "dictionary_of_structs": coded(pa.array([{"a": 1}, None]), [1, None, 0, 1]),
    "run_end_encoded": runs(pa.array(["a", None, "b"]), [1, 2, 4]),
    "run_end_encoded_views": runs(pa.array(["a", None, "b"], pa.string_view()), [1, 2, 4]),
    "run_end_encoded_dictionary": runs(coded(pa.array(["x", "y"]), [1, None, 0]), [1, 2, 4]),
    "run_end_encoded_lists": runs(pa.array([[1], None, []]), [1, 2, 4]),
    "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", None, "[]", "1"])),
    "null": pa.nulls(4),
}


@pytest.mark.parametrize("array", LOSSLESS.values(), ids=LOSSLESS)
def test_to_wire_any_slice_keeps_every_value(array: pa.Array) -> None:
    target = wire_type(array.type, "c")
    for start, length in ((0, 4), (1, 3), (1, 2), (2, 1), (0, 0), (3, 0)):
        part = array.slice(start, length)
        sent = to_wire(part, target, "c")
        sent.validate(full=True)
        assert sent.type == target
        assert sent.to_pylist() == part.to_pylist()


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1001], pa.timestamp("ns")),
        pa.array([1001], pa.timestamp("ns", "UTC")),
        pa.array([2**60], pa.timestamp("s")),
        pa.array([1001], pa.duration("ns")),
        pa.array([86_400_001]).view(pa.date64()),
        pa.array([[1001]], pa.list_(pa.timestamp("ns"))),
        pa.array([{"t": 1001}], pa.struct([("t", pa.timestamp("ns"))])),
        coded(pa.array([1001], pa.timestamp("ns")), [0]),
    ],
    ids=str,
)
def test_to_wire_value_that_does_not_fit_is_named(array: pa.Array) -> None:
    with pytest.raises(hr.SchemaMismatchError, match=r"column 'seen_at'.*(lose data|out of bounds)"):
        to_wire(array, wire_type(array.type, "seen_at"), "seen_at")


def test_wire_type_nested_refusal_names_the_path() -> None:
    with pytest.raises(hr.UnsupportedTypeError, match=r"'order\.lines\.element\.at'.*time64"):
        wire_type(pa.struct([("lines", pa.list_(pa.struct([("at", pa.time64("us"))])))]), "order")


def test_wire_schema_two_columns_of_one_name_is_refused() -> None:
    with pytest.raises(hr.RegistrationError, match="two fields named 'a'"):
        wire_schema(pa.schema([("a", pa.int8()), ("a", pa.int16())]))
    with pytest.raises(hr.RegistrationError, match=r"struct column 's'.*two fields named 'a'"):
        wire_schema(pa.schema([("s", pa.struct([("a", pa.int8()), ("a", pa.int16())]))]))


def test_converter_same_type_is_none() -> None:
    assert converter(pa.list_(pa.int8()), pa.list_(pa.int8()), "c") is None


def test_spark_schema_nullability_is_kept_at_every_level() -> None:
    inner = pa.struct([pa.field("a", pa.int8(), nullable=False), ("b", pa.int8())])
    schema = pa.schema([pa.field("s", inner, nullable=False), ("l", pa.list_(pa.field("x", pa.int8(), False)))])
    struct, array = json.loads(spark_schema_json(wire_schema(schema)))["fields"]
    assert (struct["nullable"], array["nullable"]) == (False, True)
    assert [field["nullable"] for field in struct["type"]["fields"]] == [False, True]
    assert array["type"]["containsNull"] is False


PAIR = pa.struct([("a", pa.int8()), ("b", pa.int8())])


@pytest.mark.parametrize(
    ("type_", "pruned"),
    [
        (PAIR, pa.struct([("b", pa.int8())])),
        (pa.list_(PAIR), pa.list_(pa.struct([("b", pa.int8())]))),
        (pa.large_list(PAIR), pa.large_list(pa.struct([("b", pa.int8())]))),
        (pa.list_(PAIR, 2), pa.list_(pa.struct([("b", pa.int8())]), 2)),
        (pa.list_view(PAIR), pa.list_view(pa.struct([("b", pa.int8())]))),
        (pa.large_list_view(PAIR), pa.large_list_view(pa.struct([("b", pa.int8())]))),
        (pa.map_(pa.string(), PAIR), pa.map_(pa.string(), pa.struct([("b", pa.int8())]))),
        (pa.map_(PAIR, pa.string()), pa.map_(pa.struct([("b", pa.int8())]), pa.string())),
        (pa.dictionary(pa.int8(), PAIR), pa.dictionary(pa.int8(), pa.struct([("b", pa.int8())]))),
        (pa.run_end_encoded(pa.int32(), PAIR), pa.run_end_encoded(pa.int32(), pa.struct([("b", pa.int8())]))),
    ],
    ids=str,
)
def test_pruned_schema_nested_field_is_cut_and_data_follows(type_: pa.DataType, pruned: pa.DataType) -> None:
    wanted = json.loads(spark_schema_json(pa.schema([("c", wire_type(pruned, "c"))])))
    assert pruned_schema(pa.schema([("c", type_)]), wanted).field("c").type == pruned
    convert = converter(type_, wire_type(pruned, "c"), "c")
    assert convert is not None
    entries = {"a": 1, "b": 2}
    value = {"map<string": [("k", entries)], "map<struct": [(entries, "v")]}.get(str(type_).partition(", ")[0][:10])
    if pa.types.is_dictionary(type_):
        array = coded(pa.array([entries], PAIR), [0])
    elif pa.types.is_run_end_encoded(type_):
        array = runs(pa.array([entries], PAIR), [1])
    else:
        plain = entries if pa.types.is_struct(type_) else [entries, entries]
        array = pa.array([value or plain], type_)
    text = str(convert(array).to_pylist())
    assert "'b': 2" in text
    assert "'a'" not in text


NOT_NULL = pa.field("x", pa.int8(), nullable=False)


@pytest.mark.parametrize(
    ("type_", "good", "bad", "path"),
    [
        (pa.struct([NOT_NULL]), [{"x": 1}, None], [{"x": None}], "c.x"),
        (pa.list_(NOT_NULL), [[1], None, []], [[1, None]], "c.element"),
        (pa.map_(pa.string(), NOT_NULL), [[("k", 1)], None, []], [[("k", None)]], "c.value"),
        (pa.list_(pa.struct([NOT_NULL])), [[{"x": 1}, None], None], [None, [{"x": None}]], "c.element.x"),
    ],
    ids=str,
)
def test_forbidden_null_nested_is_found_and_null_parents_are_not(
    type_: pa.DataType, good: list[Any], bad: list[Any], path: str
) -> None:
    loose = pa.field("c", type_)
    assert forbids_nulls(loose)
    assert forbidden_null(pa.array(good, type_), loose, "c") is None
    array = pa.array([*good, *bad], type_)
    assert forbidden_null(array, loose, "c") == path
    assert forbidden_null(array.slice(0, len(good)), loose, "c") is None
    assert forbidden_null(array.slice(0, 0), loose, "c") is None


def test_forbids_nulls_all_nullable_is_false() -> None:
    assert not forbids_nulls(pa.field("c", pa.list_(pa.struct([("a", pa.int8())]))))
