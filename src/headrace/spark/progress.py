"""How far a result is, and a bar that shows it on a terminal or in a notebook; driver Python, the consumer's thread."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from headrace.arrow.rows import counted
from headrace.display import html_lines
from headrace.spark.interrupts import notebook_shell

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Display


@dataclass(frozen=True)
class Progress:
    """What of a result was handed out, and how many of its partitions have arrived (None: unknown yet)."""

    rows: int
    batches: int
    partitions_done: int
    partitions: int | None
    seconds: float


_REFRESH_SECONDS = 0.1
_NO_RICH = (
    "the progress bar needs rich, which is not installed: pip install 'headrace[cli]' (the query runs without it)"
)


class ProgressBar:
    """Shows each Progress it is called with in the notebook's cell, or else on ``console`` if that is a terminal.

    A terminal needs rich: where it is not installed, the bar warns once and shows nothing, and the query goes on.

    One thread at a time. ``close`` removes the bar; it may be called again.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._display: Display | None = None
        self._cell: _CellBar | None = None

    def start(self) -> None:
        if self._console is None and (display := _notebook_display()) is not None:
            self._cell = _CellBar(display)
            return
        try:
            from rich.console import Console
            from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Display
        except ModuleNotFoundError:
            warnings.warn(_NO_RICH, RuntimeWarning, stacklevel=2)
            return
        console = self._console or Console(stderr=True)
        if not console.is_terminal:
            return
        self._display = Display(
            SpinnerColumn(),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.fields[partitions]} partitions"),
            TextColumn("{task.fields[rows]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._display.add_task("result", total=None, rows="0 rows", partitions="?")
        self._display.start()

    def __call__(self, progress: Progress) -> None:
        if self._cell is not None:
            self._cell.show(progress)
        if self._display is not None:
            self._display.update(
                self._task,
                completed=progress.partitions_done,
                total=progress.partitions,
                rows=counted(progress.rows, "row"),
                partitions="?" if progress.partitions is None else progress.partitions,
            )

    def close(self) -> None:
        if self._cell is not None:
            self._cell.clear()
            self._cell = None
        if self._display is not None:
            self._display.stop()
            self._display = None


class _CellBar:
    """A bar in the output of the notebook's cell that runs. Needs no widgets, which rich's would."""

    def __init__(self, display: Any) -> None:
        self._shown = display({"text/html": html_lines("running", [], filled=0.0)}, raw=True, display_id=True)
        self._refreshed = monotonic()

    def show(self, progress: Progress) -> None:
        if monotonic() - self._refreshed < _REFRESH_SECONDS:
            return
        self._refreshed = monotonic()
        done, count = progress.partitions_done, progress.partitions
        rows = counted(progress.rows, "row")
        line = f"{done}/{'?' if count is None else count} partitions, {rows}, {progress.seconds:.0f} s"
        html = html_lines("running", [line], filled=done / count if count else 0.0)
        self._shown.update({"text/html": html, "text/plain": line}, raw=True)

    def clear(self) -> None:
        self._shown.update({"text/html": ""}, raw=True)


def _notebook_display() -> Any:
    """IPython's ``display`` where this process is a notebook's kernel, else None."""
    return None if notebook_shell() is None else sys.modules["IPython.display"].display
