"""What a SessionContext needs of the Spark that it is attached to, classic or Connect; driver Python."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from headrace.errors import HeadraceError
from headrace.negotiate.registry import RegisteredTable
from headrace.spark.catalog_names import CatalogNames
from headrace.spark.explain.explanation import Explanation
from headrace.spark.results import RunningQuery


def is_connect(spark: object) -> bool:
    """Whether it is a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


class Attached(Protocol):
    """One session with Headrace's catalog in it. Any thread may call any method."""

    spark: SparkSession
    catalog: str
    """The name of Headrace's catalog in it."""

    def where(self) -> str:
        """Which Spark it is, for ``repr``."""

    def require_alive(self) -> None:
        """Raises HeadraceError where Spark was stopped, TransportError where it is gone."""

    def error_behind(self, error: BaseException) -> HeadraceError | None:
        """The Headrace error that made Spark raise ``error``; None where there is none. Never raises."""

    def errors(self) -> AbstractContextManager[None]:
        """Raises Headrace's errors in place of Spark's exceptions that they caused."""

    def errors_of_spark(self) -> AbstractContextManager[None]:
        """Raises TransportError where Spark is gone, and leaves the errors of queries as they are."""

    def add_table(self, table: RegisteredTable) -> None:
        """The registry has this table from now on, perhaps instead of another one of its name."""

    def drop_table(self, name: str) -> None:
        """The registry will forget this table; called before it does."""

    def unnamed(self, table: RegisteredTable) -> DataFrame:
        """A DataFrame over a table that the registry does not have; forgotten with the last DataFrame that scans it."""

    def is_view_of_ours(self, name: str) -> bool:
        """Whether the session has a temporary view of this name that shows this context's table."""

    def catalogs(self) -> CatalogNames:
        """Where catalogs and table functions are registered. Raises HeadraceError where there can be none."""

    def prepare_push(self) -> None:
        """Called before a push table is made. Raises HeadraceError where there can be none."""

    def query(self, frame: DataFrame, *, bounded: bool) -> RunningQuery:
        """The query behind ``frame``, not started yet. ``bounded``: its result waits with bounded memory."""

    def explain(self, frame: DataFrame) -> Explanation: ...

    def leave(self) -> None:
        """Take everything of this context's out of the session, as far as it can be reached. At most once."""

    def close(self) -> None:
        """End what serves Spark in this process, and Spark itself if this context started it. After ``leave``."""
