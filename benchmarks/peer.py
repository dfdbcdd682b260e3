"""Another process at the end of a Unix socket that does nothing but move bytes: the limit of every transport."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

_COMMAND = struct.Struct("<cQQ")
_BUFFER_BYTES = 1 << 20
_GO = b"g"


class Peer:
    """The process, and this side of its socket. One command at a time."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as listener:
            path = os.path.join(directory, "peer.sock")
            listener.bind(path)
            listener.listen(1)
            listener.settimeout(30.0)
            # By its file, not with -m: it needs none of this package's imports.
            self._process = subprocess.Popen([sys.executable, str(Path(__file__)), path])
            self._socket, _ = listener.accept()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        self._buffer = bytearray(_BUFFER_BYTES)

    def prepare_sending(self, message: bytes | memoryview, count: int) -> None:
        """Give the peer the message that ``receive`` will get ``count`` times."""
        self._command(b"S", count, len(message))
        self._socket.sendall(message)

    def receive(self, count: int, length: int) -> int:
        """Have everything sent, and return how many bytes that was."""
        self._socket.sendall(_GO)
        return _drain(self._socket, count * length, self._buffer)

    def send(self, message: bytes | memoryview, count: int) -> None:
        """Send the message ``count`` times; returns when the peer has it all."""
        self._command(b"D", count, len(message))
        for _ in range(count):
            self._socket.sendall(message)
        self._socket.recv(1)

    def prepare_echo(self, count: int, length: int) -> None:
        """The next ``count`` messages of this length come back."""
        self._command(b"E", count, length)

    def echo(self, message: bytes | memoryview) -> None:
        """There and back."""
        self._socket.sendall(message)
        _drain(self._socket, len(message), self._buffer)

    def _command(self, kind: bytes, count: int, length: int) -> None:
        self._socket.sendall(_COMMAND.pack(kind, count, length))

    def close(self) -> None:
        self._socket.close()
        self._process.wait(timeout=10)

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _drain(sock: socket.socket, total: int, buffer: bytearray) -> int:
    left = total
    view = memoryview(buffer)
    while left > 0:
        received = sock.recv_into(view[: min(left, len(buffer))])
        if received == 0:
            raise EOFError("the peer's connection ended")
        left -= received
    return total


def _exactly(sock: socket.socket, length: int) -> bytearray:
    message = bytearray(length)
    view = memoryview(message)
    while view:
        received = sock.recv_into(view)
        if received == 0:
            raise EOFError
        view = view[received:]
    return message


def serve(path: str) -> None:
    """The peer's side, until the connection ends."""
    buffer = bytearray(_BUFFER_BYTES)
    with socket.socket(socket.AF_UNIX) as sock, contextlib.suppress(EOFError, ConnectionError):
        sock.connect(path)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        while True:
            kind, count, length = _COMMAND.unpack(_exactly(sock, _COMMAND.size))
            if kind == b"S":
                message = _exactly(sock, length)
                _exactly(sock, len(_GO))
                for _ in range(count):
                    sock.sendall(message)
            elif kind == b"D":
                _drain(sock, count * length, buffer)
                sock.sendall(_GO)
            else:
                for _ in range(count):
                    sock.sendall(_exactly(sock, length))


if __name__ == "__main__":
    serve(sys.argv[1])
