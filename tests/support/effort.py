"""How many random cases a test tries: a share of them in every run, all of them with ``pytest --soak``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")
SHARE = 3
_soak = False


def cases(full: int) -> int:
    """``full`` with ``--soak``, else a third of it, at least one."""
    return full if _soak else max(1, full // SHARE)


def share(everything: Sequence[Item]) -> Sequence[Item]:
    """All of them with ``--soak``, else every third, the first included: for cases that cost seconds each."""
    return everything if _soak else everything[::SHARE]


def set_soak(soak: bool) -> None:
    """Called once, before the test modules are imported: they ask for their counts in decorators."""
    global _soak
    _soak = soak
