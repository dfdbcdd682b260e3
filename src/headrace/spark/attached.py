"""What a SessionContext needs of the Spark that it is attached to, classic or Connect; driver Python."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.errors import HeadraceError
from headrace.negotiate.registry import RegisteredTable, Registry
from headrace.spark.catalog_names import CatalogNames
from headrace.spark.explain.answer import Explanation
from headrace.spark.failures import raising
from headrace.spark.planner import Planner
from headrace.spark.results import RunningQuery
from headrace.transport.endpoint import Endpoint
from headrace.transport.listeners import TlsIdentity


def is_connect(spark: object) -> bool:
    """Whether it is a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


class AttachedSpark(ABC):
    """One session with Headrace's catalog in it. Any thread may call any method.

    The catalog installs what Spark needs for Headrace's tables, in whichever JVM loads it, when it is used there.
    """

    planner: Planner | None = None
    """What this process answers the JVM with; None where a process beside the server does."""
    endpoint: Endpoint | None = None
    _names: CatalogNames

    def __init__(self, spark: SparkSession, registry: Registry) -> None:
        self.spark = spark
        self._registry = registry

    @property
    def catalog(self) -> str:
        """The name of Headrace's catalog in it."""
        return self._names.own

    def catalogs(self) -> CatalogNames:
        """Where catalogs and table functions are registered. Raises HeadraceError where there can be none."""
        self.require_planner("catalogs and table functions")
        return self._names

    def require_planner(self, what: str) -> None:
        """Raises HeadraceError where this process does not plan: ``what`` lives in it."""
        if self.planner is None:
            raise HeadraceError(
                f'{what} cannot be had with planning="server": they are live objects of this process, which the server '
                'then has no connection to. Make the SessionContext without it (planning="client")'
            )

    def errors(self) -> AbstractContextManager[None]:
        """Raises Headrace's errors in place of Spark's exceptions that they caused."""
        return raising(self.error_behind)

    def errors_of_spark(self) -> AbstractContextManager[None]:
        """Raises TransportError where Spark is gone, and leaves the errors of queries as they are."""
        return raising(self.lost_behind)

    @abstractmethod
    def is_session(self, spark: SparkSession) -> bool:
        """Whether this is that session, perhaps by another object."""

    @abstractmethod
    def where(self) -> str:
        """Which Spark it is, for ``repr``."""

    @abstractmethod
    def require_alive(self) -> None:
        """Raises ClosedError where Spark was stopped, TransportError where it is gone."""

    @abstractmethod
    def error_behind(self, error: BaseException) -> HeadraceError | None:
        """The Headrace error that made Spark raise ``error``; None where there is none. Never raises."""

    @abstractmethod
    def lost_behind(self, error: BaseException) -> HeadraceError | None:
        """What to tell where ``error`` says that Spark is gone; None where it does not. Never raises."""

    @abstractmethod
    def add_table(self, table: RegisteredTable) -> None:
        """The registry has this table from now on, perhaps instead of another one of its name."""

    @abstractmethod
    def drop_table(self, name: str) -> None:
        """The registry will forget this table; called before it does."""

    @abstractmethod
    def unnamed(self, table: RegisteredTable) -> DataFrame:
        """A DataFrame over a table that the registry does not have; forgotten with the last DataFrame that scans it."""

    @abstractmethod
    def is_view_of_ours(self, name: str) -> bool:
        """Whether the session has a temporary view of this name that shows this context's table."""

    @abstractmethod
    def query(self, frame: DataFrame, *, bounded: bool) -> RunningQuery:
        """The query behind ``frame``, not started yet. ``bounded``: its result waits with bounded memory."""

    @abstractmethod
    def explain(self, frame: DataFrame) -> Explanation: ...

    @abstractmethod
    def explain_batch(self, query: StreamingQuery) -> Explanation:
        """Of a streaming query that was started: its last micro-batch."""

    @abstractmethod
    def leave(self) -> None:
        """Take everything of this context's out of the session, as far as it can be reached. At most once."""

    def _take_out_tables(self) -> None:
        for name in self._registry.names():
            if self.is_view_of_ours(name):
                self.spark.catalog.dropTempView(name)
            self.drop_table(name)

    def close(self) -> None:
        """End what serves Spark in this process, and Spark itself if this context started it. After ``leave``."""
        if self.planner is not None:
            self.planner.close()
        if self.endpoint is not None:
            self.endpoint.close()


def tls_identity(setting: Callable[[str], str | None]) -> TlsIdentity | None:
    """What the settings of the session say. Raises HeadraceError where they say half of it."""
    certificate, key = setting("spark.headrace.tls.certificate"), setting("spark.headrace.tls.key")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise HeadraceError("TLS needs both spark.headrace.tls.certificate and spark.headrace.tls.key (PEM files)")
    return TlsIdentity(certificate, key)
