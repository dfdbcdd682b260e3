"""A Spark Connect session: its driver is a server elsewhere, which asks this process for plans; driver Python.

Jar and package go to the server as artifacts of the session. So does the address of this process with its secret, in
the one place that no option, plan, log or web page shows: the cache of the session. The server connects back for every
question of the planner, executors do for the batches of plans with DRIVER placement, and one connection is held for as
long as the context is open: by its end each side learns that the other is gone.
"""

from __future__ import annotations

import json
import weakref
from contextlib import suppress
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame

from headrace.errors import ClosedError, HeadraceError, ResultClosedError, TransportError
from headrace.negotiate.pickling import pickled_table
from headrace.negotiate.registry import RegisteredTable, Registry
from headrace.spark import launch, versions
from headrace.spark.attached import AttachedSpark, is_connect, tls_identity
from headrace.spark.catalog_names import CATALOG_CLASS, CatalogNames
from headrace.spark.catalogs import Catalogs
from headrace.spark.connect.artifacts import KnownSession
from headrace.spark.connect.failures import be_told_of_causes, lost_behind, lost_server, translate
from headrace.spark.connect.patience import answers, be_told_of_a_lost_server
from headrace.spark.connect.query import ConnectQuery
from headrace.spark.explain.answer import Explanation
from headrace.spark.explain.connect import explain
from headrace.spark.planner import Planner
from headrace.spark.unnamed import ConnectTables, ServerTables
from headrace.transport.endpoint import Endpoint
from headrace.transport.lifeline import Lifeline
from headrace.transport.planning import PlanningConnection
from headrace.transport.protocol import PLANNER_VERSION
from headrace.transport.reaching import address_towards
from headrace.worker.payload import payload_of


class ConnectSpark(AttachedSpark):
    """A session of Spark Connect, whose tables are planned in this process or beside the server."""

    spark: Any
    _lifeline: Lifeline | None = None

    def __init__(self, spark: Any, registry: Registry, context_id: str, catalog: str, planning: str) -> None:
        if planning not in ("client", "server"):
            raise ValueError(f"planning must be 'client' or 'server', not {planning!r}")
        if spark.is_stopped:
            raise ClosedError("this SparkSession was stopped; make a new one")
        super().__init__(spark, registry)
        be_told_of_a_lost_server(spark.client)
        be_told_of_causes(spark.client)
        with self.errors():
            versions.check_server(spark.version)
        self._queries: weakref.WeakSet[ConnectQuery] = weakref.WeakSet()
        self._session = KnownSession.of(spark)
        self._options = {"context": context_id, "session": spark.session_id}
        archive = self._session.brought_along(spark)
        try:
            if planning == "server":
                self._options["archive"] = archive
            else:
                self.endpoint = _endpoint(spark)
                self.planner = Planner(registry, self.endpoint, python="", archive=archive, by_value=True)
                self._lifeline = Lifeline(self.endpoint, self._server_gone)
                address = self._address(self.endpoint, self.planner, self._lifeline)
                self._options["planner"] = spark.client.cache_artifact(address)
            answering = self.planner.catalogs if self.planner is not None else Catalogs(registry)
            self._names = CatalogNames(spark, answering, self, catalog)
            self._unnamed: ConnectTables | ServerTables
            if self.planner is None:
                self._unnamed = ServerTables(spark, self.catalog, self.add_table, self.drop_table)
            else:
                self._unnamed = ConnectTables(spark, self.catalog, self.planner.catalogs.held)
            with self.errors():
                # The catalog must be there; and the server has to come to this process for the answer, if that plans.
                spark.sql(f"SHOW TABLES IN `{self.catalog}`").collect()
        except BaseException:
            self.leave()
            self.close()
            raise

    def _address(self, endpoint: Endpoint, planner: Planner, lifeline: Lifeline) -> bytes:
        """What the server needs to ask this planner; the secret is in it.

        A server that proves to be on this machine, with all of its tasks, can import what this process can.
        """
        one_machine = launch.is_one_machine(str(self.spark.conf.get("spark.master", "")))

        def from_here() -> None:
            planner.places.by_value = not one_machine

        ticket = endpoint.offer(PlanningConnection.opener(planner.call, from_here), 1, receives=True)
        address = {**endpoint.address(ticket), "planner_version": PLANNER_VERSION, "lifeline": lifeline.address()}
        return json.dumps(address).encode()

    def is_session(self, spark: Any) -> bool:
        return is_connect(spark) and self.spark.session_id == spark.session_id

    def where(self) -> str:
        return "a stopped Spark" if self.spark.is_stopped else f"Spark Connect at {self.spark.client.host}"

    def require_alive(self) -> None:
        if self.spark.is_stopped:
            raise ClosedError("the Spark Connect session was stopped; close this SessionContext and make a new one")

    def error_behind(self, error: BaseException) -> HeadraceError | None:
        return translate(error)

    def lost_behind(self, error: BaseException) -> TransportError | None:
        return lost_behind(error)

    def add_table(self, table: RegisteredTable) -> None:
        """A planner in this process reads the registry itself; one beside the server is sent the pickled table."""
        if self.planner is None:
            pickled = self.spark.client.cache_artifact(payload_of(pickled_table(table)))
            name = f"headrace.registered.{table.name}"  # by which one of that name is replaced
            self._tell(f"CREATE TABLE {{}}.`{name}` TBLPROPERTIES ('headrace.provider' = '{pickled}')")

    def drop_table(self, name: str) -> None:
        if self.planner is None:
            self._tell(f"DROP TABLE IF EXISTS {{}}.`{name}`")

    def _tell(self, statement: str) -> None:
        """The process beside the server."""
        with self.errors():
            self.spark.sql(statement.format(f"`{self.catalog}`")).collect()

    def unnamed(self, table: RegisteredTable) -> DataFrame:
        with self.errors():
            return self._unnamed.frame(table)

    def is_view_of_ours(self, name: str) -> bool:
        try:
            view = self.spark.table(f"`{name}`")
            return bool(view.sameSemantics(self.spark.table(f"`{self.catalog}`.`{name}`")))
        except AnalysisException as error:
            behind = self.error_behind(error)
            if isinstance(behind, TransportError):  # the server cannot ask this process: the view may be there
                raise behind from None
            return False

    def claim(self, name: str) -> bool:
        """The settings of the session name the context that answers for a catalog, whenever it is asked."""
        with self._session.naming:
            if self.spark.conf.get(f"spark.sql.catalog.{name}", None) is not None:
                return False
            for key, value in self._settings(name).items():
                self.spark.conf.set(key, value)
            return True

    def release(self, name: str) -> None:
        for key in self._settings(name):
            self.spark.conf.unset(key)

    def _settings(self, name: str) -> dict[str, str]:
        key = f"spark.sql.catalog.{name}"
        return {key: CATALOG_CLASS} | {f"{key}.{option}": value for option, value in self._options.items()}

    def query(self, frame: DataFrame, *, bounded: bool) -> ConnectQuery:
        query = ConnectQuery(frame, bounded=bounded)
        self._queries.add(query)
        return query

    def explain(self, frame: DataFrame) -> Explanation:
        return explain(frame, self.planner)

    def explain_batch(self, query: Any) -> Explanation:
        raise HeadraceError(
            "a query of Spark Connect runs in the server, which tells its plan as text alone: query.explain() prints it"
        )

    def leave(self) -> None:
        for query in list(self._queries):
            if not query.is_over():
                query.inbox.fail(ResultClosedError("its session context was closed"))
                query.cancel()
        if self._lifeline is not None:
            self._lifeline.close()
        if self.spark.is_stopped or not answers(self.spark.client) or not hasattr(self, "_names"):
            return
        with suppress(PySparkException, HeadraceError):  # the server went away meanwhile
            self._take_out_tables()
            if isinstance(self._unnamed, ServerTables):
                self._unnamed.leave()
            self._names.drop_functions()
            if self.planner is None:
                self._tell("DROP TABLE {}.`headrace.context`")  # by which the catalog learns that this context closes
            self._names.leave()

    def _server_gone(self) -> None:
        assert self.planner is not None
        self.planner.spark_lost(lost_server("is gone, or has closed this session"))


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
