"""A memory-mapped file format of one's own in a few lines, with files skipped by the statistics in their headers.

A file is a header (magic, rows, least and greatest time) and two columns of eight bytes a row, one after the other.

    python examples/own_format.py
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import headrace as hr

HEADER = struct.Struct("<8sQqq")
COLUMNS = {"time": pa.int64(), "reading": pa.float64()}


class MappedFormat(hr.FileFormat):
    def schema(self, file: hr.DataFile) -> pa.Schema:
        return pa.schema(COLUMNS)

    def statistics(self, file: hr.DataFile) -> hr.ContainerStats:
        with file.open() as opened:
            _, rows, least, greatest = HEADER.unpack(opened.read(HEADER.size))
        return hr.ContainerStats({"time": hr.ColumnStats(least, greatest, null_count=0)}, row_count=rows)

    def read(self, file: hr.DataFile, request: hr.ScanRequest) -> Iterator[pa.RecordBatch]:
        mapped = pa.memory_map(file.path).read_buffer()  # pages are loaded when they are looked at
        magic, rows, _, _ = HEADER.unpack(mapped[: HEADER.size])
        if magic != b"MAPPED01":
            raise ValueError("not a mapped file")
        starts = {name: HEADER.size + 8 * rows * i for i, name in enumerate(COLUMNS)}
        buffers = {name: mapped.slice(start, 8 * rows) for name, start in starts.items()}
        arrays = [pa.Array.from_buffers(COLUMNS[n], rows, [None, buffers[n]]) for n in request.projection]
        yield pa.record_batch(arrays, names=list(request.projection))


def write(path: Path, times: np.ndarray, readings: np.ndarray) -> None:
    header = HEADER.pack(b"MAPPED01", len(times), times.min(), times.max())
    path.write_bytes(header + times.astype("<i8").tobytes() + readings.astype("<f8").tobytes())


def main(ctx: hr.SessionContext | None = None) -> dict[str, float]:
    """Write a hundred files, ask for a few seconds, and return the one row of the answer."""
    if ctx is None:
        with hr.SessionContext() as own:
            return main(own)
    with tempfile.TemporaryDirectory() as directory:
        for hour in range(100):
            times = np.arange(hour * 3600, hour * 3600 + 3600)
            write(Path(directory, f"{hour:03}.mapped"), times, np.sqrt(times))
        ctx.register_table("readings", hr.ListingTable(f"{directory}/*.mapped", MappedFormat()))
        query = "SELECT count(*) AS n, max(reading) AS most FROM readings WHERE time BETWEEN 7000 AND 7299"
        print(ctx.explain(query))  # MappedFormat, 2 of 100 files
        (answer,) = ctx.collect(query).to_pylist()
    print(f"{query}\n  -> {answer}")
    return dict(answer)


if __name__ == "__main__":
    main()
