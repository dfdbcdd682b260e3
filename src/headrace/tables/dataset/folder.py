"""Folder: how files get into a folder all at once, and what killed writers left is removed; driver Python."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from headrace.errors import WriteError
from headrace.tables.dataset.record import HOME, Record, read_record, replace_record

_LOCK_SECONDS = 120.0  # a lock is held while files are renamed and deleted, not while they are written
_LOOK_SECONDS = 0.01
_log = logging.getLogger(__name__)


class Folder:
    """One folder of files on a file system that renames at once and has locks.

    The system drops the locks of a process that ends, however it ends. So the lock of a write that still runs is held,
    and what lies beside one that is free was left behind.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._home = os.path.join(path, HOME)

    def begin(self) -> StagedWrite:
        """A place for the files of a new write. Removes first what writes that ended without a word left behind."""
        with self._locked():
            self._recovered()
            os.makedirs(os.path.join(self._home, "writes"), exist_ok=True)
            for name in os.listdir(os.path.join(self._home, "writes")):
                self._remove_if_dead(os.path.join(self._home, "writes", name))
            directory = os.path.join(self._home, "writes", uuid.uuid4().hex[:16])
            os.mkdir(directory)
            alive = open(os.path.join(directory, "alive"), "w")  # noqa: SIM115 (it is open for as long as the write)
            fcntl.flock(alive, fcntl.LOCK_EX)
        return StagedWrite(directory, alive)

    def publish(
        self,
        files: Sequence[tuple[str, str]],
        replaced: Callable[[], Sequence[str]],
        *,
        query_id: str = "",
        epoch: int | None = None,
        **facts: Any,
    ) -> bool:
        """All of ``files`` become part of the table, and those that ``replaced`` names are none any more, at once.

        ``files``: pairs of a path that is staged and the final one, relative to the folder. ``replaced`` is called when
        no other write can be published. ``facts`` are what the record is to say of the table. False, and nothing
        happens, where the epoch was committed before. Whatever this raises, the table is as it was.
        """
        with self._locked():
            record = self._recovered()
            if record.has_epoch(query_id, epoch):
                return False
            old = tuple(replaced())
            epochs = record.epochs if epoch is None else {**record.epochs, query_id: epoch}
            try:
                record = replace_record(self.path, record, adding=tuple(path for _, path in files))
                for staged, path in files:
                    self._rename(staged, path)
                record = replace_record(self.path, record, adding=(), removing=old, epochs=epochs, **facts)
            except BaseException:
                with contextlib.suppress(OSError):  # what this leaves, the next write removes
                    self._recovered()
                raise
            try:
                self._recovered()
            except OSError as error:  # the write counts: what it replaced is hidden, and the next write deletes it
                _log.warning("files that were replaced in %s could not be deleted yet: %s", self.path, error)
            return True

    def data_files(self) -> list[str]:
        """The files of the table, relative to the folder. Only for who holds the lock, when nothing is hidden."""
        found = []
        for directory, directories, files in os.walk(self.path):
            directories[:] = [name for name in directories if not name.startswith(("_", "."))]
            below = os.path.relpath(directory, self.path)
            found += [os.path.normpath(os.path.join(below, name)) for name in files if not name.startswith(("_", "."))]
        return sorted(found)

    def _recovered(self) -> Record:
        """Deletes the files that are hidden, of a write that was stopped halfway or of this one."""
        record = read_record(self.path)
        if not record.hidden:
            return record
        for path in record.hidden:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.path, path))
        for directory in {os.path.dirname(path) for path in record.hidden}:
            self._remove_empty(directory)
        return replace_record(self.path, record, adding=(), removing=())

    def _rename(self, staged: str, path: str) -> None:
        target = os.path.join(self.path, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            os.utime(staged)  # a stream of new files goes by their times: this one is new from now on
            os.rename(staged, target)
        except FileNotFoundError as error:
            raise WriteError(
                f"a task has written {os.path.basename(path)}, but it is not in {self.path} of the driver's machine: "
                "the folder must be one that all machines share"
            ) from error

    def _remove_empty(self, directory: str) -> None:
        """The folder of a partition without files, and those around it, up to that of the table."""
        while directory:
            try:
                os.rmdir(os.path.join(self.path, directory))
            except OSError:
                return
            directory = os.path.dirname(directory)

    def _remove_if_dead(self, directory: str) -> None:
        try:
            with open(os.path.join(directory, "alive")) as alive:
                fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            pass
        except BlockingIOError:
            return
        shutil.rmtree(directory, ignore_errors=True)  # a task that nobody waits for may still write there

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        end = time.monotonic() + _LOCK_SECONDS
        os.makedirs(self._home, exist_ok=True)
        with open(os.path.join(self._home, "lock"), "w") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise WriteError(
                            f"another write to {self.path} has been renaming its files for {_LOCK_SECONDS:.0f} s: "
                            f"{lock.name} is locked"
                        ) from None
                    time.sleep(_LOOK_SECONDS)
            yield


class StagedWrite:
    """Where the tasks of one write leave their files. In the driver it holds the lock that tells that it is alive."""

    def __init__(self, directory: str, alive: IO[str]) -> None:
        self.directory = directory
        self._alive: IO[str] | None = alive

    def __getstate__(self) -> dict[str, Any]:
        return {"directory": self.directory, "_alive": None}

    @property
    def id(self) -> str:
        return os.path.basename(self.directory)

    def close(self) -> None:
        """Removes all that is left of it. Idempotent."""
        if self._alive is not None:
            shutil.rmtree(self.directory, ignore_errors=True)
            self._alive.close()
            self._alive = None
