"""Which line of the user's code a finding is about; pure."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterable
from pathlib import Path

_KIT = f"{Path(__file__).parent}/"
_HEADRACE = f"{Path(__file__).parent.parent}/"
_INSTALLED = tuple({f"{sysconfig.get_paths()[name]}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_COMPILED = (".pxi", ".pyx")


def user_line(frames: Iterable[tuple[str, int]]) -> str:
    """`` (my_table.py:12)``, for the end of a message; empty where Headrace called nobody else.

    ``frames`` are files and lines, the innermost first. The line is the innermost one that is of no installed package:
    not where pyarrow raised, but who called it. A provider that is installed itself is named by its own method.
    """
    found = ""
    for file, line in frames:
        if file.startswith(_KIT):
            break
        if file.startswith(("<", _HEADRACE)) or file.endswith(_COMPILED):
            continue
        found = f" ({file.rpartition('/')[2]}:{line})"
        if not file.startswith(_INSTALLED):
            break
    return found
