"""Somebody on the way between an executor and the endpoint: passes the handshake on, and then changes the frames."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from headrace.transport.protocol import CHALLENGE, CLAIM, FRAME_HEADER, PROOF_BYTES, TAG_BYTES, FrameKind

_LAST = (FrameKind.END, FrameKind.ERROR, FrameKind.QUESTION, FrameKind.ANSWER, FrameKind.MESSAGE)
_SEALED_WHOLE = (FrameKind.QUESTION, FrameKind.ANSWER)
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class RelayedFrame:
    """As it was on the wire, in its regions."""

    header: bytes
    first: bytes
    tag: bytes
    second: bytes
    second_tag: bytes

    @property
    def kind(self) -> FrameKind:
        return FrameKind(self.header[0])

    @property
    def sealed_regions(self) -> list[str]:
        """Those in which no bit can be changed unnoticed."""
        regions = ["header", "first", "tag"]
        if self.kind in _SEALED_WHOLE:
            regions += ["second", "second_tag"]
        return [name for name in regions if getattr(self, name)]

    def with_flipped_bit(self, region: str, bit: int) -> RelayedFrame:
        changed = bytearray(getattr(self, region))
        changed[bit // 8] ^= 1 << bit % 8
        return replace(self, **{region: bytes(changed)})

    def __bytes__(self) -> bytes:
        return self.header + self.first + self.tag + self.second + self.second_tag


Frames = list[RelayedFrame]
Alteration = Callable[[Frames], Frames]


def alterations(frames: Frames, foreign: RelayedFrame, rng: random.Random) -> Iterator[tuple[str, Alteration]]:
    """Everything that may be done to such ``frames``; ``foreign`` was sealed for another connection."""
    for at, frame in enumerate(frames):
        which = f"{frame.kind.name} ({at})"
        for region in frame.sealed_regions:
            length = len(getattr(frame, region))
            for byte in range(length) if length <= FRAME_HEADER.size else rng.sample(range(length), 4):
                yield f"{which}, byte {byte} of its {region}", _flipping(at, region, 8 * byte + rng.randrange(8))
        yield f"{which} dropped", lambda found, at=at: found[:at] + found[at + 1 :]
        if frame.kind is not FrameKind.END:  # nobody reads on behind the end
            yield f"{which} sent twice", lambda found, at=at: found[: at + 1] + found[at:]
        yield f"{which} replaced", lambda found, at=at: [*found[:at], foreign, *found[at + 1 :]]
        yield f"{which} after a foreign one", lambda found, at=at: [*found[:at], foreign, *found[at:]]
        if at:
            yield (
                f"{which} too early",
                lambda found, at=at: [*found[: at - 1], found[at], found[at - 1], *found[at + 1 :]],
            )


def _swapped(found: Frames, at: int) -> Frames:
    return [*found[: at - 1], found[at], found[at - 1], *found[at + 1 :]]


def _flipping(at: int, region: str, bit: int) -> Alteration:
    return lambda found: [*found[:at], found[at].with_flipped_bit(region, bit), *found[at + 1 :]]


class Relay:
    """Listens, and connects to the endpoint at ``address`` for whoever comes. Leaving it ends everything.

    One direction is altered: the frames up to the last of a stream, or one question or answer. Nothing follows them.
    """

    def __init__(self, address: dict[str, Any], *, to_endpoint: bool) -> None:
        self.seen: list[Frames] = []
        """What was sent on each connection in that direction, before it was altered."""
        self.alter: Alteration = list
        self._target = (address["host"], address["port"])
        self._to_endpoint = to_endpoint
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = {**address, "path": "", "host": "127.0.0.1", "port": self._listener.getsockname()[1]}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(_TIMEOUT_S)

    def _run(self) -> None:
        while True:
            try:
                executor, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(executor,), daemon=True).start()

    def _serve(self, executor: socket.socket) -> None:
        with executor, socket.create_connection(self._target, _TIMEOUT_S) as endpoint, contextlib.suppress(OSError):
            executor.settimeout(_TIMEOUT_S)
            for sock in (executor, endpoint):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, sink, count in (
                (endpoint, executor, CHALLENGE.size),
                (executor, endpoint, CLAIM.size),
                (endpoint, executor, PROOF_BYTES),
            ):
                sink.sendall(_exactly(source, count))
            source, sink = (executor, endpoint) if self._to_endpoint else (endpoint, executor)
            back = threading.Thread(target=_copy, args=(sink, source), daemon=True)
            back.start()
            frames = _frames(source)
            self.seen.append(frames)
            sink.sendall(b"".join(bytes(frame) for frame in self.alter(frames)))
            sink.shutdown(socket.SHUT_WR)
            back.join(_TIMEOUT_S)


def _frames(source: socket.socket) -> Frames:
    found: Frames = []
    while not found or found[-1].kind not in _LAST:
        header = _exactly(source, FRAME_HEADER.size)
        kind, _, _, first, second, _ = FRAME_HEADER.unpack(header)
        second_tag = TAG_BYTES if kind in _SEALED_WHOLE else 0
        found.append(RelayedFrame(header, *(_exactly(source, n) for n in (first, TAG_BYTES, second, second_tag))))
    return found


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        if not (piece := source.recv(count - len(data))):
            raise ConnectionResetError("it went away")
        data += piece
    return data


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
