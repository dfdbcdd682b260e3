"""The body of an HTTP answer, decoded no further than a limit; where ``execute`` runs."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

ACCEPTED_ENCODINGS = "gzip, deflate"
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_RAW_DEFLATE = -15


class AnswerTooLargeError(ValueError):
    """An answer is larger than its limit; what was read of it is thrown away."""


async def bounded_body(chunks: AsyncIterator[bytes], encoding: str, max_bytes: int) -> bytes:
    """The decoded bytes. ``chunks`` are as they came, ``encoding`` is the header ``Content-Encoding``.

    Raises AnswerTooLargeError past ``max_bytes``, before more than that is decoded, and ValueError for an encoding
    that was not asked for and for compressed data that is damaged or ends too soon.
    """
    encoding = encoding.strip().lower()
    decoder = None if encoding in ("", "identity") else _Inflater(encoding)
    body = bytearray()
    async for chunk in chunks:
        room = max_bytes - len(body)
        part = chunk[: room + 1] if decoder is None else decoder.decoded(chunk, room + 1)
        body += part
        if len(body) > max_bytes:
            raise AnswerTooLargeError(f"the answer has more than {max_bytes:,} bytes; max_page_bytes= allows more")
    if decoder is not None:
        decoder.check_end()
    return bytes(body)


class _Inflater:
    """gzip, of one member or more, and deflate, with zlib's frame or without it."""

    def __init__(self, encoding: str) -> None:
        if encoding not in _WINDOW_BITS:
            raise ValueError(
                f"the answer is encoded as {encoding!r}, although only {ACCEPTED_ENCODINGS} were asked for; "
                "other encodings cannot be decoded within a limit"
            )
        self._encoding = encoding
        self._zlib = zlib.decompressobj(_WINDOW_BITS[encoding])
        self._started = False

    def decoded(self, data: bytes, most: int) -> bytes:
        """At most ``most`` bytes of it: the caller gives up then."""
        found = bytearray()
        while data and len(found) < most:
            if self._zlib.eof:
                if self._encoding == "deflate":
                    raise ValueError("the answer has bytes after the end of its deflate data")
                self._zlib = zlib.decompressobj(_WINDOW_BITS[self._encoding])
            found += self._inflated(data, most - len(found))
            data = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail
        return bytes(found)

    def check_end(self) -> None:
        if self._started and not self._zlib.eof:
            raise ValueError(f"the answer's {self._encoding} data ends too soon")

    def _inflated(self, data: bytes, most: int) -> bytes:
        first, self._started = not self._started, True
        try:
            return self._zlib.decompress(data, most)
        except zlib.error as error:
            if first and self._encoding == "deflate":  # some services leave zlib's frame out
                self._zlib = zlib.decompressobj(_RAW_DEFLATE)
                return self._inflated(data, most)
            raise ValueError(f"the answer's {self._encoding} data is damaged: {error}") from None
