"""OrcFile: one ORC file, with the methods of pyarrow's other writers; runs where Spark runs its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import WriteError

_LEAST_DAY = -141_427  # 1582-10-15: before it readers count days in two calendars
_NANOS = 1_000_000_000
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": _NANOS}
_MOST_SECONDS = (2**63 - 1) // _NANOS


class OrcFile:
    """Refuses the values that pyarrow, or Spark, would not read from the file as they are.

    Of a slice pyarrow 26 writes other rows of its structs, so what is nested is copied, which starts at its first row.
    """

    def __init__(self, sink: Any, schema: pa.Schema) -> None:
        from pyarrow import orc

        self._writer = orc.ORCWriter(sink, compression="snappy")

    def write_table(self, table: pa.Table) -> None:
        if any(map(pa.types.is_nested, table.schema.types)):
            copies = [pa.ipc.read_record_batch(batch.serialize(), table.schema) for batch in table.to_batches()]
            table = pa.Table.from_batches(copies, table.schema)
        for name, column in zip(table.column_names, table.columns, strict=True):
            for chunk in column.chunks:
                for values in _leaves(chunk):
                    _check(name, values)
        self._writer.write(table)

    def close(self) -> None:
        self._writer.close()


def _leaves(values: pa.Array) -> Iterator[pa.Array]:
    """All that has no parts; nulls of what is around it leave out what they hide."""
    if pa.types.is_map(values.type):
        yield from _leaves(values.keys)
        yield from _leaves(values.items)
    elif pa.types.is_struct(values.type):
        for part in values.flatten():
            yield from _leaves(part)
    elif pa.types.is_nested(values.type):
        yield from _leaves(values.flatten())
    else:
        yield values


def _check(name: str, values: pa.Array) -> None:
    if pa.types.is_date32(values.type):
        bad = pc.less(values.cast(pa.int32()), pa.scalar(_LEAST_DAY, pa.int32()))
        why = "days before 1582-10-15 in an ORC file are others to Spark"
    elif pa.types.is_timestamp(values.type):
        unit = _UNITS[values.type.unit]
        ticks = values.cast(pa.int64())
        far = pc.or_(pc.greater_equal(ticks, _MOST_SECONDS * unit), pc.less(ticks, -_MOST_SECONDS * unit))
        whole = pc.equal(pc.subtract(ticks, pc.multiply(pc.divide(ticks, unit), unit)), 0)
        bad = pc.or_(far, pc.and_(pc.less(ticks, 0), pc.invert(whole)))
        why = "ORC files hold timestamps of the years 1678 to 2261, those before 1970 in whole seconds"
    else:
        return
    found = values.filter(bad)
    if len(found):
        raise WriteError(f"column {name!r} has {found.slice(0, 1).cast(pa.string())[0]}: {why}. Use Parquet")
