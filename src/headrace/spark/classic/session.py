"""A classic session, whose driver JVM this process reaches through Py4J; driver Python."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame

from headrace.errors import HeadraceError, TransportError
from headrace.negotiate.registry import RegisteredTable, Registry
from headrace.spark import launch
from headrace.spark.catalog_names import CatalogNames
from headrace.spark.classic.query import ClassicQuery
from headrace.spark.explain.explanation import Explanation, explain
from headrace.spark.failures import headrace_errors, jvm_lost, naming_a_lost_jvm, translate
from headrace.spark.interrupts import cancel_jobs_on_interrupt
from headrace.spark.launch import Launched
from headrace.spark.planner import Planner
from headrace.spark.unnamed import ClassicTables
from headrace.transport.endpoint import Endpoint
from headrace.transport.lifeline import Lifeline
from headrace.transport.listeners import TlsIdentity
from headrace.transport.protocol import PLANNER_VERSION, PROTOCOL_VERSION


class ClassicSpark:
    """An ``Attached`` session in the driver's JVM."""

    def __init__(self, launched: Launched, registry: Registry, context_id: str, catalog: str) -> None:
        context: Any = launched.spark.sparkContext
        self.spark = launched.spark
        self._check_connector()
        self._launched = launched
        self._registry = registry
        self._context_id = context_id
        self._lock = threading.Lock()
        self._listener: Any = None
        self._lost = False
        self.endpoint = _endpoint(launched)
        self.planner = Planner(
            registry,
            self.endpoint,
            python=launched.python,
            archive=launched.archive,
            by_value=not launched.in_process,
        )
        ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
        cancel_jobs_on_interrupt()
        self._connector("planner.Planners").register(context_id, self.planner)
        self._lifeline = Lifeline(self.endpoint, self._jvm_gone)
        self._connector("transport.Lifeline").hold(context_id, json.dumps(self._lifeline.address()))
        self._names = CatalogNames(self.spark, context_id, self.planner.catalogs, catalog)
        self.catalog = self._names.own
        self._unnamed = ClassicTables(self.spark, self.catalog, self.planner.catalogs.held)
        self._connector("scan.ScanRules").install(self.spark._jsparkSession)

    def where(self) -> str:
        context = self.spark.sparkContext
        return f"Spark {context.version}, {context.master}" if context._jsc is not None else "a stopped Spark"

    def require_alive(self) -> None:
        if self._lost:
            raise jvm_lost()
        if self.spark.sparkContext._jsc is None:
            raise HeadraceError("Spark was stopped; close this SessionContext and make a new one")

    def error_behind(self, error: BaseException) -> HeadraceError | None:
        return translate(error)

    def errors(self) -> AbstractContextManager[None]:
        return headrace_errors()

    def errors_of_spark(self) -> AbstractContextManager[None]:
        return naming_a_lost_jvm()

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

    def catalogs(self) -> CatalogNames:
        return self._names

    def prepare_push(self) -> None:
        """What only push tables need: the single-scan rule, and word of each query's end."""
        with self._lock:
            if self._listener is None:
                self._connector("push.SingleScanRule").install(self.spark._jsparkSession)
                self._listener = self._connector("push.QueryEndListener")(self._context_id)
                self.spark.sparkContext._jsc.sc().addSparkListener(self._listener)

    def query(self, frame: DataFrame, *, bounded: bool) -> ClassicQuery:
        return ClassicQuery(frame, self.planner, self.endpoint, self._context_id, bounded=bounded)

    def explain(self, frame: DataFrame) -> Explanation:
        return explain(frame, self.planner)

    def leave(self) -> None:
        self._lifeline.close()
        if self._lost or self.spark.sparkContext._jsc is None:
            return
        with naming_a_lost_jvm():
            for name in self._registry.names():
                if self.is_view_of_ours(name):
                    self.spark.catalog.dropTempView(name)
            self._names.leave()
            self._connector("planner.Planners").unregister(self._context_id)
            self._connector("transport.Lifeline").release(self._context_id)
            if self._listener is not None:
                self.spark.sparkContext._jsc.sc().removeSparkListener(self._listener)

    def close(self) -> None:
        self.planner.close()
        self.endpoint.close()
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

    def _jvm_gone(self) -> None:
        self._lost = True
        self.planner.spark_lost(jvm_lost())


def _endpoint(launched: Launched) -> Endpoint:
    """Unix socket only where all tasks run in this machine's one JVM, TCP on the driver's address as well elsewhere."""
    if launched.in_process:
        return Endpoint()
    settings = launched.spark.sparkContext.getConf()
    address = settings.get("spark.driver.host", None)
    tls = tls_identity(lambda key: settings.get(key, None))
    return Endpoint(settings.get("spark.driver.bindAddress", None) or address, address, tls)


def tls_identity(setting: Callable[[str], str | None]) -> TlsIdentity | None:
    """What the settings of the session say. Raises HeadraceError where they say half of it."""
    certificate, key = setting("spark.headrace.tls.certificate"), setting("spark.headrace.tls.key")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise HeadraceError("TLS needs both spark.headrace.tls.certificate and spark.headrace.tls.key (PEM files)")
    return TlsIdentity(certificate, key)
