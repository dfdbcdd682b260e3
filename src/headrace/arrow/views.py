"""Views of text or bytes as plain arrays over the same data, where that lies in a row; driver and executor Python."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.types import is_view

_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_LONGEST_INLINE = 12  # bytes; longer values are in the data behind the views
_LEAST_ROWS = 1024  # of the arrays that come of it, on average: smaller ones cost more to send than they save


def plain_where_in_a_row(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """``column``, if each of its values lies right behind the one before: as plain text or bytes, of which no byte was
    copied. Any other column as it is.

    So polars and others write what has no nulls and no value of at most 12 bytes: ids, addresses, lines of a log. To
    find out takes about as long as to validate the views, which the caller has done.
    """
    if not is_view(column.type) or not len(column):
        return column
    plain: list[pa.Array] = []
    for chunk in column.chunks:
        found = _plain(chunk)
        if found is None:
            return column
        plain += found
    return pa.chunked_array(plain, _PLAIN[column.type])


def _plain(chunk: pa.Array) -> list[pa.Array] | None:
    """An array for each of the data buffers that the views go through in order; None if they do not."""
    rows = len(chunk)
    if not rows:
        return []
    _, views, *data = chunk.buffers()
    if chunk.null_count or len(data) * _LEAST_ROWS > rows + _LEAST_ROWS:
        return None
    numbers = pa.Array.from_buffers(pa.int32(), 4 * (chunk.offset + rows), [None, views])
    fours = pa.FixedSizeListArray.from_arrays(numbers, 4).slice(chunk.offset)
    # A view: length, the first four bytes, number of the buffer, where in it the value begins.
    lengths, buffers, begins = (pc.list_element(fours, i) for i in (0, 2, 3))
    if pc.min(lengths).as_py() <= _LONGEST_INLINE:
        return None
    ends = pc.add(begins, lengths)
    in_next_buffer = pc.not_equal(buffers.slice(1), buffers.slice(0, rows - 1))
    follows = pc.equal(begins.slice(1), ends.slice(0, rows - 1))
    if not pc.all(pc.or_(in_next_buffer, follows), min_count=0).as_py():
        return None
    starts = [0, *(i + 1 for i in pc.indices_nonzero(in_next_buffer).to_pylist())]
    if len(starts) * _LEAST_ROWS > rows + _LEAST_ROWS:
        return None
    found = []
    for start, stop in zip(starts, [*starts[1:], rows], strict=True):
        offsets = pa.concat_arrays([begins.slice(start, stop - start), ends.slice(stop - 1, 1)])
        of_run = [None, offsets.buffers()[1], data[buffers[start].as_py()]]
        found.append(pa.Array.from_buffers(_PLAIN[chunk.type], stop - start, of_run, null_count=0))
    return found
