"""How far a result is, and a bar that shows it on a terminal; driver Python, the consumer's thread."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

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


_NO_RICH = (
    "the progress bar needs rich, which is not installed: pip install 'headrace[cli]' (the query runs without it)"
)


class ProgressBar:
    """Shows each Progress it is called with on ``console``; shows nothing where that is not a terminal.

    Without rich installed it warns once and shows nothing: the query goes on.

    One thread at a time. ``close`` removes the bar; it may be called again.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._display: Display | None = None

    def start(self) -> None:
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
            TextColumn("{task.fields[rows]:,} rows"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._display.add_task("result", total=None, rows=0, partitions="?")
        self._display.start()

    def __call__(self, progress: Progress) -> None:
        if self._display is not None:
            self._display.update(
                self._task,
                completed=progress.partitions_done,
                total=progress.partitions,
                rows=progress.rows,
                partitions="?" if progress.partitions is None else progress.partitions,
            )

    def close(self) -> None:
        if self._display is not None:
            self._display.stop()
            self._display = None
