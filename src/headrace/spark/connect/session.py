"""A Spark Connect session: its driver is a server elsewhere, which asks this process for plans; driver Python.

Jar and package go to the server as artifacts of the session. So does the address of this process with its secret, in
the one place that no option, plan, log or web page shows: the cache of the session. The server connects back for every
question of the planner, and executors do for the batches of plans with DRIVER placement.
"""

from __future__ import annotations

import json
import weakref
from contextlib import AbstractContextManager, suppress
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame

from headrace.errors import HeadraceError
from headrace.negotiate.pickling import pickled_table
from headrace.negotiate.registry import RegisteredTable, Registry
from headrace.spark import launch, versions
from headrace.spark.catalog_names import CATALOG_CLASS, CatalogNames
from headrace.spark.classic.session import tls_identity
from headrace.spark.connect.artifacts import KnownSession
from headrace.spark.connect.failures import be_told_of_causes, headrace_errors, naming_a_lost_server, translate
from headrace.spark.connect.patience import answers, be_told_of_a_lost_server
from headrace.spark.connect.query import ConnectQuery
from headrace.spark.explain.connect import explain
from headrace.spark.explain.explanation import Explanation
from headrace.spark.planner import Planner
from headrace.spark.unnamed import ConnectTables, ServerTables
from headrace.transport.endpoint import Endpoint
from headrace.transport.planning import PlanningConnection
from headrace.transport.protocol import PLANNER_VERSION
from headrace.transport.reaching import address_towards
from headrace.worker.payload import payload_of


class ConnectSpark:
    """An ``Attached`` session of Spark Connect, whose tables are planned in this process or beside the server."""

    def __init__(self, spark: Any, registry: Registry, context_id: str, catalog: str, planning: str) -> None:
        if planning not in ("client", "server"):
            raise ValueError(f"planning must be 'client' or 'server', not {planning!r}")
        if spark.is_stopped:
            raise HeadraceError("this SparkSession was stopped; make a new one")
        be_told_of_a_lost_server(spark.client)
        be_told_of_causes(spark.client)
        with headrace_errors():
            versions.check_server(spark.version)
        self.spark = spark
        self._registry = registry
        self._queries: weakref.WeakSet[ConnectQuery] = weakref.WeakSet()
        session = KnownSession.of(spark)
        self.catalog = session.free_name(spark, catalog)
        self._settings: dict[str, str] = {}
        self.endpoint: Endpoint | None = None
        self.planner: Planner | None = None
        self._unnamed: ConnectTables | ServerTables = ServerTables(spark, self.catalog, self.add_table, self.drop_table)
        options = {"context": context_id, "session": spark.session_id}
        archive = session.brought_along(spark)
        try:
            if planning == "server":
                options["archive"] = archive
            else:
                self.endpoint = _endpoint(spark)
                self.planner = Planner(registry, self.endpoint, python="", archive=archive, by_value=True)
                self._unnamed = ConnectTables(spark, self.catalog, self.planner.catalogs.held)
                options["planner"] = spark.client.cache_artifact(self._address(self.endpoint, self.planner))
            self._settings = {f"spark.sql.catalog.{self.catalog}": CATALOG_CLASS}
            self._settings |= {f"spark.sql.catalog.{self.catalog}.{key}": value for key, value in options.items()}
            for key, value in self._settings.items():
                spark.conf.set(key, value)
            with headrace_errors():
                # The catalog must be there; and the server has to come to this process for the answer, if that plans.
                spark.sql(f"SHOW TABLES IN {self.catalog}").collect()
        except BaseException:
            self.leave()
            self.close()
            raise

    def _address(self, endpoint: Endpoint, planner: Planner) -> bytes:
        """What the server needs to ask this planner; the secret is in it.

        A server that proves to be on this machine, with all of its tasks, can import what this process can.
        """
        one_machine = launch.is_one_machine(str(self.spark.conf.get("spark.master", "")))

        def from_here() -> None:
            planner.by_value = not one_machine

        ticket = endpoint.offer(PlanningConnection.opener(planner.call, from_here), 1, receives=True)
        return json.dumps({**endpoint.address(ticket), "planner_version": PLANNER_VERSION}).encode()

    def where(self) -> str:
        return "a stopped Spark" if self.spark.is_stopped else f"Spark Connect at {self.spark.client.host}"

    def require_alive(self) -> None:
        if self.spark.is_stopped:
            raise HeadraceError("the Spark Connect session was stopped; close this SessionContext and make a new one")

    def error_behind(self, error: BaseException) -> HeadraceError | None:
        return translate(error)

    def errors(self) -> AbstractContextManager[None]:
        return headrace_errors()

    def errors_of_spark(self) -> AbstractContextManager[None]:
        return naming_a_lost_server()

    def add_table(self, table: RegisteredTable) -> None:
        """A planner in this process reads the registry itself; one beside the server is sent the pickled table."""
        if self.planner is None:
            pickled = self.spark.client.cache_artifact(payload_of(pickled_table(table)))
            self.drop_table(table.name)
            with headrace_errors():
                self.spark.sql(
                    f"CREATE TABLE {self.catalog}.`{table.name}` TBLPROPERTIES ('headrace.provider' = '{pickled}')"
                ).collect()

    def drop_table(self, name: str) -> None:
        if self.planner is None:
            with headrace_errors():
                self.spark.sql(f"DROP TABLE IF EXISTS {self.catalog}.`{name}`").collect()

    def unnamed(self, table: RegisteredTable) -> DataFrame:
        with headrace_errors():
            return self._unnamed.frame(table)

    def is_view_of_ours(self, name: str) -> bool:
        try:
            view = self.spark.table(f"`{name}`")
            return bool(view.sameSemantics(self.spark.table(f"{self.catalog}.`{name}`")))
        except AnalysisException:  # there is none
            return False

    def catalogs(self) -> CatalogNames:
        raise HeadraceError(
            "catalogs and table functions need a classic Spark session: a Connect client cannot install them"
        )

    def prepare_push(self) -> None:
        raise HeadraceError(
            "a Spark Connect session cannot have push tables: what keeps Spark from scanning one twice has to be "
            "installed in its driver. Register a TableProvider whose plan has Placement.DRIVER and yields what your "
            "producers hand over (hr.StreamTable), or use a classic session"
        )

    def query(self, frame: DataFrame, *, bounded: bool) -> ConnectQuery:
        query = ConnectQuery(frame, bounded=bounded)
        self._queries.add(query)
        return query

    def explain(self, frame: DataFrame) -> Explanation:
        return explain(frame, self.planner)

    def leave(self) -> None:
        for query in list(self._queries):
            if not query.is_over():
                query.cancel("its session context was closed")
        if self.spark.is_stopped or not answers(self.spark.client):
            return
        with suppress(PySparkException, HeadraceError):  # the server went away meanwhile
            for name in self._registry.names():
                if self.is_view_of_ours(name):
                    self.spark.catalog.dropTempView(name)
                self.drop_table(name)
            if isinstance(self._unnamed, ServerTables):
                self._unnamed.leave()
            for key in self._settings:
                self.spark.conf.unset(key)

    def close(self) -> None:
        if self.planner is not None:
            self.planner.close()
        if self.endpoint is not None:
            self.endpoint.close()


def _endpoint(spark: Any) -> Endpoint:
    """Listens where the server can reach it: at ``spark.headrace.host``, or where this machine is on the way to it."""

    def setting(key: str) -> str | None:
        value: str | None = spark.conf.get(key, None)
        return value

    host = setting("spark.headrace.host") or _address_towards(spark.client.host)
    return Endpoint(setting("spark.headrace.bindAddress") or host, host, tls_identity(setting))


def _address_towards(server: str) -> str:
    try:
        return address_towards(server)
    except OSError as error:
        raise HeadraceError(
            f"cannot tell at which address of this machine the Spark Connect server {server!r} reaches it ({error}); "
            "set spark.headrace.host in the session"
        ) from error
