"""A classic session, whose driver JVM this process reaches through Py4J; driver Python."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from headrace.errors import ClosedError, HeadraceError, TransportError
from headrace.negotiate.registry import RegisteredTable, Registry
from headrace.spark import launch
from headrace.spark.attached import AttachedSpark, is_connect, tls_identity
from headrace.spark.catalog_names import CATALOG_CLASS, CatalogNames
from headrace.spark.classic.failures import LOST, lost_behind, lost_jvm, translate
from headrace.spark.classic.query import ClassicQuery
from headrace.spark.explain.answer import Explanation
from headrace.spark.explain.explanation import explain, explain_batch
from headrace.spark.interrupts import leave_interrupts, watch_interrupts
from headrace.spark.launch import Launched
from headrace.spark.planner import Planner
from headrace.spark.unnamed import ClassicTables
from headrace.transport.endpoint import Endpoint
from headrace.transport.lifeline import Lifeline
from headrace.transport.planning import PlanningConnection
from headrace.transport.protocol import PLANNER_VERSION, PROTOCOL_VERSION


class ClassicSpark(AttachedSpark):
    """A session in the driver's JVM."""

    planner: Planner
    endpoint: Endpoint

    def __init__(self, launched: Launched, registry: Registry, context_id: str, catalog: str) -> None:
        super().__init__(launched.spark, registry)
        self._check_connector()
        self._launched = launched
        self._context_id = context_id
        self._lost = False
        self.endpoint = _endpoint(launched)
        self.planner = Planner(
            registry,
            self.endpoint,
            python=launched.python,
            archive=launched.archive,
            by_value=not launched.in_process,
        )
        self._lifeline = Lifeline(self.endpoint, self._jvm_gone)
        opener = PlanningConnection.opener(self.planner.call, self._make_active)
        ticket = self.endpoint.offer(opener, 1, receives=True, answers=True)
        address = {**self.endpoint.address(ticket), "lifeline": self._lifeline.address()}
        self._connector("transport.RemotePlanner").attach(context_id, json.dumps(address))
        self._names = CatalogNames(self.spark, self.planner.catalogs, self, catalog)
        self._unnamed = ClassicTables(self.spark, self.catalog, self.planner.catalogs.held)
        watch_interrupts()

    def is_session(self, spark: Any) -> bool:
        return not is_connect(spark) and bool(self.spark._jsparkSession == spark._jsparkSession)

    def where(self) -> str:
        context = self.spark.sparkContext
        return f"Spark {context.version}, {context.master}" if context._jsc is not None else "a stopped Spark"

    def require_alive(self) -> None:
        if self._lost:
            raise lost_jvm()
        if self.spark.sparkContext._jsc is None:
            raise ClosedError("Spark was stopped; close this SessionContext and make a new one")

    def error_behind(self, error: BaseException) -> HeadraceError | None:
        return translate(error)

    def lost_behind(self, error: BaseException) -> TransportError | None:
        return lost_behind(error)

    def add_table(self, table: RegisteredTable) -> None:
        """The planner reads the registry itself."""

    def drop_table(self, name: str) -> None:
        """The planner reads the registry itself."""

    def unnamed(self, table: RegisteredTable) -> DataFrame:
        return self._unnamed.frame(table)

    def is_view_of_ours(self, name: str) -> bool:
        session: Any = self.spark._jsparkSession
        view = session.sessionState().catalog().getTempView(name)
        shown = rf"(?<![\w.`-]){re.escape(self.catalog)}\."
        return bool(view.isDefined() and re.search(shown, view.get().toString()))

    def claim(self, name: str) -> bool:
        """A catalog works in the sessions that exist and in those to come."""
        key = f"spark.sql.catalog.{name}"
        if self.spark.conf.get(key, None) not in (None, CATALOG_CLASS):
            return False
        if not self._connector("catalog.Catalogs").claim(name, self._context_id):
            return False
        self.spark.conf.set(key, CATALOG_CLASS)
        self.spark.sparkContext._jsc.sc().conf().set(key, CATALOG_CLASS)
        return True

    def release(self, name: str) -> None:
        key = f"spark.sql.catalog.{name}"
        self._connector("catalog.Catalogs").release(name, self._context_id)
        self.spark.conf.unset(key)
        self.spark.sparkContext._jsc.sc().conf().remove(key)

    def query(self, frame: DataFrame, *, bounded: bool) -> ClassicQuery:
        return ClassicQuery(frame, self.planner, self.endpoint, self._context_id, bounded=bounded)

    def explain(self, frame: DataFrame) -> Explanation:
        return explain(frame, self.planner)

    def explain_batch(self, query: StreamingQuery) -> Explanation:
        return explain_batch(query, self.planner, self.spark)

    def leave(self) -> None:
        self._lifeline.close()
        if self._lost or self.spark.sparkContext._jsc is None:
            return
        with self.errors_of_spark():
            self._take_out_tables()
            self._names.leave()
            self._connector("planner.Planners").unregister(self._context_id)

    def close(self) -> None:
        super().close()
        leave_interrupts()
        if self._launched.owned:
            launch.stop(self.spark)

    def _connector(self, name: str) -> Any:
        return launch.connector_class(self.spark, name)

    def _check_connector(self) -> None:
        """Raises TransportError where Spark has loaded a connector of another release, e.g. from its classpath."""
        numbers = self._connector("transport.Protocol")
        found = (numbers.PLANNER_VERSION, numbers.PROTOCOL_VERSION)
        if found != (PLANNER_VERSION, PROTOCOL_VERSION):
            raise TransportError(
                f"Spark has loaded a Headrace connector that speaks protocol {found}, this package speaks "
                f"{(PLANNER_VERSION, PROTOCOL_VERSION)}; remove the other headrace-connector.jar from Spark's classpath"
            )

    def _make_active(self) -> None:
        """On a thread that answers the JVM, where a provider may ask for ``SparkSession.getActiveSession()``."""
        with suppress(*LOST, AttributeError):  # the JVM is gone, or Spark was stopped
            launch.java_class(self.spark, "org.apache.spark.sql.classic.SparkSession").setActiveSession(
                self.spark._jsparkSession
            )

    def _jvm_gone(self) -> None:
        self._lost = True
        self.planner.spark_lost(lost_jvm())


def _endpoint(launched: Launched) -> Endpoint:
    """Unix socket only where all tasks run in this machine's one JVM, TCP on the driver's address as well elsewhere."""
    if launched.in_process:
        return Endpoint()
    settings = launched.spark.sparkContext.getConf()
    address = settings.get("spark.driver.host", None)
    tls = tls_identity(lambda key: settings.get(key, None))
    return Endpoint(settings.get("spark.driver.bindAddress", None) or address, address, tls)
