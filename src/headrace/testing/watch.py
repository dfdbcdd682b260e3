"""Watches what user code does while it should only plan (I/O, sleep, ``execute``), on the calling thread.

Python's audit events are what is seen. Libraries that read files or sockets in C or C++ (pyarrow's own readers,
most database drivers) raise none; for them there is only the time that was taken.
"""

from __future__ import annotations

import _thread
import contextlib
import contextvars
import functools
import gc
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from headrace.plan import ExecutionPlan
from headrace.testing.user_lines import user_line

_EVENTS: dict[str, Callable[[tuple[Any, ...]], str]] = {
    "open": lambda args: f"opened {args[0]!r}",
    "os.listdir": lambda args: f"listed the directory {args[0]!r}",
    "os.scandir": lambda args: f"listed the directory {args[0]!r}",
    "os.remove": lambda args: f"removed {args[0]!r}",
    "os.rename": lambda args: f"renamed {args[0]!r}",
    "os.mkdir": lambda args: f"made the directory {args[0]!r}",
    "os.system": lambda args: f"ran the command {args[0]!r}",
    "os.exec": lambda args: f"ran {args[0]!r}",
    "os.fork": lambda args: "forked the process",
    "os.posix_spawn": lambda args: f"started the process {args[0]!r}",
    "subprocess.Popen": lambda args: f"started the process {args[1]!r}",
    "socket.connect": lambda args: f"connected to {args[1]!r}",
    "socket.bind": lambda args: f"bound a socket to {args[1]!r}",
    "socket.getaddrinfo": lambda args: f"looked up the address of {args[0]!r}",
    "sqlite3.connect": lambda args: f"opened the database {args[0]!r}",
}
_CALLS: dict[Any, str] = {
    time.sleep: "slept",
    _thread.start_new_thread: "started a thread, and what that does is not seen",
    getattr(_thread, "start_joinable_thread", None): "started a thread, and what that does is not seen",
}
"""Functions in C that raise no audit event (not in every version of Python); the second is Python 3.13's."""
_NO_IO_OF_THE_PROVIDER = {"linecache", "tokenize", "zoneinfo", "tzdata", "pytz", "dateutil"}
"""Packages that read their own files when they are first needed: for a traceback, for a time zone."""


@dataclass
class Observed:
    """What happened during one call; ``acts`` are texts such as "opened '/tmp/x' (my_table.py:12)"."""

    acts: list[str] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)
    seconds: float = 0.0


_observer: contextvars.ContextVar[Observed | None] = contextvars.ContextVar("headrace_observer", default=None)


@contextlib.contextmanager
def watched() -> Iterator[Observed]:
    """Watch the calling thread for the time of the block.

    Garbage is not collected meanwhile: what is left of an earlier scan would run here, to be closed.
    """
    _install_hook()
    observed = Observed()
    token = _observer.set(observed)
    profiling = sys.getprofile() is None  # someone's own profiler is not disturbed
    if profiling:
        sys.setprofile(_notice_call)
    collecting = gc.isenabled()
    gc.disable()
    start = time.perf_counter()
    try:
        yield observed
    finally:
        observed.seconds = time.perf_counter() - start
        if profiling:
            sys.setprofile(None)
        if collecting:
            gc.enable()
        _observer.reset(token)


@functools.cache
def _install_hook() -> None:
    """Once in a process: an audit hook cannot be taken out again, so it looks for an observer first."""
    sys.addaudithook(_audit)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    observed = _observer.get()
    if observed is None or event not in _EVENTS:
        return
    if event == "open" and (isinstance(args[0], int) or str(args[0]).startswith("/dev/")):
        return  # an open file wrapped once more; no file at all
    place = _place(sys._getframe(1))
    if place is not None:
        observed.acts.append(f"{_EVENTS[event](args)}{place}")


def _place(frame: FrameType | None) -> str | None:
    """Where in the user's code this is, as " (file:line)"; None for an import and the like."""
    frames = []
    while frame is not None:
        file = frame.f_code.co_filename
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if file.startswith(("<frozen importlib", "<frozen zipimport")) or package in _NO_IO_OF_THE_PROVIDER:
            return None
        frames.append((file, frame.f_lineno))
        frame = frame.f_back
    return user_line(frames)


def _notice_call(frame: FrameType, event: str, arg: Any) -> None:
    if event == "c_call" and arg in _CALLS:
        observed, place = _observer.get(), _place(frame)
        if observed is not None and place is not None:
            observed.acts.append(f"{_CALLS[arg]}{place}")
    if event != "call" or frame.f_code.co_name != "execute" or not frame.f_code.co_varnames:
        return
    observed, plan = _observer.get(), frame.f_locals.get(frame.f_code.co_varnames[0])
    if observed is not None and isinstance(plan, ExecutionPlan):
        observed.executed.append(f"{type(plan).__name__}.execute")
