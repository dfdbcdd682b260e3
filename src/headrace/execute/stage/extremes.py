"""Values in a form in which Arrow's least, greatest and order are Spark's; where ``execute`` runs.

To Spark NaN is greater than every number, and to Arrow it is neither least nor greatest. So floats among which there
are NaNs become integers of the same order, and come back from them. Arrow has no extremes of durations at all.
"""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc

_INTEGERS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
_WITHOUT_SIGN = {pa.float32(): 2**31 - 1, pa.float64(): 2**63 - 1}


def is_ordered_alike(values: pa.ChunkedArray) -> bool:
    """Whether Arrow finds Spark's least and greatest of these values, which are of a wire type."""
    if pa.types.is_floating(values.type):
        return not pc.any(pc.is_nan(values)).as_py()
    return not pa.types.is_duration(values.type)


def ordered(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Integers in Spark's order, for floats and durations; -0.0 is 0.0."""
    chunks = [_ordered(chunk) for chunk in values.chunks]
    return pa.chunked_array(chunks, _INTEGERS.get(values.type, pa.int64()))


def restored(integers: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """The values that ``ordered`` has made integers of."""
    mapped = [chunk if pa.types.is_duration(type_) else _flipped(chunk, type_) for chunk in integers.chunks]
    return pa.chunked_array([chunk.view(type_) for chunk in mapped], type_)


def _ordered(chunk: pa.Array) -> pa.Array:
    type_ = chunk.type
    if type_ not in _INTEGERS:
        return chunk.view(pa.int64())
    chunk = pc.if_else(pc.is_nan(chunk), pa.scalar(math.nan, type_), pc.add(chunk, pa.scalar(0.0, type_)))
    return _flipped(chunk.view(_INTEGERS[type_]), type_)


def _flipped(integers: pa.Array, type_: pa.DataType) -> pa.Array:
    """The bits of a float below zero count upwards from the sign: turned round, and back again."""
    turned = pc.bit_wise_xor(integers, pa.scalar(_WITHOUT_SIGN[type_], integers.type))
    return pc.if_else(pc.less(integers, pa.scalar(0, integers.type)), turned, integers)
