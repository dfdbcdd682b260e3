"""What the JVM says to frames that are wrong."""

from __future__ import annotations

import json
import struct
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.transport.driver_partition import DriverPartition
from headrace.transport.protocol import FRAME_HEADER, MAX_FIRST_BYTES, MAX_SECOND_BYTES
from raw_frames import BODY, END, METADATA, NONCE, SCHEMA, frame, header, numbers, serving
from recording import table_of

WRONG = {
    "kind": (frame(9), "not a Headrace frame"),
    "version": (frame(1, version=7), "not a Headrace frame"),
    "nonce": (frame(1).replace(struct.pack("<Q", NONCE), bytes(8)), "a frame of another request"),
    "first length": (header(1, MAX_FIRST_BYTES + 1), "not a Headrace frame"),
    "second length": (header(2, 8, MAX_SECOND_BYTES + 1), "not a Headrace frame"),
    "cut": (SCHEMA + frame(2, METADATA, BODY)[:-4], "before its end"),
    "nothing": (b"", "before its end"),
    "garbage schema": (frame(1, b"x" * 64), "a schema that cannot be read"),
    "short schema": (frame(1, b"x"), "a schema that cannot be read"),
    "second schema of other columns": (
        SCHEMA + frame(1, bytes(pa.schema([("i", pa.int64())]).serialize())),
        "were planned",
    ),
    "dictionary of plain columns": (SCHEMA + frame(5, METADATA, BODY), "a dictionary that cannot be read"),
    "batch first": (frame(2, METADATA, BODY), "a batch before the schema"),
    "garbage batch": (SCHEMA + frame(2, b"\xff" * 64, BODY), "a batch that cannot be read"),
    "short body": (SCHEMA + frame(2, METADATA, BODY[:-8]), "a batch that cannot be read"),
    "other columns": (frame(1, bytes(pa.schema([("i", pa.int32()), ("s", pa.string())]).serialize())), "were planned"),
    "fewer columns": (frame(1, bytes(pa.schema([("i", pa.int64())]).serialize())), "were planned"),
    "totals": (SCHEMA + frame(2, METADATA, BODY) + frame(3, END), "sent as 0 rows in 0 batches, 1 in 1 arrived"),
    "end first": (frame(3, END), "an end before the schema"),
    "short totals": (SCHEMA + frame(3, b"abc"), "an end without totals"),
    "error text": (SCHEMA + frame(4, b"no json"), "an error that cannot be read: no json"),
    "extra bytes": (SCHEMA[:8] + struct.pack("<QQ", 3, NONCE) + SCHEMA[FRAME_HEADER.size :] + b"abc", "bytes more"),
}


@pytest.mark.daily(every=3)
@pytest.mark.parametrize(("sent", "message"), WRONG.values(), ids=WRONG)
def test_reader_wrong_frames_are_a_named_error(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch, sent: bytes, message: str
) -> None:
    monkeypatch.setattr(DriverPartition, "serve", serving(sent))
    ctx.register_table("t", table_of(pa.table(numbers(0, 3)), placement=hr.Placement.DRIVER))
    with pytest.raises(hr.TransportError, match=message):
        ctx.collect("SELECT i, s FROM t")
    allocator: Any = ctx.spark._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    assert allocator.getAllocatedMemory() == 0
    assert not [child for child in allocator.getChildAllocators() if child.getName().startswith("headrace")]


def test_reader_error_born_in_the_jvm_has_the_same_record_as_pythons(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = SCHEMA + frame(3, b"abc")
    monkeypatch.setattr(DriverPartition, "serve", serving(sent))
    ctx.register_table("t", table_of(pa.table(numbers(0, 3)), placement=hr.Placement.DRIVER))
    with pytest.raises(hr.TransportError) as caught:
        ctx.collect("SELECT i, s FROM t")
    message = "partition 0 of table 't' sent an end without totals"
    assert str(caught.value) == message
    with pytest.raises(Exception, match="an end without totals") as native:
        ctx.sql("SELECT i, s FROM t").collect()
    error: Any = native.value
    error = getattr(error, "java_exception", None) or error._origin
    while error.getClass().getName() != "org.headrace.spark.HeadraceException":
        error = error.getCause()
    assert json.loads(error.failure()) == {
        "error": "TransportError",
        "exception_type": "headrace.errors.TransportError",
        "message": message,
        "table": "t",
        "partition": 0,
        "text": f"TransportError: {message}",
    }
