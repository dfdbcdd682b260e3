"""The JVM's check of received batches, in a plain JVM: what is whole passes, what is broken is named."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pytest

from broken_arrays import HUGE, INSIDE, ITEMS, broken_batch
from headrace.arrow.conversion import to_wire
from headrace.arrow.types import wire_type
from java_checks import compiled_checks, run_check
from lossless import LOSSLESS

pytestmark = pytest.mark.daily

WHOLE = {
    "bool": pa.array([True, None, False, True]),
    "int64": pa.array([1, None, 3, 4]),
    "string": pa.array(["a", None, "", "more than twelve bytes"]),
    "lists of strings": pa.array([["a", None], None, [], ["b"]]),
    "nothing": pa.nulls(4),
    "only nulls": pa.array([None] * 4, pa.string()),
    **{name: to_wire(array, wire_type(array.type, "c"), "c") for name, array in LOSSLESS.items()},
}
SLICES = [(0, 4), (1, 3), (1, 2), (2, 1), (0, 0), (3, 0)]
TEXT = pa.record_batch(
    {
        "c": pa.Array.from_buffers(
            pa.string(), 3, [None, pa.array([0, 3, 5, 11], pa.int32()).buffers()[1], pa.py_buffer(b"x" * 11)]
        )
    }
)
LISTS = pa.record_batch({"c": pa.ListArray.from_arrays(pa.array([0, 3, 5, 11], pa.int32()), ITEMS)})
ENDS = [(HUGE, HUGE, HUGE, HUGE), (-7, 3, 5, 11), (0, 3, 5, HUGE), (0, 3, 5, -1), (0, 3, 5, 4096)]


def patched(batch: pa.RecordBatch, offsets: tuple[int, ...]) -> bytes:
    """The batch's IPC message with other offsets."""
    message, old = bytes(batch.serialize()), struct.pack("<4i", 0, 3, 5, 11)
    assert message.count(old) == 1
    return message.replace(old, struct.pack("<4i", *offsets))


def compressed(batch: pa.RecordBatch) -> bytes:
    """The batch's IPC message, its buffers compressed."""
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    _schema, message = pa.ipc.MessageReader.open_stream(stream.getvalue())
    return bytes(message.serialize())


def messages() -> dict[str, tuple[pa.Schema, bytes]]:
    made: dict[str, tuple[pa.Schema, bytes]] = {}
    for name, array in WHOLE.items():
        for start, length in SLICES:
            batch = pa.RecordBatch.from_arrays([array.slice(start, length)], ["c"])
            made[f"whole {name} {start} {length}"] = (batch.schema, bytes(batch.serialize()))
    several = pa.RecordBatch.from_arrays(list(WHOLE.values()), list(WHOLE))
    made["whole all together"] = (several.schema, bytes(several.serialize()))
    counted = several.select([])
    made["whole no columns"] = (counted.schema, bytes(counted.serialize()))
    for name in INSIDE:
        batch = broken_batch(name)
        made[f"inside {name}"] = (batch.schema, bytes(batch.serialize()))
    for number, offsets in enumerate(ENDS):
        made[f"ends text {number}"] = (TEXT.schema, patched(TEXT, offsets))
        made[f"ends lists {number}"] = (LISTS.schema, patched(LISTS, offsets))
    made["cut"] = (
        TEXT.schema,
        bytes(TEXT.serialize())[:-8],
    )  # Arrow rounds the memory up, and would read what lies there
    made["compressed"] = (TEXT.schema, compressed(TEXT))
    return made


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder: Path = tmp_path_factory.mktemp("batches")
    for name, (schema, batch) in messages().items():
        (folder / f"{name}.schema").write_bytes(bytes(schema.serialize()))
        (folder / f"{name}.batch").write_bytes(batch)
    output = run_check(compiled_checks(tmp_path_factory.mktemp("checks")), "read.BatchCheckCheck", str(folder))
    return {name: rest for name, *rest in (line.split("\t") for line in output.splitlines())}


def test_batch_check_of_whole_batches_of_every_type_and_slice_passes(found: dict[str, list[str]]) -> None:
    for name, array in WHOLE.items():
        for start, length in SLICES:
            rows = len(array.slice(start, length))
            assert found[f"whole {name} {start} {length}"] == [f"whole, {rows} rows"], name
    assert found["whole all together"] == ["whole, 4 rows"]
    assert found["whole no columns"] == ["whole, 4 rows"]
    assert found["memory left"] == ["0"]


@pytest.mark.parametrize("name", INSIDE)
def test_batch_check_of_broken_offsets_names_column_found_and_expected(found: dict[str, list[str]], name: str) -> None:
    error, message = found[f"inside {name}"]
    assert error == "Broken"
    assert message.startswith("column 'c")
    assert "expected" in message


@pytest.mark.parametrize("kind", ["text", "lists"])
@pytest.mark.parametrize("number", range(len(ENDS)))
def test_batch_check_of_broken_ends_is_refused(found: dict[str, list[str]], kind: str, number: int) -> None:
    assert found[f"ends {kind} {number}"][0] == "Broken"


def test_batch_check_of_a_body_that_is_too_short_is_refused(found: dict[str, list[str]]) -> None:
    assert found["cut"] == ["IndexOutOfBoundsException", "a buffer of column 'c' reaches beyond the batch"]


def test_batch_check_of_compressed_buffers_is_refused_before_they_are_opened(found: dict[str, list[str]]) -> None:
    assert found["compressed"] == ["IllegalArgumentException", "compressed buffers, which Headrace never sends"]
    assert found["memory left"] == ["0"]
