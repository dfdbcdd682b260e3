"""Fuzzing of the JVM's frame parser: garbage in, named error out."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.transport.driver_partition import DriverPartition
from raw_frames import WHOLE, numbers, serving
from recording import table_of


def mutated(seed: int) -> bytes:
    """A whole stream with a few bytes changed, cut or doubled."""
    rng = random.Random(seed)
    data = bytearray(WHOLE)
    for _ in range(rng.randint(1, 6)):
        position = rng.randrange(len(data))
        action = rng.randrange(3)
        if action == 0:
            data[position] = rng.randrange(256)
        elif action == 1:
            del data[position : position + rng.randint(1, 40)]
        else:
            data[position:position] = rng.randbytes(rng.randint(1, 40))
    return bytes(data)


@pytest.mark.daily("?")
@pytest.mark.parametrize("seed", range(25))
def test_reader_damaged_stream_is_a_named_error_or_whole_and_leaks_nothing(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    damaged = mutated(seed)
    monkeypatch.setattr(DriverPartition, "serve", serving(damaged))
    ctx.register_table("t", table_of(pa.table(numbers(0, 3)), placement=hr.Placement.DRIVER))
    try:
        assert ctx.collect("SELECT i, s FROM t").num_rows == 1
    except hr.HeadraceError as error:
        assert str(error)
    allocator: Any = ctx.spark._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    assert allocator.getAllocatedMemory() == 0
