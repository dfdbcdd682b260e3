"""A write without Spark: what its provider is asked and refused, what the plan's code gets, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import SchemaMismatchError, WriteError
from headrace.execute.writing import TableBatches, WriteCode, message_bytes
from headrace.negotiate.registry import RegisteredTable
from headrace.negotiate.writing import checked_columns, planned_write
from written_files import SCHEMA, FilePlan, FileTable

WIRE = SCHEMA


def table_of(provider: hr.TableProvider) -> RegisteredTable:
    return RegisteredTable.of("t", provider)


def batch(*ids: int | None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(ids, pa.int64()), pa.array(["a"] * len(ids))], schema=WIRE)


def test_write_code_gives_the_plan_its_task_and_returns_its_message_as_json(tmp_path: Path) -> None:
    planned = planned_write(table_of(FileTable(tmp_path)), hr.WriteMode.APPEND)
    plan = planned.begin("query", 7, {"color": "red"})
    message = json.loads(planned.code(plan, 7)(3, 99, iter([batch(1, 2), batch(3)])))
    assert message == {"file": "query 7 3 99.arrow", "rows": 3}
    plan.commit([message])
    assert [row["id"] for row in plan.table.rows()] == [1, 2, 3]  # type: ignore[attr-defined]


@pytest.mark.parametrize("message", [None, 1, "a", [1, None], {"a": {"b": [1.5, True]}}, (1, (2,)), {"a": (1,)}])
def test_message_that_is_json_comes_back(message: Any) -> None:
    assert json.loads(message_bytes(message, "P.write")) == json.loads(json.dumps(message))


@pytest.mark.parametrize("message", [{1: 2}, {"a": {2: 3}}, [{None: 1}], float("nan"), {1, 2}, b"x", object()])
def test_message_that_is_no_json_is_refused_by_name(message: Any) -> None:
    with pytest.raises(WriteError, match=r"P\.write returned .* which is no JSON value .*\(table 't'\)"):
        message_bytes(message, "P.write", "(table 't')")


def test_message_that_has_no_end_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(WriteError, match="no JSON value"):
        message_bytes(endless, "P.write")


def test_message_of_which_no_text_can_be_made_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(WriteError, match=r"P\.write returned list, which is no JSON value"):
        message_bytes(deep, "P.write")


TYPES: list[tuple[pa.DataType, pa.DataType, list[Any]]] = [
    (pa.uint8(), pa.int16(), [200, None]),
    (pa.uint64(), pa.decimal128(20, 0), [2**63 + 5, None]),
    (pa.large_string(), pa.string(), ["é", None]),
    (pa.string_view(), pa.string(), ["é", None]),
    (pa.dictionary(pa.int8(), pa.string()), pa.string(), ["x", "x", None]),
    (pa.binary(2), pa.binary(), [b"ab", None]),
    (pa.date64(), pa.date32(), [None]),
    (pa.timestamp("s", tz="Europe/Berlin"), pa.timestamp("us", tz="UTC"), [None]),
    (pa.timestamp("ns"), pa.timestamp("us"), [None]),
    (pa.list_(pa.uint16()), pa.list_(pa.int32()), [[1, None], None, []]),
    (pa.struct([("a", pa.uint8())]), pa.struct([("a", pa.int16())]), [{"a": 1}, None]),
]


@pytest.mark.parametrize(("type_", "wire", "values"), TYPES, ids=[str(one[0]) for one in TYPES])
def test_batches_come_in_the_tables_own_types(type_: pa.DataType, wire: pa.DataType, values: list[Any]) -> None:
    own, sent = pa.schema([pa.field("c", type_, metadata={"comment": "x"})]), pa.schema([("c", wire)])
    received = iter([pa.record_batch([pa.array(values, wire)], schema=sent)])
    (found,) = TableBatches(received, sent, own, "(table 't')")
    assert found.schema.equals(own, check_metadata=True)
    assert found["c"].to_pylist() == values


@pytest.mark.parametrize("types", [(pa.uint8(), pa.int16(), [256]), (pa.binary(2), pa.binary(), [b"abc"])])
def test_value_that_the_tables_type_cannot_hold_is_an_error_that_the_plan_cannot_pass_over(types: Any) -> None:
    type_, wire, values = types
    sent = pa.schema([("c", wire)])
    batches = TableBatches(
        iter([pa.record_batch([pa.array(values, wire)], schema=sent)] * 2), sent, pa.schema([("c", type_)]), "(here)"
    )
    for _ in range(2):
        with pytest.raises(SchemaMismatchError, match=r"column 'c'.*\(here\)"):
            next(batches)
    with pytest.raises(SchemaMismatchError):
        batches.check()


class Careless(FilePlan):
    """Passes over every error."""

    def write(self, task: hr.WriteTask, batches: Iterator[pa.RecordBatch]) -> hr.Message:
        try:
            list(batches)
        except Exception:
            return "all is well"
        return None


def test_null_for_a_column_that_is_not_null_fails_a_write_that_passes_over_it(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    plan = Careless(FileTable(tmp_path, schema), hr.WriteRequest(schema))
    code = WriteCode(plan, "t", schema, schema)
    with pytest.raises(SchemaMismatchError, match=r"a null came for column 'id', .*\(table 't', partition 4\)"):
        code(4, 1, iter([batch(1), batch(2, None)]))


def test_write_that_is_stopped_in_the_midst_passes_the_error_on(tmp_path: Path) -> None:
    def cut() -> Iterator[pa.RecordBatch]:
        yield batch(1)
        raise ConnectionError("cut")

    planned = planned_write(table_of(FileTable(tmp_path)), hr.WriteMode.APPEND)
    plan = planned.begin("query")
    with pytest.raises(ConnectionError, match="cut"):
        planned.code(plan)(0, 1, cut())
    assert plan.table.staged() == []  # type: ignore[attr-defined]


def test_read_only_table_is_refused_by_name() -> None:
    with pytest.raises(WriteError, match=r"'t' is read-only: its provider SimpleTable is no WritableProvider"):
        planned_write(table_of(hr.SimpleTable("id BIGINT", list)), hr.WriteMode.APPEND)


def test_columns_of_another_name_type_or_order_are_refused_with_both() -> None:
    table = table_of(hr.SimpleTable("id BIGINT, tags ARRAY<STRING>", list))
    tags = {"type": "array", "elementType": "string", "containsNull": True}

    def struct(*fields: tuple[str, Any]) -> dict[str, Any]:
        return {
            "type": "struct",
            "fields": [{"name": name, "type": type_, "nullable": False, "metadata": {}} for name, type_ in fields],
        }

    checked_columns(table, struct(("id", "long"), ("tags", {**tags, "containsNull": False})))
    for found in (
        struct(("id", "long")),
        struct(("tags", tags), ("id", "long")),
        struct(("id", "integer"), ("tags", tags)),
        struct(("id", "long"), ("tags", {**tags, "elementType": "long"})),
    ):
        with pytest.raises(SchemaMismatchError, match=r"(?s)are not its own.*expected:.*id: long.*found:"):
            checked_columns(table, found)
