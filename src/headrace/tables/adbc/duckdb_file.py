"""A DuckDB file, opened so that several processes can read it at once; driver and executors."""

from __future__ import annotations

import fcntl
import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_IN_MEMORY = ("", ":memory:")


def open_duckdb(path: str, options: Mapping[str, str]) -> Any:
    """An ADBC DBAPI connection that only reads, unless an ``access_mode`` among the options says otherwise.

    Raises ValueError for a database in memory, which no other process sees. Raises OSError, which says what to do,
    where the file is open for writing, here or in another process.
    """
    import adbc_driver_manager.dbapi

    driver: Any = importlib.import_module("adbc_driver_duckdb")
    if path in _IN_MEMORY:
        raise ValueError("a DuckDB database in memory is seen by no other process: give AdbcTable the path of a file")
    if _is_written_here(path):
        raise OSError(f"this process has the DuckDB file {path!r} open for writing: close that connection first")
    settings = {"access_mode": "READ_ONLY", **options, "path": path}
    try:
        return adbc_driver_manager.dbapi.connect(
            driver.driver_path(), entrypoint="duckdb_adbc_init", db_kwargs=settings, autocommit=True
        )
    except adbc_driver_manager.Error as error:
        if "lock on file" in str(error):
            raise OSError(
                f"another process has the DuckDB file {path!r} open for writing: end that one first, or let it write "
                f"to a copy; any number of processes may read. DuckDB says: {error}"
            ) from None
        raise


def _is_written_here(path: str) -> bool:
    """Whether this process has the file open for writing.

    The system does not tell a process of its own locks, and drops all of them when it closes the file once: DuckDB
    would read what is half written, and another process could then write to the file, too.
    """
    if not Path("/dev/fd").is_dir() or not Path(path).exists():
        return False
    file = os.stat(path)
    for descriptor in map(int, os.listdir("/dev/fd")):
        try:
            same = os.path.samestat(file, os.fstat(descriptor))
            if same and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
                return True
        except OSError:  # that of the listing itself, closed by now
            continue
    return False
