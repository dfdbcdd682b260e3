"""What code in a worker logs and prints, kept for Spark's ``python_worker_logs()``; executor Python."""

from __future__ import annotations

import contextlib
import os
import sys

_SESSION = "PYSPARK_SPARK_SESSION_UUID"
_FRAMEWORK = ("headrace.", "pyspark.")


def captured_logs() -> contextlib.AbstractContextManager[None]:
    """Surrounds one task. Does nothing unless Spark, from 4.1 on, was told to keep what its Python workers log."""
    if _SESSION not in os.environ:
        return contextlib.nullcontext()
    from pyspark.logger.worker_io import capture_outputs

    return capture_outputs(_called)


def _called() -> dict[str, str]:
    """The user's function that Headrace called, as the log's ``context`` names it in Spark's own workers."""
    called, frame = None, sys._getframe()
    while frame is not None and frame.f_back is not None:
        outer = frame.f_back
        if _is_framework(outer.f_globals) and not _is_framework(frame.f_globals):
            called = frame
        frame = outer
    if called is None:
        return {}
    context = {"func_name": called.f_code.co_name}
    if "self" in called.f_locals:
        context["class_name"] = type(called.f_locals["self"]).__name__
    return context


def _is_framework(module: dict[str, object]) -> bool:
    return str(module.get("__name__", "")).startswith(_FRAMEWORK)
