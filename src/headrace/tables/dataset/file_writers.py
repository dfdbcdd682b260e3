"""Files in the formats that pyarrow writes, of sizes that readers like; runs where Spark runs its tasks."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.errors import WriteError
from headrace.tables.dataset.csv_writer import CsvFile
from headrace.tables.dataset.hive import hive_path, partitions_of
from headrace.tables.dataset.orc_writer import OrcFile

MOST_FILES = 1_000_000  # of one task
PARTITIONS = "partitions"
_FILE_BYTES = 128 << 20  # as much as Spark gives a task; Headrace splits such a Parquet file in two
_GROUP_ROWS = 1 << 20  # rows of a row group or stripe, or so many bytes of them in memory
_GROUP_BYTES = 64 << 20
_OPEN_FILES = 32  # where rows of many partitions come mixed; where they come sorted, one is open
_WAITING_BYTES = 256 << 20  # in all files that are open


def _parquet(sink: Any, schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(sink, schema, compression="snappy")


def _tsv(sink: Any, schema: pa.Schema) -> Any:
    return CsvFile(sink, schema, "\t")


def _ipc(sink: Any, schema: pa.Schema) -> Any:
    options = pa.ipc.IpcWriteOptions(compression="lz4", unify_dictionaries=True)
    return pa.ipc.new_file(sink, schema, options=options)


WRITERS: dict[str, tuple[str, Callable[[Any, pa.Schema], Any]]] = {
    "parquet": (".parquet", _parquet),
    "csv": (".csv", CsvFile),
    "tsv": (".tsv", _tsv),
    "orc": (".orc", OrcFile),
    "feather": (".feather", _ipc),
    "ipc": (".arrow", _ipc),
}
"""By the format's name: the ending of its files, and what opens one."""


def check_format(format: str, schema: pa.Schema) -> None:
    """Raises WriteError for a schema that files of this format cannot hold, naming pyarrow's reason."""
    for one in schema:
        if format in ("csv", "tsv") and (pa.types.is_binary(one.type) or pa.types.is_large_binary(one.type)):
            raise WriteError(f"{format} files hold text, and column {one.name!r} has bytes")
    sink = pa.BufferOutputStream()
    try:
        writer = WRITERS[format][1](sink, schema)
        writer.write_table(schema.empty_table())
        writer.close()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise WriteError(f"{format} files cannot hold these columns: {error}") from error


def staged_name(number: int) -> str:
    """Of a task's file before it is published. No pattern such as ``**/*.parquet`` finds it."""
    return f"{number}.staged"


@dataclass
class _OpenFile:
    sink: Any
    writer: Any
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_rows: int = 0
    waiting_bytes: int = 0


class PartitionedFiles:
    """The files of one attempt to write one task: one after the other in each hive partition.

    Used by one thread. ``close`` makes the last ones whole; ``discard`` drops them. They have numbers as names, and the
    file ``PARTITIONS`` says in one line for each of which partition it is.
    """

    def __init__(self, directory: str, format: str, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        self._directory = directory
        self._format = format
        self._schema = pa.schema([one for one in schema if one.name not in partition_by], schema.metadata)
        self._partition_by = tuple(partition_by)
        self._open: dict[tuple[Any, ...], _OpenFile] = {}  # the one that was longest not written to comes first
        self._paths: list[str] = []
        os.makedirs(directory, exist_ok=True)

    def write(self, batch: pa.RecordBatch) -> None:
        for key, rows in partitions_of(batch, self._partition_by):
            file = self._open.pop(key, None) or self._opened(key)
            self._open[key] = file
            file.waiting.append(rows.select(self._schema.names))
            file.waiting_rows += rows.num_rows
            file.waiting_bytes += rows.nbytes
            if file.waiting_rows >= _GROUP_ROWS or file.waiting_bytes >= _GROUP_BYTES:
                self._flush(file)
                if file.sink.tell() >= _FILE_BYTES:
                    self._close(key)
            if len(self._open) > _OPEN_FILES:
                self._close(next(iter(self._open)))
        if sum(file.waiting_bytes for file in self._open.values()) > _WAITING_BYTES:
            self._flush(max(self._open.values(), key=lambda file: file.waiting_bytes))

    def close(self) -> int:
        """How many files there are."""
        for key in list(self._open):
            self._close(key)
        if self._partition_by and self._paths:
            with open(os.path.join(self._directory, PARTITIONS), "w", encoding="utf-8", newline="\n") as file:
                file.write("\n".join(self._paths))
        return len(self._paths)

    def discard(self) -> None:
        for file in self._open.values():
            with contextlib.suppress(Exception):  # of a file that nobody wants
                file.writer.close()
            file.sink.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _opened(self, key: tuple[Any, ...]) -> _OpenFile:
        if len(self._paths) == MOST_FILES:
            raise WriteError(f"one task may write {MOST_FILES:,} files: its rows are of more partitions, or too mixed")
        _, open_writer = WRITERS[self._format]
        path = hive_path(dict(zip(self._partition_by, key, strict=True)))
        sink = pa.OSFile(os.path.join(self._directory, staged_name(len(self._paths))), "wb")
        self._paths.append(path)
        return _OpenFile(sink, open_writer(sink, self._schema))

    def _flush(self, file: _OpenFile) -> None:
        if not file.waiting:
            return
        table = pa.Table.from_batches(file.waiting, self._schema)
        if self._format == "parquet":
            file.writer.write_table(table, row_group_size=table.num_rows)
        else:
            file.writer.write_table(table)
        file.waiting, file.waiting_rows, file.waiting_bytes = [], 0, 0

    def _close(self, key: tuple[Any, ...]) -> None:
        file = self._open.pop(key)
        self._flush(file)
        file.writer.close()
        file.sink.close()
