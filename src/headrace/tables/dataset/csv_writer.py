"""CsvFile: one CSV file, with the methods of pyarrow's other writers; runs where Spark runs its tasks."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import WriteError

BLOCK_BYTES = 8 << 20
"""pyarrow reads no row that is longer than its block. Blocks of 1 MiB, its default, and of 8 are read equally fast."""
_VALUE_BYTES = 80  # the longest text of a value that is no text: a decimal256
_FIRST_SECOND, _LAST_SECOND = -62_167_219_200, 253_402_300_799  # of the years 0 and 9999
_DAY = 86_400
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class CsvFile:
    """Refuses the values that pyarrow would not read from the file as they are.

    Instants are written in UTC: pyarrow writes the offset of a zone without its seconds, which old ones have.
    """

    def __init__(self, sink: Any, schema: pa.Schema, delimiter: str = ",") -> None:
        import pyarrow.csv

        self._schema = pa.schema([field.with_type(_in_utc(field.type)) for field in schema])
        options = pyarrow.csv.WriteOptions(delimiter=delimiter)
        self._writer = pyarrow.csv.CSVWriter(sink, self._schema, write_options=options)

    def write_table(self, table: pa.Table) -> None:
        if table.num_columns == 1 and table.column(0).null_count:
            raise WriteError(
                f"column {table.schema.names[0]!r} is the only one of a CSV file and has a null, which would be an "
                "empty line, and readers leave these out: use another format"
            )
        for name, column in zip(table.column_names, table.columns, strict=True):
            _check_years(name, column)
        _check_lengths(table)
        self._writer.write_table(table.cast(self._schema))

    def close(self) -> None:
        self._writer.close()


def _in_utc(type_: pa.DataType) -> pa.DataType:
    return pa.timestamp(type_.unit, "UTC") if pa.types.is_timestamp(type_) and type_.tz is not None else type_


def _check_years(name: str, column: pa.ChunkedArray) -> None:
    if pa.types.is_date(column.type):
        ticks = column.cast(pa.date32()).cast(pa.int32())
        first, last = _FIRST_SECOND // _DAY, _LAST_SECOND // _DAY
    elif pa.types.is_timestamp(column.type):
        unit = _UNITS[column.type.unit]
        ticks = column.cast(pa.int64())
        first = max(_FIRST_SECOND * unit, -(2**63 // unit) * unit)  # pyarrow reads whole seconds first
        last = min(_LAST_SECOND * unit + unit - 1, 2**63 - 1)
    else:
        return
    bad = column.filter(pc.or_(pc.less(ticks, first), pc.greater(ticks, last)))
    if len(bad):
        shown = bad.slice(0, 1).cast(_in_utc(bad.type)).cast(pa.string())[0]
        raise WriteError(
            f"column {name!r} has {shown}: CSV files hold the years 0 to 9999, and nanoseconds from 1677-09-21 "
            "00:12:44. Use Parquet"
        )


def _check_lengths(table: pa.Table) -> None:
    """Raises WriteError, naming the longest column, for a row that no block holds."""
    texts = [name for name, type_ in zip(table.column_names, table.schema.types, strict=True) if _is_text(type_)]
    rest = _VALUE_BYTES * (table.num_columns - len(texts))
    longest = {name: pc.max(pc.binary_length(table[name])).as_py() or 0 for name in texts}
    if rest + sum(2 * length + 3 for length in longest.values()) <= BLOCK_BYTES:
        return  # even if all of it were quotes, which are doubled
    sizes = pa.array([rest] * table.num_rows, pa.int64())
    for name in texts:
        size = pc.add(pc.binary_length(table[name]), pc.count_substring(table[name], '"'))
        sizes = pc.add(sizes, pc.add(pc.fill_null(size, 0).cast(pa.int64()), 3))
    if (most := pc.max(sizes).as_py()) > BLOCK_BYTES:
        name = max(longest, key=lambda one: longest[one])
        raise WriteError(
            f"a row would take {most:,} bytes of a CSV file, most of them in column {name!r}, and is read only up to "
            f"{BLOCK_BYTES:,}: use Parquet"
        )


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))
