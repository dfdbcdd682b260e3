"""DatasetWrite: rows become files, staged by tasks, published by the driver; the plan travels to executors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.errors import EvaluationError, WriteError
from headrace.expr.nodes import Expr
from headrace.plan import SortKey
from headrace.tables.dataset.directories import is_plain, opened_directory, opened_file
from headrace.tables.dataset.file_writers import (
    MOST_FILES,
    PARTITIONS,
    WRITERS,
    PartitionedFiles,
    check_format,
    staged_name,
)
from headrace.tables.dataset.folder import Folder, not_shared
from headrace.tables.dataset.hive import NAME_BYTES, can_partition, hive_columns, hive_path, hive_values
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
        new = {tuple(self._keys(path).values()) for path in paths}
        return [path for path in self.folder.data_files() if tuple(self._keys(path).values()) in new]

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

    def is_partition(self, directory: str) -> bool:
        """Whether rows of this table are written there. Raises ValueError, WriteError or OverflowError where not."""
        found, types = directory.split("/"), {name: self.schema.field(name).type for name in self.partition_by}
        return len(found) == len(types) and hive_path(hive_values(f"{directory}/", types)) == directory

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


def _numbers(message: Message, folder: str) -> tuple[int, int, int]:
    """Partition, attempt and number of files, of a task's message."""
    match message:
        case {"partition": partition, "attempt": attempt, "files": files, **rest} if not rest:
            numbers = partition, attempt, files
            if all(type(one) is int and 0 <= one < 2**63 for one in numbers) and files <= MOST_FILES:
                return numbers
    raise WriteError(f"a task that wrote to {folder} says {str(message)[:80]!r}, which is no message of a DatasetTable")


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
        target = self._target
        files = PartitionedFiles(directory, target.format, target.schema, target.partition_by)
        try:
            for batch in batches:
                if batch.num_rows:
                    files.write(batch)
            return {"partition": task.partition, "attempt": task.attempt, "files": files.close()}
        except BaseException:
            files.discard()
            raise

    def commit(self, messages: Sequence[Message]) -> None:
        if self._published is None:
            return
        files = self._staged_files(messages)
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

    def _staged_files(self, messages: Sequence[Message]) -> list[tuple[str, str]]:
        """The files of the attempts that count: where they are staged, and where they belong.

        A message comes from another process, which may be hostile, and so does all that lies in the staging folder. So
        both paths are made here, of numbers and of partitions that the table can have. Raises WriteError.
        """
        files: list[tuple[str, str]] = []
        partitions: set[int] = set()
        for message in messages:
            partition, attempt, count = _numbers(message, self._target.folder.path)
            if partition in partitions:
                raise WriteError(f"two tasks that wrote to {self._target.folder.path} say that they are {partition}")
            partitions.add(partition)
            files += self._of_attempt(partition, attempt, count)
        return files

    def _of_attempt(self, partition: int, attempt: int, count: int) -> Iterator[tuple[str, str]]:
        folder, staged = self._target.folder.path, f"{self._staged.path}/{partition}-{attempt}"
        ending, _ = WRITERS[self._target.format]
        if not count:
            return
        try:
            directories = self._directories(f"{staged}/{PARTITIONS}", count)
            with opened_directory(folder, staged) as place:
                for number, directory in enumerate(directories):
                    if not is_plain(os.stat(staged_name(number), dir_fd=place, follow_symlinks=False)):
                        raise ValueError(f"{staged_name(number)} is no file, or has another name too")
                    name = f"part-{partition:05d}-{self._staged.id}-{attempt}-{number}{ending}"
                    yield f"{staged}/{staged_name(number)}", os.path.join(directory, name)
        except FileNotFoundError as error:
            raise not_shared(folder, f"task {partition} has written {count:,} files") from error
        except (OSError, ValueError) as error:
            raise WriteError(
                f"what task {partition} has staged in {folder} cannot be published, and nothing was: {error}"
            ) from error

    def _directories(self, path: str, count: int) -> list[str]:
        """Where the files of an attempt belong. Raises ValueError, naming the line, for what is no partition."""
        columns = self._target.partition_by
        if not columns:
            return [""] * count
        most = count * (NAME_BYTES + 1) * len(columns)
        with open(opened_file(self._target.folder.path, path, os.O_RDONLY), "rb") as file:
            stored = file.read(most + 1)
        directories = stored.decode().split("\n")
        if len(stored) > most or len(directories) != count:
            raise ValueError(f"{PARTITIONS} does not say of {count:,} files where they belong")
        for number, directory in enumerate(directories):
            with contextlib.suppress(ValueError, OverflowError, WriteError):
                if self._target.is_partition(directory):
                    continue
            raise ValueError(f"line {number + 1} of {PARTITIONS} is no partition by {', '.join(columns)}")
        return directories

    def _replaced(self, new: list[str]) -> list[str]:
        match self._request.mode:
            case WriteMode.APPEND:
                return []
            case WriteMode.DYNAMIC:
                return self._target.in_partitions(new)
            case _:
                return self._target.doomed(self._request.filters)
