"""Record: which files in a folder are not, or not any more, part of its table; driver Python.

A folder that a DatasetTable wrote to has a record, ``_headrace/record.json``, which is always replaced as a whole.
Files of a write get their final names before the record says that they count, and those that they replace are deleted
after it. So whoever leaves out what the record hides sees all of a write or nothing, also where a process was killed.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from headrace.errors import HeadraceError

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
    """An empty one where there is none. Raises HeadraceError for a file that is none."""
    path = os.path.join(folder, HOME, _RECORD)
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return Record()
    except ValueError as error:
        raise HeadraceError(f"{path} is no record of what was written to the folder: {error}") from error
    schema = None if found["schema"] is None else pa.ipc.read_schema(pa.py_buffer(base64.b64decode(found["schema"])))
    lists = {name: tuple(found[name]) for name in ("adding", "removing", "partition_by")}
    return Record(**{**found, **lists, "schema": schema})


def replace_record(folder: str, record: Record, **changes: Any) -> Record:
    """Writes the changed record, at once as others see it. Only for who holds the folder's lock."""
    changed = dataclasses.replace(record, version=record.version + 1, **changes)
    stored = {one.name: getattr(changed, one.name) for one in dataclasses.fields(changed)}
    if changed.schema is not None:
        stored["schema"] = base64.b64encode(changed.schema.serialize()).decode()
    path = os.path.join(folder, HOME, _RECORD)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(stored, file)
    os.replace(f"{path}.new", path)
    return changed


def consistent(folder: str, listing: Callable[[Record], T]) -> tuple[Record, T]:
    """What ``listing`` finds while the record stays the same, and that record: a state that the table really had.

    ``listing`` is called again where the record changed meanwhile, as the files may have, and where it fails while
    files are hidden, as these may be deleted at any time. Raises what it does.
    """
    for left in reversed(range(_TRIES)):
        record = read_record(folder)
        try:
            found = listing(record)
        except OSError:
            if not left or (not record.hidden and read_record(folder).version == record.version):
                raise
            continue
        if read_record(folder).version == record.version:
            return record, found
    raise HeadraceError(f"{folder} is written to again and again while its files are listed: try later")
