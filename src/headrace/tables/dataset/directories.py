"""Directories below a table's folder, opened one by one so that no symbolic link leads elsewhere; driver Python."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator


@contextlib.contextmanager
def opened_directory(folder: str, path: str = "", *, make: bool = False) -> Iterator[int]:
    """A descriptor of the directory ``path`` below ``folder``, for the ``dir_fd`` of other calls.

    The user has named ``folder``, so the way to it may have links. Raises OSError (ELOOP), naming the link, for one
    below it, other OSErrors for what is no directory, and ValueError for a path that is absolute or has a ``..``.
    """
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        place = folder
        for name in path.split("/") if path else ():
            if name in ("", ".", ".."):
                raise ValueError(f"{path!r} is no path below {folder}")
            place = os.path.join(place, name)
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=directory)
            below = _opened(name, directory, place)
            os.close(directory)
            directory = below
        yield directory
    finally:
        os.close(directory)


def opened_file(folder: str, path: str, flags: int) -> int:
    """A descriptor of the file ``path`` below ``folder``. Raises OSError (ELOOP) for links; never waits for a pipe."""
    directory, name = os.path.split(path)
    with opened_directory(folder, directory) as place:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666, dir_fd=place)


def is_plain(found: os.stat_result) -> bool:
    """Whether it is a file, and no other name leads to it."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def _opened(name: str, directory: int, place: str) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
    except OSError as error:  # systems differ in which one a link raises
        is_link = stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
        number = errno.ELOOP if is_link else error.errno
        raise OSError(number, "a symbolic link, which is not followed" if is_link else error.strerror, place) from None
