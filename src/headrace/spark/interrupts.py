"""Ctrl-C cancels what runs, also while the main thread waits for a query; driver Python, the main thread."""

from __future__ import annotations

import signal
import threading
from typing import NoReturn

from pyspark import SparkContext

_CANCEL_SECONDS = 5.0


def cancel_jobs_on_interrupt() -> None:
    """Repair PySpark's handler of Ctrl-C; does nothing where another one is installed, or on another thread.

    PySpark's handler calls the JVM on the main thread's own connection, which is busy where that thread waits for
    ``df.collect()``: the call fails and the query runs on without its caller (seen with 4.3.0).
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if getattr(signal.getsignal(signal.SIGINT), "__module__", None) == SparkContext.__module__:
        signal.signal(signal.SIGINT, _interrupted)


def _interrupted(_signal: int, _frame: object) -> NoReturn:
    context = SparkContext._active_spark_context
    if context is not None:
        cancelling = threading.Thread(target=context.cancelAllJobs, name="headrace-interrupt", daemon=True)
        cancelling.start()  # a connection of its own
        cancelling.join(_CANCEL_SECONDS)
    raise KeyboardInterrupt
