"""DuckDB files: one database handle per file and process, which its connections share; driver and executors."""

from __future__ import annotations

import fcntl
import importlib
import os
import threading
import weakref
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_IN_MEMORY = ("", ":memory:")
_WAIT_S = 60.0
"""For the statement of this process that holds the file; as long as SQLite waits for another process."""
_YIELD_S = 1.0
"""Readers let a waiting writer go first for so long: without it, readers that overlap keep a writer out for good."""


@dataclass
class _Handle:
    """A file that this process has open. ``database``: a connection that only keeps the handle open."""

    database: Any
    settings: dict[str, str]
    users: int = 0
    written: bool = False
    """Whether a connection that writes is open. Writers take turns: DuckDB fails the later one of two that conflict."""


_CHANGED = threading.Condition()
_HANDLES: dict[Hashable, _Handle] = {}
_WAITING_WRITERS: list[Hashable] = []


class DuckDBConnection:
    """A connection on the shared handle of its file. The last one to be closed, or forgotten, closes the handle."""

    def __init__(self, connection: Any, key: Hashable, *, writes: bool) -> None:
        self._connection = connection
        self._release = weakref.finalize(self, _release, connection, key, writes)
        self._release.atexit = False

    def cursor(self) -> Any:
        return self._connection.cursor()

    def close(self) -> None:
        """Idempotent."""
        self._release()


def open_duckdb(path: str, options: Mapping[str, str], *, writes: bool = False) -> DuckDBConnection:
    """A connection that commits by itself. It only reads, unless ``writes`` or the ``access_mode`` of the options.

    DuckDB does not see that its own process has a file open already: each of two handles would overwrite what the
    other has written, and closing one would drop the locks of both. So the connections of this process to a file,
    under whatever path, share one handle. While one writes, the others read what was committed before; a writer waits
    until no other one writes and the readers of a handle that cannot write are done.

    Raises ValueError for a database in memory, which no other process sees. Raises OSError, which says what to do,
    where the file is in use: by another process, by a connection that is not Headrace's, or here for too long.
    """
    if path in _IN_MEMORY:
        raise ValueError("a DuckDB database in memory is seen by no other process: give AdbcTable the path of a file")
    settings = {"access_mode": "READ_WRITE" if writes else "READ_ONLY", **options}
    with _CHANGED:
        key = _await_turn(path, settings, writes=writes)
        handle = _HANDLES.get(key)
        if handle is None:
            handle = _Handle(_opened(path, settings, writes=writes), settings)
            key = _key(path)  # of a file that was made just now
            _HANDLES[key] = handle
        handle.users += 1
        handle.written |= writes
        try:
            connection = handle.database.adbc_clone()
            connection.adbc_connection.set_autocommit(True)
        except BaseException:
            _release(None, key, writes)
            raise
        return DuckDBConnection(connection, key, writes=writes)


def _await_turn(path: str, settings: dict[str, str], *, writes: bool) -> Hashable:
    """The file's key, once it has no handle, or one that serves. Raises OSError after a minute."""

    def serves() -> bool:
        handle = _HANDLES.get(_key(path))
        return handle is None or (_covers(handle.settings, settings) and not (writes and handle.written))

    def is_in_no_way() -> bool:
        handle = _HANDLES.get(key)
        return key not in _WAITING_WRITERS or (handle is not None and handle.written)

    key = _key(path)
    if writes:
        _WAITING_WRITERS.append(key)
    else:
        _CHANGED.wait_for(is_in_no_way, _YIELD_S)
    try:
        if not _CHANGED.wait_for(serves, _WAIT_S):
            raise OSError(
                f"the DuckDB file {path!r} is in use by other statements of this process, and was not free within "
                f"{_WAIT_S:.0f} seconds: end them first. A write waits for reads in this process, and tables of one "
                "file with different db_kwargs wait for each other"
            )
    finally:
        if writes:
            _WAITING_WRITERS.remove(key)
            _CHANGED.notify_all()
    return _key(path)


def _covers(held: dict[str, str], wanted: dict[str, str]) -> bool:
    """Whether a handle with the settings ``held`` does for a connection that wants others: one can write, one reads."""
    return held == wanted or (wanted["access_mode"] == "READ_ONLY" and {**held, "access_mode": "READ_ONLY"} == wanted)


def _key(path: str) -> Hashable:
    """One for all paths of a file: links, relative paths. A file that takes the place of another is another one."""
    try:
        file = os.stat(path)
    except OSError:  # not there yet, or no file of this machine's
        return os.getpid(), os.path.realpath(path)
    return os.getpid(), file.st_dev, file.st_ino


def _opened(path: str, settings: dict[str, str], *, writes: bool) -> Any:
    import adbc_driver_manager.dbapi

    driver: Any = importlib.import_module("adbc_driver_duckdb")
    mode = "open" if writes else "open for writing"
    if _is_open_here(path, writes=writes):
        raise OSError(f"this process has the DuckDB file {path!r} {mode}: close that connection first")
    # The log of what is not in the file yet lies beside the name by which the file was opened: not that of a link.
    place = os.path.realpath(path) if os.path.exists(path) else path
    try:
        return adbc_driver_manager.dbapi.connect(
            driver.driver_path(), entrypoint="duckdb_adbc_init", db_kwargs={**settings, "path": place}, autocommit=True
        )
    except adbc_driver_manager.Error as error:
        if "lock on file" in str(error):
            raise OSError(
                f"another process has the DuckDB file {path!r} {mode}: end that one first, or let it work with "
                f"a copy; any number of processes may read. DuckDB says: {error}"
            ) from None
        raise


def _release(connection: Any, key: Hashable, writes: bool) -> None:
    with _CHANGED:
        try:
            if connection is not None:
                connection.close()
        finally:
            handle = _HANDLES[key]
            handle.users -= 1
            handle.written &= not writes
            try:
                if not handle.users:
                    del _HANDLES[key]
                    handle.database.close()
            finally:
                _CHANGED.notify_all()


def _is_open_here(path: str, *, writes: bool) -> bool:
    """Whether this process has the file open in a way that ``writes`` bears no more than another process would.

    The system does not tell a process of its own locks, and drops all of them when it closes the file once: DuckDB
    would read what is half written, and another process could then write to the file, too.
    """
    if not Path("/dev/fd").is_dir() or not Path(path).exists():
        return False
    file = os.stat(path)
    for descriptor in map(int, os.listdir("/dev/fd")):
        try:
            if os.path.samestat(file, os.fstat(descriptor)):
                mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
                if writes or mode != os.O_RDONLY:
                    return True
        except OSError:  # that of the listing itself, closed by now
            continue
    return False
