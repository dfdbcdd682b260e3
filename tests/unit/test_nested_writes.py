"""Nested values that Spark sent, in the table's own types: as they come in a message, empty lists without memory."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from headrace.arrow.conversion import batch_converter, to_wire
from headrace.arrow.types import is_list, wire_schema
from headrace.errors import SchemaMismatchError

PAIR = pa.list_(pa.float32(), 2)
LEAVES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False]),
    (pa.uint8(), [0, 255]),
    (pa.int64(), [-1, 2**40]),
    (pa.float32(), [0.5]),
    (pa.string_view(), ["", "a text of more than twelve bytes"]),
    (pa.large_string(), ["", "é"]),
    (pa.binary(2), [b"ab"]),
    (pa.date64(), []),
    (pa.decimal256(9, 2), []),
    (pa.timestamp("ns", "Europe/Paris"), []),
]


def random_type(rng: random.Random, depth: int) -> pa.DataType:
    if depth == 0:
        return rng.choice(LEAVES)[0]
    element = random_type(rng, rng.randrange(depth))
    fields = [("a", element), ("b", random_type(rng, rng.randrange(depth)))]
    kinds = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view]
    nested = [kind(element) for kind in kinds] + [pa.list_(element, size) for size in (0, 1, 2, 3)]
    return rng.choice([*nested, pa.struct(fields), pa.map_(pa.string(), element)])


def random_value(rng: random.Random, type_: pa.DataType, nulls: float) -> Any:
    if rng.random() < nulls:
        return None
    if pa.types.is_struct(type_):
        return {field.name: random_value(rng, field.type, nulls) for field in type_}
    if pa.types.is_map(type_):
        return [(f"key {i}", random_value(rng, type_.item_type, nulls)) for i in range(rng.randrange(3))]
    if is_list(type_):
        size = type_.list_size if pa.types.is_fixed_size_list(type_) else rng.randrange(3)
        return [random_value(rng, type_.value_type, nulls) for _ in range(size)]
    return rng.choice([None, *dict(LEAVES)[type_]])


def received(values: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    """A batch of one column as a message brings it: what is empty has no memory at all."""
    batch = pa.record_batch([pa.array(values, schema.field(0).type)], schema=schema)
    return pa.ipc.read_record_batch(batch.serialize(), schema)


def written(values: list[Any], type_: pa.DataType) -> pa.Array:
    own = pa.schema([("c", type_)])
    wire = wire_schema(own)
    convert = batch_converter(wire, own)
    batch = received(values, wire)
    return (batch if convert is None or wire == own else convert(batch)).column(0)


@pytest.mark.parametrize("type_", [PAIR, pa.list_(pa.list_(pa.string(), 1), 2), pa.struct([("a", PAIR)])], ids=str)
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_nulls_of_lists_of_a_fixed_size_come_whole(type_: pa.DataType, rows: int) -> None:
    """pyarrow's own cast ends the process."""
    array = written([None] * rows, type_)
    array.validate(full=True)
    assert (array.type, array.to_pylist()) == (type_, [None] * rows)


@pytest.mark.parametrize("seed", range(150))
def test_nested_values_come_in_the_tables_own_types(seed: int) -> None:
    rng = random.Random(seed)
    type_ = random_type(rng, 3)
    nulls = rng.choice([0, 0.3, 0.9])
    values = [random_value(rng, type_, nulls) for _ in range(rng.randrange(5))]
    array = written(values, type_)
    array.validate(full=True)
    assert array.type == type_
    assert array.to_pylist() == values
    back = to_wire(array.slice(1), wire_schema(pa.schema([("c", type_)])).field(0).type, "c")
    back.validate(full=True)
    assert back.to_pylist() == values[1:]


@pytest.mark.parametrize("value", [[], [1.0], [1.0, 2.0, 3.0]])
def test_list_of_another_size_than_the_tables_is_refused(value: list[float]) -> None:
    with pytest.raises(SchemaMismatchError, match=rf"column 'c'.*list of {len(value)} values, expected 2"):
        written([None, [1.0, 2.0], value], PAIR)
