"""Private directories for sockets and spilled batches, and the leftovers of processes that were killed; driver Python.

Each directory holds a lock file that its process keeps locked: the kernel lets go of it however the process ends. So
whoever can take the lock knows that the owner is gone, whatever process ids mean by now or in another container.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import threading
import weakref
from contextlib import suppress

_PREFIX = "headrace-"
_LOCK = "lock"
_swept: set[str] = set()
_sweeping = threading.Lock()


class PrivateDirectory:
    """A new directory that only this user can enter, gone with ``close``, with this object or with the process.

    ``base`` is the directory to make it in, the system's temporary one if not given. The first one that a process makes
    there removes what killed processes left.
    """

    def __init__(self, kind: str, base: str | None = None) -> None:
        base = base or tempfile.gettempdir()
        _sweep(base)
        self.path, lock = _locked_directory(base, f"{_PREFIX}{kind}-")
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def close(self) -> None:
        """Remove it and all that is in it. Idempotent, any thread."""
        self._finalizer()


def remove_leftovers(base: str) -> list[str]:
    """Remove the directories of processes of this user that are gone; returns their paths."""
    removed = []
    with suppress(OSError):
        for entry in os.scandir(base):
            if entry.name.startswith(_PREFIX) and _is_own(entry) and _remove_if_left(entry.path):
                removed.append(entry.path)
    return removed


def _sweep(base: str) -> None:
    with _sweeping:
        if base in _swept:
            return
        _swept.add(base)
    remove_leftovers(base)


def _is_own(entry: os.DirEntry[str]) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _remove_if_left(path: str) -> bool:
    try:
        lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False  # none of ours, or just being made
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False  # its owner lives
    else:
        shutil.rmtree(path, ignore_errors=True)
        return True
    finally:
        os.close(lock)


def _locked_directory(base: str, prefix: str) -> tuple[str, int]:
    while True:
        path = tempfile.mkdtemp(prefix=prefix, dir=base)  # with mode 0700
        lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(os.path.join(path, _LOCK)):
                return path, lock
        os.close(lock)  # a process that looked for leftovers was faster than this one


def _remove(path: str, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork, which ends before its parent
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)
