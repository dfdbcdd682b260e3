"""Folder: how files get into a folder all at once, and what killed writers left is removed; driver Python."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from headrace.errors import WriteError
from headrace.tables.dataset.directories import is_plain, opened_directory, opened_file
from headrace.tables.dataset.record import HOME, Record, read_record, replace_record

_LOCK_SECONDS = 120.0  # a lock is held while files are renamed and deleted, not while they are written
_LOOK_SECONDS = 0.01
_WRITES = f"{HOME}/writes"
_LOCK = f"{HOME}/lock"
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)
_log = logging.getLogger(__name__)


class Folder:
    """One folder of files on a file system that renames at once and has locks.

    The system drops the locks of a process that ends, however it ends. So the lock of a write that still runs is held,
    and what lies beside one that is free was left behind.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def begin(self) -> StagedWrite:
        """A place for the files of a new write. Removes first what writes that ended without a word left behind."""
        with self._locked():
            self._recovered()
            with opened_directory(self.path, _WRITES, make=True) as writes:
                for name in os.listdir(writes):
                    _remove_if_dead(writes, name)
                id = uuid.uuid4().hex[:16]
                os.mkdir(id, dir_fd=writes)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            alive = open(opened_file(self.path, f"{_WRITES}/{id}/alive", flags), "w")  # noqa: SIM115 (open for as long as the write)
            fcntl.flock(alive, fcntl.LOCK_EX)
        return StagedWrite(self.path, id, alive)

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

        ``files``: pairs of a path that is staged and the final one, both relative to the folder. ``replaced`` is called
        when no other write can be published. ``facts`` are what the record is to say of the table. False, and nothing
        happens, where the epoch was committed before. Whatever this raises, the table is as it was.
        """
        with self._locked():
            record = self._recovered()
            if record.has_epoch(query_id, epoch):
                return False
            new, old = tuple(path for _, path in files), tuple(replaced())
            self._check_places(new, old)
            epochs = record.epochs if epoch is None else {**record.epochs, query_id: epoch}
            left = record.removing
            try:
                record = replace_record(self.path, record, adding=new)
                for staged, path in files:
                    self._rename(staged, path)
                record = replace_record(self.path, record, adding=(), removing=(*left, *old), epochs=epochs, **facts)
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
        """The files of the table, relative to the folder. Only for who holds the lock.

        Links to directories are followed, as readers do, except to one above: there is no end to it.
        """
        found, hidden = [], set(read_record(self.path).hidden)
        for directory, directories, files in os.walk(self.path, followlinks=True):
            directories[:] = [
                name for name in directories if not name.startswith(("_", ".")) and not _loops(directory, name)
            ]
            below = os.path.relpath(directory, self.path)
            found += [os.path.normpath(os.path.join(below, name)) for name in files if not name.startswith(("_", "."))]
        return sorted(path for path in found if path not in hidden)

    def _check_places(self, new: Sequence[str], old: Sequence[str]) -> None:
        """Raises WriteError where a new file would replace one, or has a path that is too long to be opened, or where
        the way to a file leads through a link.
        """
        for directory in sorted({os.path.dirname(path) for path in (*new, *old)}):
            with contextlib.suppress(FileNotFoundError), opened_directory(self.path, directory):
                pass
        most = os.pathconf(self.path, "PC_PATH_MAX") - 1  # without the NUL at its end
        for path in new:
            whole = os.path.join(self.path, path)
            if (length := len(os.fsencode(whole))) > most:
                raise WriteError(
                    f"{path[:80]}... in {self.path} would be a path of {length:,} bytes, and no file is opened by one "
                    f"of more than {most:,}: nothing was changed. Shorten the values of the partition columns, or "
                    "partition by fewer"
                )
            if os.path.lexists(whole):
                raise WriteError(f"{path} is in {self.path} already, and not of this write: nothing was changed")

    def _recovered(self) -> Record:
        """Deletes the files that are hidden, of a write that was stopped halfway or of this one.

        Those that cannot be deleted stay hidden, or nothing could be written to the folder any more.
        """
        record = read_record(self.path)
        if not record.hidden:
            return record
        left = tuple(path for path in record.hidden if not self._removed(path))
        for directory in {os.path.dirname(path) for path in record.hidden}:
            self._remove_empty(directory)
        if left:
            _log.warning("%d files in %s are hidden and could not be deleted yet: %s", len(left), self.path, left[0])
        if left == record.hidden and not record.adding:
            return record
        return replace_record(self.path, record, adding=(), removing=left)

    def _removed(self, path: str) -> bool:
        """False where the file may be there still."""
        directory, name = os.path.split(path)
        try:
            with opened_directory(self.path, directory) as place:
                os.unlink(name, dir_fd=place)
        except ValueError:  # no file of this folder can be named so
            return True
        except OSError as error:
            return error.errno in _NOT_THERE
        return True

    def _rename(self, staged: str, path: str) -> None:
        (source, staged_name), (target, name) = os.path.split(staged), os.path.split(path)
        try:
            with opened_directory(self.path, source) as old, opened_directory(self.path, target, make=True) as new:
                # A stream of new files goes by their times: this one is new from now on.
                os.utime(staged_name, dir_fd=old, follow_symlinks=False)
                os.rename(staged_name, name, src_dir_fd=old, dst_dir_fd=new)
                moved = os.stat(name, dir_fd=new, follow_symlinks=False)
        except FileNotFoundError as error:
            raise not_shared(self.path, f"a task has written {name}") from error
        if not is_plain(moved):
            raise WriteError(f"{staged} in {self.path} was a file, and something else when it was published")

    def _remove_empty(self, directory: str) -> None:
        """The folder of a partition without files, and those around it, up to that of the table."""
        while directory:
            above, name = os.path.split(directory)
            try:
                with opened_directory(self.path, above) as place:
                    os.rmdir(name, dir_fd=place)
            except (OSError, ValueError):
                return
            directory = above

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Raises WriteError, naming it, for a symbolic link that a write would have to follow."""
        end = time.monotonic() + _LOCK_SECONDS
        os.makedirs(self.path, exist_ok=True)
        try:
            with opened_directory(self.path, HOME, make=True):
                pass
            with open(opened_file(self.path, _LOCK, os.O_RDWR | os.O_CREAT), "w") as lock:
                while True:
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        if time.monotonic() > end:
                            raise WriteError(
                                f"another write to {self.path} has been renaming its files for {_LOCK_SECONDS:.0f} s: "
                                f"{_LOCK} is locked"
                            ) from None
                        time.sleep(_LOOK_SECONDS)
                yield
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise WriteError(
                f"{error.filename} is a symbolic link, and what is written to {self.path} and deleted there follows "
                "none: nothing was changed. Put the directory itself there, or make a table of the one it leads to"
            ) from error


class StagedWrite:
    """Where the tasks of one write leave their files. In the driver it holds the lock that tells that it is alive."""

    def __init__(self, folder: str, id: str, alive: IO[str]) -> None:
        self.id = id
        self._folder = folder
        self._alive: IO[str] | None = alive

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_alive": None}

    @property
    def path(self) -> str:
        """Relative to the table's folder."""
        return f"{_WRITES}/{self.id}"

    @property
    def directory(self) -> str:
        return os.path.join(self._folder, self.path)

    def close(self) -> None:
        """Removes all that is left of it. Idempotent."""
        if self._alive is not None:
            with contextlib.suppress(OSError), opened_directory(self._folder, _WRITES) as writes:
                shutil.rmtree(self.id, ignore_errors=True, dir_fd=writes)
            self._alive.close()
            self._alive = None


def not_shared(folder: str, written: str) -> WriteError:
    return WriteError(
        f"{written}, but not into {folder} of the driver's machine: the folder must be one that all machines share"
    )


def _remove_if_dead(writes: int, name: str) -> None:
    """Also where it has no lock any more; not what a write has not made, or another user has."""
    try:
        alive = os.open(f"{name}/alive", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=writes)
    except FileNotFoundError:
        pass
    except OSError:
        return
    else:
        with open(alive) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
    shutil.rmtree(name, ignore_errors=True, dir_fd=writes)  # a task that nobody waits for may still write there


def _loops(directory: str, name: str) -> bool:
    """Whether it is a link to a directory above it."""
    path = os.path.join(directory, name)
    if not os.path.islink(path):
        return False
    return os.path.join(os.path.realpath(directory), "").startswith(os.path.join(os.path.realpath(path), ""))
