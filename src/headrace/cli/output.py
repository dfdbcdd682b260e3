"""A query's result on the terminal or in a file, for the command line; driver Python."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.arrow.rows import counted
from headrace.errors import HeadraceError

_ROW_GROUP_BYTES = 64 << 20
_FORMATS = (".parquet", ".csv", ".arrow")


class Batches(Protocol):
    """A result as it comes: its schema, then batches."""

    schema: pa.Schema

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


def writer_to(output: str) -> Callable[[Batches], str]:
    """A function that writes a result to ``output`` and says so; ``-`` is CSV on standard output.

    Raises ValueError for a file of another kind or in no directory.
    """
    if output == "-":
        return lambda result: counted(_write(result, ".csv", sys.stdout.buffer), "row")
    path = Path(output)
    if path.suffix not in _FORMATS:
        raise ValueError(f"--output takes a {', '.join(_FORMATS[:-1])} or {_FORMATS[-1]} file, or -; not {output!r}")
    if not path.parent.is_dir():
        raise ValueError(f"--output {output}: there is no directory {str(path.parent)!r}")

    def write(result: Batches) -> str:
        unfinished = path.with_name(f".{path.name}.part")  # a query that fails leaves no half a file
        try:
            with unfinished.open("wb") as file:
                rows = _write(result, path.suffix, file)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        return f"{counted(rows, 'row')} written to {path}"

    return write


def print_rows(table: pa.Table, limit: int, console: Console) -> None:
    """The first ``limit`` rows, and a line that says whether there are more."""
    shown = Table(box=SIMPLE_HEAD, show_edge=False)
    for field in table.schema:
        shown.add_column(Text(field.name), justify="right" if _is_number(field.type) else "left", overflow="fold")
    for row in table.slice(0, limit).to_pylist():
        shown.add_row(*(Text("NULL", "dim") if value is None else Text(str(value)) for value in row.values()))
    console.print(shown)
    if table.num_rows > limit:
        note = f"the first {'row' if limit == 1 else counted(limit, 'row')}; there are more (see --limit and --output)"
    else:
        note = counted(table.num_rows, "row")
    console.print(f"\n{note}", highlight=False)


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _write(result: Batches, suffix: str, file: IO[bytes]) -> int:
    """Batch by batch, so that the result may be larger than memory; returns the number of rows."""
    rows = 0
    with _opened(result.schema, suffix, file) as writer:
        for table in _grouped(result, result.schema, _ROW_GROUP_BYTES if suffix == ".parquet" else 1):
            writer.write_table(table)
            rows += table.num_rows
    return rows


def _opened(schema: pa.Schema, suffix: str, file: IO[bytes]) -> contextlib.AbstractContextManager[Any]:
    writer: contextlib.AbstractContextManager[Any]
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        writer = pq.ParquetWriter(file, schema)
    elif suffix == ".arrow":
        writer = pa.ipc.new_file(file, schema)
    else:
        import pyarrow.csv

        nested = [field.name for field in schema if pa.types.is_nested(field.type)]
        if nested:
            raise HeadraceError(
                f"CSV cannot hold the nested column {nested[0]!r}: write .parquet or .arrow, or select its fields"
            )
        writer = pyarrow.csv.CSVWriter(file, schema)
    return writer


def _grouped(batches: Iterable[pa.RecordBatch], schema: pa.Schema, at_least_bytes: int) -> Iterator[pa.Table]:
    """Batches put together to a size worth a row group."""
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        group.append(batch)
        size += batch.nbytes
        if size >= at_least_bytes:
            yield pa.Table.from_batches(group, schema)
            group, size = [], 0
    if group:
        yield pa.Table.from_batches(group, schema)
