"""Headrace brings any data a Python program can produce to Spark SQL. Importing it does not import pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.spark.session import SessionContext as SessionContext

from headrace.errors import *  # noqa: F403
from headrace.expressions import *  # noqa: F403
from headrace.plan import *  # noqa: F403
from headrace.provider import *  # noqa: F403

def __getattr__(name: str) -> Any:
    if name == "SessionContext":
        from headrace.spark.session import SessionContext

        return SessionContext
    raise AttributeError(name)
