"""Faults of a write plan, for ``FileTable.fault``: each does something at a place, in each attempt or in the first."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import headrace as hr


@dataclass(frozen=True)
class Fault:
    """``what`` happens at ``place``; of a task only in ``partition``. With ``once`` only the first time, in all.

    To "wait" is to wait until the file ``once`` is there.
    """

    place: str
    what: str = "raise"
    partition: int | None = None
    once: Path | None = None

    def __call__(self, place: str, task: hr.WriteTask | None) -> None:
        if place != self.place or (task is not None and self.partition not in (None, task.partition)):
            return
        if self.what == "wait":
            while self.once is not None and not self.once.exists():
                time.sleep(0.01)
            return
        if self.once is not None:
            try:
                os.close(os.open(self.once, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
        if self.what == "raise":
            raise LookupError(f"raised at {place}")
        if self.what == "die":
            os._exit(9)
        assert self.what == "sleep", self.what
        while True:  # a single call into C would not be interrupted in the driver's process
            time.sleep(0.01)
