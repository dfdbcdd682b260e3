"""Record: which files in a folder are not, or not any more, part of its table; driver Python.

A folder that a DatasetTable wrote to has a record, ``_headrace/record.json``, which is always replaced as a whole.
Files of a write get their final names before the record says that they count, and those that they replace are deleted
after it. So whoever leaves out what the record hides sees all of a write or nothing, also where a process was killed.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import errno
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from headrace.errors import HeadraceError
from headrace.tables.dataset.directories import opened_directory, opened_file

HOME = "_headrace"
"""The folder, in that of the table, of what is not data. Spark, DuckDB and pyarrow leave out such a name."""

_RECORD = "record.json"
_TRIES = 100  # as many writes would have to end while one listing takes place
T = TypeVar("T")


@dataclass(frozen=True)
class Record:
    """``adding``: files of a write that is not committed. ``removing``: files that a committed one has replaced.

    Paths are relative to the folder. ``epochs`` has the last one that each streaming query committed. ``format``,
    ``schema`` and ``partition_by`` are those of the table, of which a folder without files would tell nothing.
    ``version`` grows whenever the record is replaced.
    """

    version: int = 0
    adding: tuple[str, ...] = ()
    removing: tuple[str, ...] = ()
    epochs: Mapping[str, int] = field(default_factory=dict)
    format: str | None = None
    schema: pa.Schema | None = None
    partition_by: tuple[str, ...] = ()

    @property
    def hidden(self) -> tuple[str, ...]:
        """The files that are no part of the table, whether they are there or not. They may be deleted."""
        return (*self.adding, *self.removing)

    def has_epoch(self, query_id: str, epoch: int | None) -> bool:
        return epoch is not None and self.epochs.get(query_id, -1) >= epoch


def read_record(folder: str) -> Record:
    """An empty one where there is none. Raises HeadraceError for a file that is none, and for a symbolic link."""
    path = os.path.join(folder, HOME, _RECORD)
    try:
        with open(opened_file(folder, f"{HOME}/{_RECORD}", os.O_RDONLY), encoding="utf-8") as file:
            return _decoded(json.load(file))
    except (FileNotFoundError, NotADirectoryError):
        return Record()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise HeadraceError(f"{path} is, or lies in, a symbolic link, and Headrace follows none there") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise HeadraceError(f"{path} is no record of what was written to the folder: {error}") from error


def _decoded(stored: dict[str, Any]) -> Record:
    """Raises ValueError, TypeError or KeyError for what ``replace_record`` has not written."""
    texts = {name: tuple(stored[name]) for name in ("adding", "removing", "partition_by")}
    if not all(isinstance(text, str) for one in texts.values() for text in one):
        raise ValueError("a path or a column is no text")
    if not all(type(number) is int for number in (stored["version"], *dict(stored["epochs"]).values())):
        raise ValueError("a version or an epoch is no number")
    schema = stored["schema"] and pa.ipc.read_schema(pa.py_buffer(base64.b64decode(stored["schema"])))
    return Record(**{**stored, **texts, "schema": schema})


def replace_record(folder: str, record: Record, **changes: Any) -> Record:
    """Writes the changed record, at once as others see it. Only for who holds the folder's lock."""
    changed = dataclasses.replace(record, version=record.version + 1, **changes)
    stored = {one.name: getattr(changed, one.name) for one in dataclasses.fields(changed)}
    if changed.schema is not None:
        stored["schema"] = base64.b64encode(changed.schema.serialize()).decode()
    new = f"{_RECORD}.new"
    with opened_directory(folder, HOME) as home:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new, dir_fd=home)  # never written into: it may be another name of another file
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(new, flags, 0o666, dir_fd=home), "w", encoding="utf-8") as file:
            json.dump(stored, file)
        os.replace(new, _RECORD, src_dir_fd=home, dst_dir_fd=home)
    return changed


def consistent(folder: str, listing: Callable[[Record], T]) -> tuple[Record, T]:
    """What ``listing`` finds while the record stays the same, and that record: a state that the table really had.

    ``listing`` is called again where the record changed meanwhile, as the files may have, and where it fails while
    files are hidden, as these may be deleted at any time. pyarrow also lists what writes have staged, which is removed
    file by file when they end: for that it waits. Raises what it does.
    """
    for left in reversed(range(_TRIES)):
        record = read_record(folder)
        try:
            found = listing(record)
        except OSError as error:
            staged = f"{HOME}/writes" in str(error)
            if not left or not (staged or record.hidden or read_record(folder).version != record.version):
                raise
            if staged:
                time.sleep(min(0.001 * 2 ** (_TRIES - 1 - left), 0.5))
            continue
        if read_record(folder).version == record.version:
            return record, found
    raise HeadraceError(f"{folder} is written to again and again while its files are listed: try later")
