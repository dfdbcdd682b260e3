"""Frames byte by byte, for tests of both ends of the transport."""

from __future__ import annotations

import struct

import pyarrow as pa

from headrace.transport.frames import HEADER, TOTALS


def numbers(start: int, count: int) -> pa.RecordBatch:
    values = pa.array(range(start, start + count), pa.int64())
    return pa.record_batch({"i": values, "s": pa.array([f"row {i}" for i in values], pa.string())})


NUMBERS = numbers(0, 1).schema


def frame(kind: int, first: bytes = b"", second: bytes = b"", version: int = 1) -> bytes:
    return HEADER.pack(kind, version, 0, len(first), len(second)) + first + second


SCHEMA = frame(1, bytes(NUMBERS.serialize()))
END = struct.pack("<QQ", 0, 0)
MESSAGE = bytes(numbers(0, 1).serialize())
CUT = 8 + int.from_bytes(MESSAGE[4:8], "little")
METADATA, BODY = MESSAGE[:CUT], MESSAGE[CUT:]
WHOLE = SCHEMA + frame(2, METADATA, BODY) + frame(3, TOTALS.pack(1, 1))
