"""Ctrl-C cancels what runs, also while the main thread waits for a query, and says so in one line; driver Python."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, NoReturn

_CANCEL_SECONDS = 5.0
_LOOK_SECONDS = 0.1
_OURS = ("headrace.", "pyspark.", "py4j.")
_PY4J = "KeyboardInterrupt while sending command."
_LINE = "KeyboardInterrupt: the query was cancelled"
_lock = threading.Lock()
_contexts = 0
_replaced: Any = None
"""The handler that was there before ``_interrupted``."""


def watch_interrupts() -> None:
    """Repair what PySpark and Py4J do at Ctrl-C, until ``leave_interrupts`` was called as often as this.

    PySpark's handler calls the JVM on the main thread's own connection, which is busy where that thread waits for
    ``df.collect()``: the call fails and the query runs on without its caller (seen with 4.3.0). It is replaced, where
    it is installed. So is that of a notebook's kernel, which cancels nothing, and which the kernel installs again for
    each cell. Py4J logs an interrupted call, with a traceback, on the root logger: a filter there drops the line.
    """
    global _contexts
    with _lock:
        _contexts += 1
        logging.getLogger().addFilter(_cancel_instead)
        _take_signal()
        if _contexts == 1 and (notebook := notebook_shell()) is not None:
            notebook.events.register("pre_run_cell", _take_signal)


def leave_interrupts() -> None:
    """Undo it with the last context that is closed; the handler only on the main thread, as Python has it."""
    global _contexts
    with _lock:
        _contexts -= 1
        if _contexts:
            return
        logging.getLogger().removeFilter(_cancel_instead)
        if (notebook := notebook_shell()) is not None:
            with suppress(ValueError):  # the shell is another one by now
                notebook.events.unregister("pre_run_cell", _take_signal)
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is _interrupted:
            signal.signal(signal.SIGINT, _replaced)


def notebook_shell() -> Any:
    """IPython's shell where this process is a notebook's kernel, else None."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell if hasattr(shell, "kernel") else None


def _take_signal(*_cell: Any) -> None:
    """Not where a cell has ``await``: the kernel cancels it by a handler of its own."""
    global _replaced
    if threading.current_thread() is not threading.main_thread():
        return
    handler = signal.getsignal(signal.SIGINT)
    of_pyspark = getattr(handler, "__module__", None) == "pyspark.core.context"
    if of_pyspark or (handler is signal.default_int_handler and notebook_shell() is not None):
        _replaced = handler
        signal.signal(signal.SIGINT, _interrupted)


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
    is_ours = False
    while frame is not None:
        is_ours = is_ours or f"{frame.f_globals.get('__name__')}.".startswith(_OURS)
        if frame.f_code.co_name == "_collect_as_arrow":
            # toPandas asks in a finally block how its job ended: that it was cancelled would be raised instead of this.
            server = frame.f_locals.get("jsocket_auth_server")
            if server is not None:
                server.getResult = lambda: None
        frame = frame.f_back
    if is_ours or _replaced is not signal.default_int_handler:
        _cancel_jobs()  # not the streams in the background of a cell that does something else
    if is_ours:
        in_one_line(error)
    raise error


def _cancel_instead(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if record.msg != _PY4J or not isinstance(error, KeyboardInterrupt):
        return True
    if not hasattr(error, "_render_traceback_"):
        _cancel_jobs()
        in_one_line(error)
    _drop_connection(record.exc_info)
    return False


def _drop_connection(raised: Any) -> None:
    """Close the connection of the interrupted call. Else Py4J would, by a command over those of all other threads too:
    it breaks the next call ("Answer from Java side is empty"), or fails and logs a BrokenPipeError.
    """
    connection = raised[2].tb_frame.f_locals.get("connection")
    if connection is not None:
        connection.close()


def _cancel_jobs() -> None:
    from pyspark import SparkContext  # not with this module, which results need that may come without Spark

    context = SparkContext._active_spark_context
    if context is not None:
        cancelled = threading.Event()
        threading.Thread(  # on a connection of its own
            target=_cancel_queries, args=(context, cancelled), name="headrace-interrupt", daemon=True
        ).start()
        cancelled.wait(_CANCEL_SECONDS)


def _cancel_queries(context: Any, cancelled: threading.Event) -> None:
    """Cancel all jobs, and those that queries which Spark still plans start later: for these there is no job yet."""
    with suppress(Exception):  # Spark is stopped, or has other names for this
        try:
            module = getattr(context._jvm.org.apache.spark.sql.execution, "SQLExecution$")
            executions = getattr(module, "MODULE$")
            running = list(executions.executionIdToQueryExecution().keySet())
        finally:
            context.cancelAllJobs()
            cancelled.set()
        while running:
            time.sleep(_LOOK_SECONDS)
            running = [number for number in running if _cancel_later(context, executions, number)]


def _cancel_later(context: Any, executions: Any, number: int) -> bool:
    """Cancel the jobs that a query has by now. Return whether it still runs."""
    query = executions.getQueryExecution(number)
    if query is None:
        return False
    context.cancelJobsWithTag(executions.executionIdJobTag(query.sparkSession(), number))
    return True
