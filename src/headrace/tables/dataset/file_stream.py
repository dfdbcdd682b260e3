"""FileStream: the files of a folder in the order in which they came, as ranges of offsets; driver, thread-safe.

An offset says which files were seen: all that were modified up to ``before``, and the later ones in ``recent``. So a
file that comes late, with an older time than others have, is new all the same while ``before`` is further back; an
offset is as long as the files since then are many. ``files`` counts all that were seen, which tells a range of which
files are gone from a whole one.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.errors import OffsetLostError, PlanError
from headrace.stream import Offset, ReadLimit
from headrace.tables.dataset.files import DatasetFile
from headrace.tables.dataset.opening import is_hidden
from headrace.tables.dataset.plan import Piece
from headrace.tables.dataset.record import Record, consistent
from headrace.tables.listing.paths import is_glob, listed_files

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_LOG = logging.getLogger("headrace")
_BEGINNING: Offset = {"before": None, "files": 0, "recent": []}


@dataclass(frozen=True)
class _Listed:
    """A file and when it was modified, in microseconds since 1970. One that is written anew is another one."""

    file: DatasetFile
    modified: int
    name: str

    @property
    def mark(self) -> str:
        """What stands for it in an offset."""
        return hashlib.sha256(f"{self.modified} {self.name}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class _Seen:
    """An offset, to be asked."""

    before: int | None
    recent: frozenset[str]
    files: int

    @classmethod
    def of(cls, offset: Offset) -> _Seen:
        match offset:
            case {"before": int() | None as before, "files": int(files), "recent": list(recent)}:
                return cls(before, frozenset(recent), files)
        raise OffsetLostError(
            f"the checkpoint's offset {str(offset)[:200]} is none of a DatasetTable: start with a new checkpoint"
        )

    def has(self, one: _Listed) -> bool:
        return (self.before is not None and one.modified <= self.before) or one.mark in self.recent


class FileStream:
    """Lists the files of ``source``, a folder, a glob or a file, as often as it is asked how far it goes.

    ``dataset`` is what was opened there before: new files are read as those were. ``look_back_us``: how much later than
    others of its time a file may come.
    """

    def __init__(self, source: str, dataset: ds.FileSystemDataset, look_back_us: int, format: Any) -> None:
        self._source = source
        self._filesystem, self._partitioning = dataset.filesystem, dataset.partitioning
        self._look_back_us = look_back_us
        self._format = format
        self._root = _root(source)
        self._lock = threading.Lock()
        self._files: dict[tuple[str, int], _Listed] = {}
        self._is_listed = False
        self._warned: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled lists its files anew."""
        return {**self.__dict__, "_lock": None, "_files": {}, "_is_listed": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def initial(self) -> Offset:
        return _BEGINNING

    def latest(self, start: Offset, limit: ReadLimit) -> Offset:
        """Lists the files. Counts their rows, from footers where they have such, only if there is a limit of rows."""
        seen, until = _Seen.of(start), None if limit.until is None else _Seen.of(limit.until)
        listed = self._listed_again(seen)
        new = [one for one in listed if not seen.has(one) and (until is None or until.has(one))]
        chosen = _within(sorted(new, key=lambda one: (one.modified, one.name)), limit)
        if until is not None and len(chosen) == len(new):
            return limit.until
        if not chosen:
            return start
        oldest = chosen[-1].modified - self._look_back_us
        before = oldest if seen.before is None else max(seen.before, oldest)
        marks = {one.mark for one in chosen} | seen.recent
        recent = sorted(one.mark for one in listed if one.modified > before and one.mark in marks)
        return {"before": before, "files": seen.files + len(chosen), "recent": recent}

    def between(self, start: Offset, end: Offset) -> list[DatasetFile]:
        """The files of a range, in the order of their times. Raises OffsetLostError where some are gone.

        Lists files only where those known do not suffice: in a new process, of a table that was made long ago.
        """
        first, last = _Seen.of(start), _Seen.of(end)
        wanted = last.files - first.files
        for again in (False, True):
            with self._lock:
                if again or not self._is_listed:
                    self._list()
                found = [one for one in self._files.values() if last.has(one) and not first.has(one)]
            if len(found) >= wanted:
                return [one.file for one in sorted(found, key=lambda one: (one.modified, one.name))]
        raise OffsetLostError(
            f"{wanted - len(found)} of {wanted} files of {self._source!r} that are to be read are gone, or were "
            "written anew: a file stays as it is until it was read. To go on without them, start with a new checkpoint"
        )

    def _listed_again(self, seen: _Seen) -> list[_Listed]:
        with self._lock:
            known = set(self._files) if self._is_listed else None
            self._list()
            for key, one in self._files.items():
                if known is not None and key not in known and seen.has(one) and one.mark not in seen.recent:
                    self._warn_of_late(one)
            return list(self._files.values())

    def _warn_of_late(self, one: _Listed) -> None:
        if one.name not in self._warned:
            self._warned.add(one.name)
            _LOG.warning(
                "%s: the file %s came later than lookback= allows for its modification time, and is not read",
                self._source,
                one.name,
            )

    def _list(self) -> None:
        """Keeps what is known of files that did not change."""
        found: dict[tuple[str, int], _Listed] = {}
        for info in self._infos():
            if not info.is_file:
                continue  # gone since it was listed
            if info.mtime_ns is None:
                raise PlanError(f"the file system of {self._source!r} does not tell when files were modified")
            key = info.path, info.mtime_ns // 1000
            found[key] = self._files.get(key) or self._described(info.path, key[1], info.size or 0)
        self._files, self._is_listed = found, True

    def _infos(self) -> Iterable[Any]:
        import pyarrow.fs as fs

        filesystem = self._filesystem
        if is_glob(self._source) and not os.path.exists(self._source):
            try:
                paths = [file.path for file in listed_files(self._source)]
            except FileNotFoundError:
                paths = []
            return list(filesystem.get_file_info(paths))
        if filesystem.get_file_info(self._root).type is not fs.FileType.Directory:
            return [filesystem.get_file_info(self._root)]
        if isinstance(filesystem, fs.LocalFileSystem):
            return consistent(self._root, self._below)[1]
        return self._below(Record())

    def _below(self, record: Record) -> list[Any]:
        """The files of the folder, without those that a write has not published."""
        import pyarrow.fs as fs

        found = self._filesystem.get_file_info(fs.FileSelector(self._root, recursive=True))
        relative = [(self._relative(info.path), info) for info in found]
        return [info for path, info in relative if not is_hidden(path) and path not in record.hidden]

    def _described(self, path: str, modified: int, size: int) -> _Listed:
        import pyarrow.dataset as ds

        parse: Callable[[str], Any] = self._partitioning.parse
        partition = parse(path if is_glob(self._source) else self._relative(path))
        keys = ds.get_partition_keys(partition)
        piece = Piece(path, self._format, self._filesystem, pickle.dumps(partition), size=size, keys=keys)
        return _Listed(DatasetFile((path, str(partition)), keys, piece), modified, self._relative(path))

    def _relative(self, path: str) -> str:
        return path.removeprefix(self._root).lstrip("/")


def _within(new: list[_Listed], limit: ReadLimit) -> list[_Listed]:
    """The first of them, as many as the limit lets pass, and at least one."""
    chosen: list[_Listed] = []
    rows = size = 0
    for one in new:
        size += one.file.size
        if limit.max_rows is not None:
            rows += one.file.whole.fragment().count_rows()
        too_many = limit.max_rows is not None and rows > limit.max_rows
        if chosen and (too_many or (limit.max_bytes is not None and size > limit.max_bytes)):
            break
        chosen.append(one)
    return chosen


def _root(source: str) -> str:
    """The folder, in the words of its file system; of a glob the one in which all that matches lies."""
    import pyarrow.fs as fs

    if is_glob(source) and not os.path.exists(source):
        parts = os.path.abspath(source).split(os.sep)
        return os.sep.join(parts[: next(i for i, part in enumerate(parts) if is_glob(part))])
    path = fs.FileSystem.from_uri(source)[1] if "://" in source else source
    return path.rstrip("/") or "/"
