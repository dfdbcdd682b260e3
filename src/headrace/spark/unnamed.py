"""DataFrames over tables without a name, which are forgotten with the last of them; driver Python.

Spark finds such a table by its id. What follows from a DataFrame holds no Python object of it in a classic session: the
plan in the JVM counts, whose tables the planner holds until they are garbage there. In Spark Connect every query is
analysed anew, from the client's plan: so that counts too.
"""

from __future__ import annotations

import dataclasses
import gc
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.negotiate.catalogs import HeldTables
from headrace.negotiate.registry import RegisteredTable
from headrace.tables.mem import MemTable

_COLLECTED_BYTES = 512 << 20
"""After so much data the JVM is asked to look for garbage: it sees a few objects, and not what they hold here."""


class ClassicTables:
    """Tables without a name of a classic session."""

    def __init__(self, spark: SparkSession, catalog: str, held: HeldTables) -> None:
        self._spark: Any = spark
        self._catalog = catalog
        self._held = held
        self._lock = threading.Lock()
        self._bytes = 0

    def frame(self, table: RegisteredTable) -> DataFrame:
        self._held.hold(table)  # until Spark has an object for it
        try:
            self._count(table)
            frame: DataFrame = self._spark.table(f"{self._catalog}.`{table.id}`")
            return frame.toDF(*table.schema.names)  # columns without the id before their names
        finally:
            self._held.release(table.id)

    def _count(self, table: RegisteredTable) -> None:
        if not isinstance(table.provider, MemTable):
            return
        with self._lock:
            self._bytes += table.provider.statistics().size_in_bytes or 0
            enough = self._bytes >= _COLLECTED_BYTES
            self._bytes = 0 if enough else self._bytes
        if enough:
            gc.collect()  # Py4J's objects refer to themselves, and the JVM keeps what they stand for
            self._spark.sparkContext._jvm.java.lang.System.gc()


class ConnectTables:
    """Tables without a name of a Spark Connect session that are planned in this process."""

    def __init__(self, spark: Any, catalog: str, held: HeldTables) -> None:
        self._spark = spark
        self._catalog = catalog
        self._held = held

    def frame(self, table: RegisteredTable) -> DataFrame:
        self._held.hold(table)
        try:
            frame: Any = self._spark.table(f"{self._catalog}.`{table.id}`")
            weakref.finalize(frame._plan, self._held.release_soon, table.id).atexit = False
        except BaseException:
            self._held.release(table.id)
            raise
        frame.schema  # noqa: B018  asks the server, which may refuse the table
        return frame  # type: ignore[no-any-return]


class ServerTables:
    """Tables without a name of a Spark Connect session that are planned beside the server."""

    def __init__(
        self, spark: Any, catalog: str, add: Callable[[RegisteredTable], None], drop: Callable[[str], None]
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._add = add
        self._drop = drop
        self._names: set[str] = set()
        self._dropped: deque[str] = deque()

    def frame(self, table: RegisteredTable) -> DataFrame:
        """Drops those that were forgotten: a finalizer can ask no server."""
        while self._dropped:
            with suppress(IndexError):  # another thread was faster
                self._drop_one(self._dropped.popleft())
        self._add(dataclasses.replace(table, name=table.id))
        self._names.add(table.id)
        frame: Any = self._spark.table(f"{self._catalog}.`{table.id}`")
        weakref.finalize(frame._plan, self._dropped.append, table.id).atexit = False
        frame.schema  # noqa: B018  asks the server, which may refuse the table
        return frame  # type: ignore[no-any-return]

    def leave(self) -> None:
        for name in list(self._names):
            self._drop_one(name)

    def _drop_one(self, name: str) -> None:
        self._names.discard(name)
        self._drop(name)


def keep_with(frame: DataFrame, others: list[Any]) -> None:
    """Of Spark Connect, where a DataFrame of SQL text is a message of the server's: it knows nothing of ``others``."""
    plan: Any = frame._plan
    plan._headrace_tables = [other._plan for other in others]
