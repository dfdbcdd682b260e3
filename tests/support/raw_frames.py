"""Frames byte by byte, for tests of both ends of the transport."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.transport.protocol import FRAME_HEADER, MAX_FIRST_BYTES, PROTOCOL_VERSION, TOTALS, FrameKind
from headrace.transport.seal import FrameSeal, Seals

UNSEALED = Seals(None, None)
NONCE = 0xA1B2C3D4E5F60718  # where the JVM chooses one, it takes the place of this
TIMEOUT_S = 20  # until a test of the Python end gives up


def numbers(start: int, count: int) -> pa.RecordBatch:
    values = pa.array(range(start, start + count), pa.int64())
    return pa.record_batch({"i": values, "s": pa.array([f"row {i}" for i in values], pa.string())})


NUMBERS = numbers(0, 1).schema


def frame(kind: int, first: bytes = b"", second: bytes = b"", version: int = PROTOCOL_VERSION) -> bytes:
    return header(kind, len(first), len(second), version) + first + second


def header(kind: int, first: int, second: int = 0, version: int = PROTOCOL_VERSION) -> bytes:
    return FRAME_HEADER.pack(kind, version, 0, first, second, NONCE)


def with_nonce(frames: bytes, nonce: int) -> bytes:
    """The same frames as an answer to the request that ``nonce`` stands for."""
    return frames.replace(struct.pack("<Q", NONCE), struct.pack("<Q", nonce))


def sealed(frames: bytes, seal: FrameSeal | None) -> bytes:
    """The same frames with tags, as far as they are whole."""
    assert seal is not None
    done, at = b"", 0
    while at + FRAME_HEADER.size <= len(frames):
        kind, _, _, first, second, _ = FRAME_HEADER.unpack(frames[at : (start := at + FRAME_HEADER.size)])
        if first > MAX_FIRST_BYTES or start + first > len(frames):
            return done + frames[at:]
        done += frames[at : start + first] + seal.tag(frames[at : start + first])
        at = start + first + second
        done += frames[start + first : at]
        if kind in (FrameKind.QUESTION, FrameKind.ANSWER):
            done += seal.tag(frames[start + first : at])
    return done + frames[at:]


def serving(sent: bytes) -> Callable[[Any, socket.socket, int, Seals], None]:
    """In place of a DriverPartition's ``serve``: sends those very frames, with tags, or nobody would look at them."""
    return lambda _self, sock, nonce, seals: sock.sendall(sealed(with_nonce(sent, nonce), seals.sent))


SCHEMA = frame(1, bytes(NUMBERS.serialize()))
END = struct.pack("<QQ", 0, 0)
MESSAGE = bytes(numbers(0, 1).serialize())
CUT = 8 + int.from_bytes(MESSAGE[4:8], "little")
METADATA, BODY = MESSAGE[:CUT], MESSAGE[CUT:]
WHOLE = SCHEMA + frame(2, METADATA, BODY) + frame(3, TOTALS.pack(1, 1))
