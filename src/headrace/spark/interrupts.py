"""Ctrl-C cancels what runs, also while the main thread waits for a query, and says so in one line; driver Python."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, NoReturn

_CANCEL_SECONDS = 5.0
_OURS = ("headrace.", "pyspark.", "py4j.")
_PY4J = "KeyboardInterrupt while sending command."
_LINE = "KeyboardInterrupt: the query was cancelled"
_lock = threading.Lock()
_contexts = 0
_pyspark_handler: Any = None


def watch_interrupts() -> None:
    """Repair what PySpark and Py4J do at Ctrl-C, until ``leave_interrupts`` was called as often as this.

    PySpark's handler calls the JVM on the main thread's own connection, which is busy where that thread waits for
    ``df.collect()``: the call fails and the query runs on without its caller (seen with 4.3.0). It is replaced, where
    it is installed. A notebook's kernel has a handler of its own, which cancels nothing. But Py4J logs an interrupted
    call, with a traceback, on the root logger: a filter there cancels instead.
    """
    global _contexts, _pyspark_handler
    with _lock:
        _contexts += 1
        logging.getLogger().addFilter(_cancel_instead)
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGINT)
        if getattr(handler, "__module__", None) == "pyspark.core.context":
            _pyspark_handler = handler
            signal.signal(signal.SIGINT, _interrupted)


def leave_interrupts() -> None:
    """Undo it with the last context that is closed; the handler only on the main thread, as Python has it."""
    global _contexts
    with _lock:
        _contexts -= 1
        if _contexts:
            return
        logging.getLogger().removeFilter(_cancel_instead)
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is _interrupted:
            signal.signal(signal.SIGINT, _pyspark_handler)


def in_one_line(error: KeyboardInterrupt) -> None:
    """Have Python and IPython print one line of this Ctrl-C, and not where in Headrace or PySpark it came.

    Python does it by ``sys.excepthook``, which is put back as soon as an exception comes there.
    """
    shown: Any = error
    shown._render_traceback_ = lambda: [_LINE]
    previous = sys.excepthook

    def print_line(kind: type[BaseException], value: BaseException, traceback: TracebackType | None) -> None:
        if sys.excepthook is print_line:
            sys.excepthook = previous
        if hasattr(value, "_render_traceback_") and isinstance(value, KeyboardInterrupt):
            print(_LINE, file=sys.stderr)
        else:
            previous(kind, value, traceback)

    if previous is sys.__excepthook__:
        sys.excepthook = print_line


def _interrupted(_signal: int, frame: FrameType | None) -> NoReturn:
    error = KeyboardInterrupt()
    _cancel_jobs()
    while frame is not None:
        if f"{frame.f_globals.get('__name__')}.".startswith(_OURS):
            in_one_line(error)
            break
        frame = frame.f_back
    raise error


def _cancel_instead(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if record.msg != _PY4J or not isinstance(error, KeyboardInterrupt):
        return True
    if not hasattr(error, "_render_traceback_"):
        _cancel_jobs()
        in_one_line(error)
    return False


def _cancel_jobs() -> None:
    from pyspark import SparkContext  # not with this module, which results need that may come without Spark

    context = SparkContext._active_spark_context
    if context is not None:
        cancelling = threading.Thread(target=context.cancelAllJobs, name="headrace-interrupt", daemon=True)
        cancelling.start()  # a connection of its own
        cancelling.join(_CANCEL_SECONDS)
