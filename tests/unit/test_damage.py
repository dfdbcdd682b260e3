"""Broken batches in Python: found where Python reads them, and never a crash, also where they are left to the JVM."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pytest

from broken_arrays import ALL, CONVERTED, ENDS, INSIDE, broken_batch
from headrace.arrow.damage import DamageCheck
from lossless import LOSSLESS
from places import SCRIPTS


@pytest.mark.parametrize("name", ALL)
def test_damage_of_a_column_that_is_read_names_the_column(name: str) -> None:
    batch = broken_batch(name)
    damage = DamageCheck(batch.schema, read=["c"]).damage(batch)
    assert damage is not None
    assert damage.startswith("column 'c': ")


@pytest.mark.parametrize("name", ENDS)
def test_damage_at_an_end_is_found_without_reading(name: str) -> None:
    batch = broken_batch(name)
    assert DamageCheck(batch.schema).damage(batch) is not None


@pytest.mark.parametrize("array", LOSSLESS.values(), ids=LOSSLESS)
def test_damage_of_whole_arrays_of_any_type_and_of_their_slices_is_none(array: pa.Array) -> None:
    batch = pa.RecordBatch.from_arrays([array], ["c"])
    check = DamageCheck(batch.schema, read=["c"])
    for start, length in ((0, 4), (1, 3), (1, 2), (2, 1), (0, 0), (3, 0)):
        assert check.damage(batch.slice(start, length)) is None


def test_damage_of_nulls_where_none_are_declared_and_of_text_that_is_no_utf8_is_none() -> None:
    inner = pa.array([None, "a"])
    strict = pa.StructArray.from_arrays([inner], fields=[pa.field("s", pa.string(), nullable=False)])
    bytes_ = pa.array([b"\xff", b"a"]).view(pa.string())
    batch = pa.RecordBatch.from_arrays([strict, bytes_], ["strict", "text"])
    assert DamageCheck(batch.schema, read=["strict", "text"]).damage(batch) is None


@pytest.fixture(scope="module")
def seen() -> tuple[dict[tuple[str, str], tuple[str, str]], str]:
    """What tests/support/scripts/broken_in_python.py saw, in a process that a crash may end."""
    process = subprocess.run(
        [sys.executable, str(SCRIPTS / "broken_in_python.py")], capture_output=True, text=True, timeout=60
    )
    lines = [line.removeprefix("FOUND ") for line in process.stdout.splitlines() if line.startswith("FOUND ")]
    found = {(way, name): (error, message) for way, name, error, message in map(json.loads, lines)}
    return found, f"{process.returncode}:\n{process.stdout[-300:]}\n{process.stderr[-2000:]}"


@pytest.mark.parametrize("way", ["stream", "limit 1", "limit 2", "part", "in pieces", "sink", "memory", "filtered"])
def test_broken_batch_in_python_passes_on_or_is_a_named_error(
    seen: tuple[dict[tuple[str, str], tuple[str, str]], str], way: str
) -> None:
    found, output = seen
    for name in INSIDE if way == "filtered" else ALL:
        assert (way, name) in found, f"it did not get that far; the process ended with {output}"
        error, message = found[way, name]
        assert error in ("passed", "SchemaMismatchError")
        assert error == "passed" or "column 'c'" in message
        if way == "filtered" or (way == "stream" and (name in ENDS or name in CONVERTED)):
            assert error == "SchemaMismatchError"
