"""DatasetWrite: rows become files, staged by tasks, published by the driver; the plan travels to executors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.errors import EvaluationError, WriteError
from headrace.expr.nodes import Expr
from headrace.plan import SortKey
from headrace.tables.dataset.file_writers import WRITERS, PartitionedFiles, check_format
from headrace.tables.dataset.folder import Folder
from headrace.tables.dataset.hive import can_partition, hive_columns, hive_values
from headrace.tables.dataset.opening import DatasetSource, OpenedDataset
from headrace.write import Message, WriteLayout, WriteMode, WritePlan, WriteRequest, WriteTask


@dataclass(frozen=True)
class WriteTarget:
    """Where the files of a table go, and how they are made."""

    folder: Folder
    format: str
    schema: pa.Schema
    partition_by: tuple[str, ...]

    def check(self) -> None:
        """Raises WriteError, naming the column, for what no file or path can hold."""
        for name in self.partition_by:
            if name.startswith(("_", ".")):
                raise WriteError(f"partition column {name!r}: readers leave out folders whose names begin with _ or .")
            if not can_partition(self.schema.field(name).type):
                raise WriteError(
                    f"partition column {name!r} has type {self.schema.field(name).type}; integers, text and dates can "
                    "be read from a path again"
                )
        stored = [field for field in self.schema if field.name not in self.partition_by]
        if not stored:
            raise WriteError("all columns are partition columns, so there is nothing to write into the files")
        check_format(self.format, pa.schema(stored))

    def decides(self, filters: Sequence[Expr]) -> bool:
        """Whether the partition of a file tells that they hold for all of its rows, or for none."""
        if not all(expr.columns() and expr.columns() <= set(self.partition_by) for expr in filters):
            return False
        try:
            self._matching([], filters)
        except (NotImplementedError, TypeError, EvaluationError):
            return False
        return True

    def doomed(self, filters: Sequence[Expr]) -> list[str]:
        """The files whose rows pass all ``filters``. Only for who holds the folder's lock."""
        return self._matching(self.folder.data_files(), filters)

    def in_partitions(self, paths: Sequence[str]) -> list[str]:
        """The files of the partitions that the files at ``paths`` are of. Only for who holds the folder's lock."""
        new = [self._keys(path) for path in paths]
        return [path for path in self.folder.data_files() if self._keys(path) in new]

    def publish(
        self, files: Sequence[tuple[str, str]], replaced: Callable[[], Sequence[str]], query_id: str, epoch: int | None
    ) -> bool:
        """False where the epoch was published before."""
        facts = {"format": self.format, "schema": self.schema, "partition_by": self.partition_by}
        return self.folder.publish(files, replaced, query_id=query_id, epoch=epoch, **facts)

    def layout(self) -> WriteLayout | None:
        """Each partition's rows in one task and in a row: few files, of which one is open."""
        if not self.partition_by:
            return None
        return WriteLayout(self.partition_by, tuple(SortKey(name) for name in self.partition_by))

    def _keys(self, path: str) -> dict[str, Any]:
        return hive_values(path, {name: self.schema.field(name).type for name in self.partition_by})

    def _matching(self, files: list[str], filters: Sequence[Expr]) -> list[str]:
        schema = pa.schema([self.schema.field(name) for name in self.partition_by])
        keys = pa.RecordBatch.from_pylist([self._keys(path) for path in files], schema)
        passing = [True] * len(files)
        for expr in filters:
            answers = expr.evaluate(keys).to_pylist()
            passing = [one and answer is True for one, answer in zip(passing, answers, strict=True)]
        return [path for path, passes in zip(files, passing, strict=True) if passes]


def write_target(source: DatasetSource | None, opened: OpenedDataset, schema: pa.Schema) -> WriteTarget | WriteError:
    """Where the files of a table go; or an error that says why it can only be read."""
    reason = "it is made of a pyarrow dataset" if source is None else source.read_only_because()
    if source is None or reason:
        return _read_only(f"{reason}; make it from the path of a folder, which is on a disk that all machines share")
    format = source.format_name(opened)
    if format not in WRITERS:
        what = "a format that is given as an object" if format is None else f"{format} files"
        return _read_only(f"{what} cannot be written; say format= one of {', '.join(WRITERS)}")
    known = source.partition_by or (opened.record.partition_by if opened.record is not None else ())
    folder = source.folder
    found = {hive_columns(os.path.relpath(fragment.path, folder)) for fragment in opened.fragments()} or {known}
    if len(found) > 1 or (known and known not in found):
        ways = {", ".join(columns) or "no column" for columns in (*found, known) if columns or columns in found}
        return _read_only(f"its files are partitioned in several ways, by {' and by '.join(sorted(ways))}")
    return WriteTarget(Folder(folder), format, schema, *found)


def _read_only(reason: str) -> WriteError:
    return WriteError(f"this DatasetTable can only be read: {reason}")


class DatasetWrite(WritePlan):
    """One write to a folder. Each attempt writes files of its own; ``commit`` publishes those of some attempts."""

    def __init__(self, target: WriteTarget, request: WriteRequest, published: Callable[[], None]) -> None:
        """``published`` is called in the driver after rows came or went."""
        target.check()
        self._target = target
        self._request = request
        self._published: Callable[[], None] | None = published
        self._staged = target.folder.begin()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_published": None}

    def write(self, task: WriteTask, batches: Iterator[pa.RecordBatch]) -> Message:
        directory = os.path.join(self._staged.directory, f"{task.partition}-{task.attempt}")
        name = f"part-{task.partition:05d}-{self._staged.id}-{task.attempt}"
        target = self._target
        files = PartitionedFiles(directory, name, target.format, target.schema, target.partition_by)
        try:
            for batch in batches:
                if batch.num_rows:
                    files.write(batch)
            return [vars(file) for file in files.close()]
        except BaseException:
            files.discard()
            raise

    def commit(self, messages: Sequence[Message]) -> None:
        if self._published is None:
            return
        files = [(file["staged"], file["path"]) for message in messages for file in message]
        request = self._request
        new = self._target.publish(
            files, lambda: self._replaced([path for _, path in files]), request.query_id, request.epoch
        )
        self.files_written = len(files) if new else 0
        published, self._published = self._published, None
        self._staged.close()
        published()

    def abort(self, messages: Sequence[Message | None]) -> None:
        self._staged.close()

    def describe(self) -> str:
        by = f" by {', '.join(self._target.partition_by)}" if self._target.partition_by else ""
        return f"{self._target.format} files{by} in {self._target.folder.path}"

    def _replaced(self, new: list[str]) -> list[str]:
        match self._request.mode:
            case WriteMode.APPEND:
                return []
            case WriteMode.DYNAMIC:
                return self._target.in_partitions(new)
            case _:
                return self._target.doomed(self._request.filters)
