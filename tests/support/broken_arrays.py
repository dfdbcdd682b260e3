"""Batches whose buffers contradict each other, of three rows or of many.

Reading one unchecked crashes, or reads other memory.

pyarrow looks at the first and the last offset whenever it puts something together, but not when it takes over C data,
or memory that somebody writes to afterwards. So these are whole when they are made, and broken then.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import pyarrow as pa

HUGE = 0x7FFFFF00
MANY = 8 * 1024  # rows of a batch in which dictionaries and views are sent as they are
ITEMS = pa.array(range(11), pa.int64())


class Breaker:
    """Makes whole arrays, and remembers how to break them."""

    def __init__(self) -> None:
        self._later: list[tuple[bytearray, bytes]] = []

    def numbers(self, values: tuple[int, ...], kind: str = "i", good: tuple[int, ...] = (0, 1, 2, 3)) -> pa.Buffer:
        memory = bytearray(struct.pack(f"<{len(good)}{kind}", *good))
        self._later.append((memory, struct.pack(f"<{len(values)}{kind}", *values)))
        return pa.py_buffer(memory)

    def text(self, *offsets: int, kind: pa.DataType | None = None, width: str = "i") -> pa.Array:
        buffers = [None, self.numbers(offsets, width), pa.py_buffer(b"x" * 11)]
        return pa.Array.from_buffers(kind or pa.string(), 3, buffers)

    def lists(self, *offsets: int, of: pa.Array = ITEMS) -> pa.Array:
        return pa.Array.from_buffers(pa.list_(of.type), 3, [None, self.numbers(offsets)], children=[of])

    def maps(self, *offsets: int) -> pa.Array:
        kind = pa.map_(pa.int64(), pa.int64())
        entries = pa.StructArray.from_arrays([ITEMS, ITEMS], fields=[kind.key_field, kind.item_field])
        return pa.Array.from_buffers(kind, 3, [None, self.numbers(offsets)], children=[entries])

    def views(self) -> pa.Array:
        views = self.numbers((40, 0, 0, HUGE) * 3, good=(40, 0, 0, 0) * 3)
        return pa.Array.from_buffers(pa.string_view(), 3, [None, views, pa.py_buffer(b"x" * 50)])

    def many_views(self, *last: int) -> pa.Array:
        """``last``: length, first four bytes, number of the buffer and offset of the last view."""
        good = (40, 0, 0, 0) * MANY
        views = self.numbers((*good[:-4], *last), good=good)
        return pa.Array.from_buffers(pa.string_view(), MANY, [None, views, pa.py_buffer(b"x" * 50)])

    def many_indices(self, last: int, kind: pa.DataType | None = None, width: str = "i") -> pa.Array:
        good = (0, 1, 2, 0) * (MANY // 4)
        indices = self.numbers((*good[:-1], last), width, good)
        array = pa.Array.from_buffers(kind or pa.int32(), MANY, [None, indices])
        return pa.DictionaryArray.from_arrays(array, pa.array(["a", "b", "c"]), safe=False)

    def batch(self, array: pa.Array) -> pa.RecordBatch:
        """The array as column ``c``, broken."""
        whole = pa.RecordBatch.from_arrays([array], ["c"])
        for memory, content in self._later:
            memory[:] = content
        return whole


Make = Callable[[Breaker], pa.Array]

INSIDE: dict[str, Make] = {
    "text far away": lambda b: b.text(0, 5, HUGE, 11),
    "text of other memory": lambda b: b.text(0, 5, 4096, 11),
    "text that falls": lambda b: b.text(0, 9, 4, 11),
    "text that is negative": lambda b: b.text(0, -7, 4, 11),
    "text that wraps around": lambda b: b.text(0, HUGE, -2, 5),
    "bytes far away": lambda b: b.text(0, 5, HUGE, 11, kind=pa.binary()),
    "lists far away": lambda b: b.lists(0, 5, HUGE, 11),
    "lists that fall": lambda b: b.lists(0, 9, 4, 11),
    "lists that are negative": lambda b: b.lists(0, -7, 4, 11),
    "maps far away": lambda b: b.maps(0, 5, HUGE, 11),
    "lists of text far away": lambda b: b.lists(0, 1, 2, 3, of=b.text(0, 5, HUGE, 11)),
    "lists of lists far away": lambda b: b.lists(0, 1, 2, 3, of=b.lists(0, 5, HUGE, 11)),
    "structs of text far away": lambda b: pa.StructArray.from_arrays([b.text(0, 5, HUGE, 11)], ["a"]),
}
"""Broken between the first offset and the last."""

ENDS: dict[str, Make] = {
    "text that ends outside": lambda b: b.text(0, 3, 5, HUGE),
    "text that begins negative": lambda b: b.text(-7, 3, 5, 11),
    "lists that end outside": lambda b: b.lists(0, 3, 5, HUGE),
    "lists that begin outside": lambda b: b.lists(HUGE, HUGE, HUGE, HUGE),
    "maps that end outside": lambda b: b.maps(0, 3, 5, HUGE),
    "lists of text that ends outside": lambda b: b.lists(0, 1, 2, 3, of=b.text(0, 3, 5, HUGE)),
}
"""Broken at one end, which slicing, concatenating and writing look at."""

CONVERTED: dict[str, Make] = {
    "large text far away": lambda b: b.text(0, 5, 1 << 40, 11, kind=pa.large_string(), width="q"),
    "views far away": lambda b: b.views(),
    "lists of views far away": lambda b: b.lists(0, 1, 2, 3, of=b.views()),
    "dictionary of text far away": lambda b: pa.DictionaryArray.from_arrays([0, 1, 2], b.text(0, 5, HUGE, 11)),
}
"""Of types that Python converts before they go to Spark."""

MANY_ROWS: dict[str, Make] = {
    "indices far away": lambda b: b.many_indices(HUGE),
    "indices just outside": lambda b: b.many_indices(3),
    "indices that are negative": lambda b: b.many_indices(-1),
    "small indices that are negative": lambda b: b.many_indices(-1, pa.int8(), "b"),
    "long indices far away": lambda b: b.many_indices(1 << 40, pa.int64(), "q"),
    "many indices to text far away": lambda b: pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 0] * (MANY // 4)), b.text(0, 5, HUGE, 11)
    ),
    "many views far away": lambda b: b.many_views(40, 0, 0, HUGE),
    "many views just outside": lambda b: b.many_views(40, 0, 0, 11),
    "many views of negative places": lambda b: b.many_views(40, 0, 0, -8),
    "many views of no buffer": lambda b: b.many_views(40, 0, 1, 0),
    "many views of a negative buffer": lambda b: b.many_views(40, 0, -1, 0),
    "many views of negative length": lambda b: b.many_views(-1, 0, 0, 0),
    "many views that are too long": lambda b: b.many_views(HUGE, 0, 0, HUGE),
}
"""Of types that are sent as they are in batches of many rows."""

ALL = INSIDE | ENDS | CONVERTED | MANY_ROWS


def broken_batch(name: str) -> pa.RecordBatch:
    breaker = Breaker()
    return breaker.batch(ALL[name](breaker))
