"""Which process code belongs to: a child that user code has forked must not act for its parent; everywhere."""

from __future__ import annotations

import contextlib
import logging
import os
import sys

_EXIT_FAILED = 1
_LOG = logging.getLogger("headrace")


class OwnProcess:
    """The process in which this object was made. Any thread."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    @property
    def is_child(self) -> bool:
        """Whether the caller is a forked child: connections, queues and locks are its parent's."""
        return os.getpid() != self.pid

    def end_child(self) -> None:
        """End the process if it is a forked child. To be called wherever user code comes back.

        By ``os._exit``: any other end would send or receive on connections of the parent, or run its clean-up. The exit
        status is that of a SystemExit on its way; otherwise it is 1, and a line in the log says why.
        """
        if not self.is_child:
            return
        error, status = sys.exception(), _EXIT_FAILED
        if isinstance(error, SystemExit):
            status = error.code if isinstance(error.code, int) else int(error.code is not None)
        else:
            with contextlib.suppress(BaseException):  # a handler of the user's, or an error that cannot be shown
                _LOG.error(
                    "process %d, a child that user code has forked, %s and was ended: rows and answers come from its "
                    "parent %d alone. End a forked child with os._exit(), or use subprocess or multiprocessing",
                    os.getpid(),
                    "yielded or returned to Headrace" if error is None else "raised an error",
                    self.pid,
                    exc_info=error,
                )
        os._exit(status & 0xFF)
