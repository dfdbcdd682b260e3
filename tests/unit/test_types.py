"""What each Arrow type becomes in Spark: the promises of docs/types.md."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from documented_types import ROWS, documented_type
from headrace.arrow.conversion import converter, to_wire
from headrace.arrow.nulls import NullCheck
from headrace.arrow.spark_types import SPARK_TYPE, pruned_schema, spark_schema, spark_type
from headrace.arrow.types import VARIANT, wire_schema, wire_type
from lossless import LOSSLESS, coded, runs


def test_documented_types_of_arrow_none_is_missing() -> None:
    every = {getattr(pa.lib, name) for name in dir(pa.lib) if name.startswith("Type_")}
    unreachable = {pa.lib.Type_INTERVAL_MONTHS, pa.lib.Type_INTERVAL_DAY_TIME}  # pyarrow cannot make them
    assert every - unreachable <= {documented_type(arrow).id for arrow, *_ in ROWS}


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


@pytest.mark.parametrize("type_", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")], ids=str)
def test_wire_type_of_a_time_of_day_is_nanoseconds(type_: pa.DataType) -> None:
    times = pa.array([0, None, 1], type_)
    sent = to_wire(times, wire_type(type_, "at"), "at")
    assert sent.type == pa.time64("ns")
    assert sent.to_pylist() == times.to_pylist()
    assert spark_type(sent.type) == "time(6)"
    assert spark_type(sent.type, pa.field("at", type_, metadata={SPARK_TYPE: "time(3)"})) == "time(3)"


def test_spark_type_of_a_variant_is_known_by_its_mark() -> None:
    nested = pa.list_(pa.struct([pa.field("v", VARIANT)]))
    wire = wire_schema(pa.schema([("v", VARIANT), ("l", nested), ("n", pa.int64())]))
    unmarked = pa.struct([VARIANT.field(i).remove_metadata() for i in range(2)])
    assert spark_schema(wire)["fields"][0]["type"] == "variant"
    assert spark_schema(wire)["fields"][1]["type"]["elementType"]["fields"][0]["type"] == "variant"
    assert spark_type(wire_type(unmarked, "v"))["type"] == "struct"  # type: ignore[index]
    assert (
        pruned_schema(pa.schema([("v", VARIANT)]), spark_schema(pa.schema([wire.field(0)]))).field("v").type == VARIANT
    )


@pytest.mark.parametrize("name", ["interval year", "interval second to day", "time(3)", "string", ""])
def test_spark_type_named_that_the_column_cannot_be_is_refused(name: str) -> None:
    field = pa.field("took", pa.duration("us"), metadata={SPARK_TYPE: name})
    with pytest.raises(hr.UnsupportedTypeError, match=r"'took' has Arrow type duration\[us\]"):
        spark_schema(wire_schema(pa.schema([field])), pa.schema([field]))


def test_spark_type_named_inside_of_others_is_told() -> None:
    named = pa.field("x", pa.duration("s"), metadata={SPARK_TYPE: "interval minute"})
    schema = pa.schema([("s", pa.struct([named])), ("l", pa.list_(named)), ("m", pa.map_(pa.string(), named))])
    struct, array, map_ = (field["type"] for field in spark_schema(wire_schema(schema), schema)["fields"])
    assert struct["fields"][0]["type"] == array["elementType"] == map_["valueType"] == "interval minute"


def test_wire_type_nested_refusal_names_the_path() -> None:
    with pytest.raises(hr.UnsupportedTypeError, match=r"'order\.lines\.element\.at'.*month_day_nano"):
        wire_type(pa.struct([("lines", pa.list_(pa.struct([("at", pa.month_day_nano_interval())])))]), "order")


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
    struct, array = spark_schema(wire_schema(schema))["fields"]
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
    wanted = spark_schema(pa.schema([("c", wire_type(pruned, "c"))]))
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
    schema = pa.schema([("c", type_)])
    check = NullCheck(schema)
    assert check
    assert check.path(pa.record_batch([pa.array(good, type_)], schema=schema)) is None
    batch = pa.record_batch([pa.array([*good, *bad], type_)], schema=schema)
    assert check.path(batch) == path
    assert check.path(batch.slice(0, len(good))) is None
    assert check.path(batch.slice(0, 0)) is None


def test_null_check_of_a_schema_that_allows_nulls_everywhere_is_false() -> None:
    assert not NullCheck(pa.schema([("c", pa.list_(pa.struct([("a", pa.int8())])))]))


def test_spark_schema_comments_are_told_at_every_level() -> None:
    def commented(name: str, type_: pa.DataType) -> pa.Field:
        return pa.field(name, type_, metadata={"comment": f"about {name}", "other": "x"})

    inner = pa.struct([commented("x", pa.uint8()), pa.field("y", pa.string())])
    schema = pa.schema(
        [
            commented("s", inner),
            commented("l", pa.large_list(inner)),
            commented("m", pa.map_(pa.string(), inner)),
            commented("d", pa.dictionary(pa.int8(), pa.string())),
            pa.field("plain", pa.int64(), metadata={"comment": ""}),
        ]
    )
    told = spark_schema(wire_schema(schema), schema)
    comments = {field["name"]: field["metadata"] for field in told["fields"]}
    assert comments == {name: {"comment": f"about {name}"} for name in "slmd"} | {"plain": {}}
    types = [field["type"] for field in told["fields"]]
    for struct in (types[0], types[1]["elementType"], types[2]["valueType"]):
        assert [field["metadata"] for field in struct["fields"]] == [{"comment": "about x"}, {}]
