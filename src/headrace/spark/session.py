"""SessionContext: a Spark session whose tables are Python providers; driver Python, thread-safe."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from headrace.arrow.types import wire_schema
from headrace.display import html_table, html_text, names_text
from headrace.errors import (
    DeregisteredError,
    HeadraceError,
    ProducerLostError,
    RegistrationError,
    StreamError,
    TableExistsError,
    TransportError,
)
from headrace.negotiate.registry import RegisteredTable, Registry
from headrace.provider import TableProvider
from headrace.push.channel import Channel
from headrace.push.packing import Packed, Packing
from headrace.push.sink import TableSink
from headrace.push.spill import ArrowSpill
from headrace.push.table import StreamingTable
from headrace.spark import launch
from headrace.spark.explain import Explanation, explain
from headrace.spark.failures import headrace_errors, jvm_lost, naming_a_lost_jvm
from headrace.spark.interrupts import cancel_jobs_on_interrupt
from headrace.spark.planner import Planner
from headrace.spark.progress import Progress, ProgressBar
from headrace.spark.results import ResultStream
from headrace.tables.choose import not_a_provider
from headrace.transport.endpoint import Endpoint, TlsIdentity
from headrace.transport.lifeline import Lifeline
from headrace.transport.protocol import PLANNER_VERSION, PROTOCOL_VERSION

_CATALOG_CLASS = "org.headrace.spark.catalog.HeadraceCatalog"


class SessionContext:
    """Registers tables and runs queries. May be used from several threads.

    ``SessionContext()`` starts a local Spark, ``SessionContext(spark)`` attaches to a session that exists, and
    ``SessionContext(master=..., config=...)`` starts one with settings of your own. Closing it (or leaving its
    ``with`` block) ends what it registered and stops Spark if it started it.
    """

    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        master: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        if spark is not None and (master is not None or config):
            raise ValueError("give either a SparkSession or master and config, not both")
        launched = launch.adopt(spark) if spark is not None else launch.start(master, config or {})
        context: Any = launched.spark.sparkContext
        planners = context._jvm.org.headrace.spark.planner.Planners
        _check_connector(context._jvm)
        self._launched = launched
        self._spark = launched.spark
        self._lock = threading.RLock()
        self._closed = False
        self._listener: Any = None
        self._registry = Registry()
        context_id = uuid.uuid4().hex
        self._context_id = context_id
        self._catalog = f"headrace_{context_id[:8]}"
        self._endpoint = _endpoint(launched)
        self._planner = Planner(
            self._registry,
            self._endpoint,
            python=launched.python,
            archive=launched.archive,
            by_value=not launched.in_process,
        )
        ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
        cancel_jobs_on_interrupt()
        self._jvm: Any = context._jvm
        planners.register(context_id, self._planner)
        self._lost = False
        self._lifeline = Lifeline(self._endpoint, self._jvm_gone)
        self._jvm.org.headrace.spark.transport.Lifeline.hold(context_id, json.dumps(self._lifeline.address()))
        self._spark.conf.set(f"spark.sql.catalog.{self._catalog}", _CATALOG_CLASS)
        self._spark.conf.set(f"spark.sql.catalog.{self._catalog}.context", context_id)

    @property
    def spark(self) -> SparkSession:
        """The real SparkSession."""
        return self._spark

    def register_table(
        self,
        name: str,
        provider: TableProvider,
        *,
        replace: bool = False,
        verify: Literal["sample", "all"] | None = None,
    ) -> None:
        """Make ``provider`` queryable as ``name`` in ``ctx.sql``, ``ctx.spark.sql`` and ``ctx.spark.table``.

        ``verify`` checks what the provider promises (EXACT filters and top-n, partitioning, ordering) on the rows of
        each scan, on all of them or on some of each batch; a query whose rows break a promise fails with
        BrokenPromiseError.

        Calls ``provider.schema()`` exactly once, on this thread; what it raises reaches you unchanged. Raises
        TableExistsError if the name is taken (by a table of this context or a temporary view of the session)
        and ``replace`` is false, UnsupportedTypeError for a type Spark has no equal of, RegistrationError for
        a bad name, columns that Spark does not tell apart or something that is not a TableProvider. On any error
        nothing is registered.
        """
        self._require_open()
        _check_name(name)
        if not isinstance(provider, TableProvider):
            raise RegistrationError(
                f"register_table({name!r}, ...) takes a TableProvider, not {not_a_provider(provider)}"
            )
        if verify not in (None, "sample", "all"):
            raise ValueError(f'verify must be None, "sample" or "all", not {verify!r}')
        if not replace and self._registry.find(name) is not None:
            raise TableExistsError(f"table {name!r} is registered already; pass replace=True to replace it")
        self._register(RegisteredTable.of(name, provider, verify), replace=replace)

    def _register(self, table: RegisteredTable, *, replace: bool) -> None:
        with naming_a_lost_jvm():
            self._check_columns(table)
            old = self._add_with_view(table, replace=replace)
        if old is not None:
            _abandon(old, DeregisteredError(f"the streaming table {old.name!r} was replaced by another table"))

    def _check_columns(self, table: RegisteredTable) -> None:
        """Two columns that Spark does not tell apart would fail every query."""
        if self._spark.conf.get("spark.sql.caseSensitive") == "true":
            return
        seen: dict[str, str] = {}
        for name in table.schema.names:
            other = seen.setdefault(name.lower(), name)
            if other != name:
                raise RegistrationError(
                    f"the columns {other!r} and {name!r} of table {table.name!r} differ in case only, and Spark does "
                    "not tell them apart; rename one, or set spark.sql.caseSensitive to true"
                )

    def _add_with_view(self, table: RegisteredTable, *, replace: bool) -> RegisteredTable | None:
        with self._lock:
            old = self._registry.add(table, replace=replace)
            try:
                frame = self._spark.table(f"{self._catalog}.{_quoted(table.name)}")
                if old is not None or replace:
                    frame.createOrReplaceTempView(_quoted(table.name))
                else:
                    frame.createTempView(_quoted(table.name))
            except BaseException as error:
                self._registry.remove(table.name)
                if old is not None:
                    self._registry.add(old, replace=False)
                if not isinstance(error, AnalysisException):
                    raise
                if error.getCondition() == "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS":
                    raise TableExistsError(
                        f"the session has a temporary view {table.name!r} already; pass replace=True to replace it"
                    ) from None
                raise RegistrationError(f"Spark refused the table {table.name!r}: {error}") from error
            return old

    def register_streaming_table(
        self, name: str, schema: pa.Schema, capacity: int = 16, *, partitions: int = 1, replace: bool = False
    ) -> TableSink:
        """Make a push table: what is written to the sink returned is what one query, running meanwhile, reads.

        ``capacity`` batches may wait before ``write`` blocks (per partition, if there are several). With ``replace``
        a table of that name is replaced; if it was a push table, its sink and its query end with DeregisteredError.
        Raises as ``register_table`` does, and ValueError for a capacity or a number of partitions below 1.
        """
        self._require_open()
        _check_name(name)
        if not isinstance(schema, pa.Schema):
            raise RegistrationError(f"the schema of {name!r} must be a pyarrow.Schema, not {type(schema).__name__}")
        wire = wire_schema(schema)
        with naming_a_lost_jvm():
            self._watch_queries()
        packing = Packing(schema, capacity)
        channel: Channel[Packed] = Channel(
            name, capacity, partitions=partitions, spill=ArrowSpill(), new_pack=packing.new_pack
        )
        provider = StreamingTable(name, channel, packing)
        self._register(RegisteredTable(name, provider, schema, wire), replace=replace)
        return TableSink(channel, packing)

    def _watch_queries(self) -> None:
        """What only streaming tables need: the single-scan rule, and word of each query's end."""
        with self._lock:
            if self._listener is None:
                connector = self._jvm.org.headrace.spark.push
                connector.SingleScanRule.install(self._spark._jsparkSession)
                self._listener = connector.QueryEndListener(self._context_id)
                self._spark.sparkContext._jsc.sc().addSparkListener(self._listener)

    def deregister_table(self, name: str) -> bool:
        """Forget a table; True if it was there. Scans under way go on, but a push table's sink and query end."""
        self._require_open()
        with self._lock:
            table = self._registry.remove(name)
            if table is None:
                return False
            with naming_a_lost_jvm():
                self._drop_view(table.name)
        _abandon(table, DeregisteredError(f"the streaming table {table.name!r} was deregistered"))
        return True

    def _drop_view(self, name: str) -> None:
        """Unless the name stands for something else by now: a view of the user's or another context's table."""
        session: Any = self._spark._jsparkSession
        view = session.sessionState().catalog().getTempView(name)
        if view.isDefined() and self._catalog in view.get().toString():
            self._spark.catalog.dropTempView(name)

    def table_exists(self, name: str) -> bool:
        """Whether this context registered ``name``."""
        self._require_spark()
        return self._registry.find(name) is not None

    def table_names(self) -> list[str]:
        """The names of this context's tables, sorted."""
        self._require_spark()
        return self._registry.names()

    def table(self, name: str) -> DataFrame:
        """A registered table as a DataFrame. Raises HeadraceError if this context has no such table."""
        self._require_open()
        table = self._registry.find(name)
        if table is None:
            known = ", ".join(self._registry.names()) or "none"
            raise HeadraceError(f"no table {name!r} is registered here (registered: {known})")
        with naming_a_lost_jvm():
            return self._spark.table(f"{self._catalog}.{_quoted(table.name)}")

    def sql(self, query: str, args: dict[str, Any] | list[Any] | None = None) -> DataFrame:
        """A query as an ordinary PySpark DataFrame."""
        self._require_open()
        with naming_a_lost_jvm():
            return self._spark.sql(query, args)

    def collect(self, query: DataFrame | str) -> pa.Table:
        """The whole result as Arrow. Raises Headrace's own errors where a provider failed."""
        frame = self._frame(query)
        with headrace_errors():
            stream = ResultStream(frame, self._planner, self._endpoint, self._context_id, bounded=False)
        return stream.read_all()

    def execute_stream(
        self, query: DataFrame | str, *, progress: bool | Callable[[Progress], None] = False
    ) -> ResultStream:
        """Start the query and return its result as it comes: an iterator of Arrow batches, in the query's order.

        ``progress=True`` shows a bar on stderr if that is a terminal; a function is called with a Progress on the
        consumer's thread, after each batch and at the end. See ResultStream.
        """
        frame = self._frame(query)
        report = progress if callable(progress) else ProgressBar() if progress else None
        with headrace_errors():
            return ResultStream(frame, self._planner, self._endpoint, self._context_id, report)

    def explain(self, query: DataFrame | str) -> Explanation:
        """A readable block per Headrace scan of the query: what was negotiated, and why something was not used.

        The answer is a ``str`` that notebooks show as it is.
        """
        frame = self._frame(query)
        with headrace_errors():
            return explain(frame, self._planner)

    def close(self) -> None:
        """End transports and registrations, and Spark if this context started it. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._lifeline.close()
            if not self._lost and self._spark.sparkContext._jsc is not None:
                with suppress(TransportError), naming_a_lost_jvm():
                    self._leave_spark()
            for name in self._registry.names():
                table = self._registry.remove(name)
                if table is not None:
                    _abandon(table, ProducerLostError(f"the session context of {name!r} was closed"))
            self._planner.close()
            self._endpoint.close()
            if self._launched.owned:
                launch.stop(self._spark)

    def _leave_spark(self) -> None:
        for name in self._registry.names():
            self._drop_view(name)
        self._spark.conf.unset(f"spark.sql.catalog.{self._catalog}")
        self._spark.conf.unset(f"spark.sql.catalog.{self._catalog}.context")
        connector = self._jvm.org.headrace.spark
        connector.planner.Planners.unregister(self._context_id)
        connector.transport.Lifeline.release(self._context_id)
        if self._listener is not None:
            self._spark.sparkContext._jsc.sc().removeSparkListener(self._listener)

    def _jvm_gone(self) -> None:
        self._lost = True
        self._planner.spark_lost(jvm_lost())

    def __repr__(self) -> str:
        if self._closed:
            return "<SessionContext: closed>"
        names = self._registry.names()
        return f"<SessionContext on {self._where()}: {f'tables {names_text(names)}' if names else 'no tables'}>"

    def _repr_html_(self) -> str:
        if self._closed:
            return html_text(repr(self))
        tables = [table for name in self._registry.names() if (table := self._registry.find(name)) is not None]
        rows = [(table.name, table.provider_name, names_text(table.schema.names)) for table in tables]
        return html_table(f"SessionContext on {self._where()}", ("table", "provider", "columns"), rows)

    def _where(self) -> str:
        context = self._spark.sparkContext
        return f"Spark {context.version}, {context.master}" if context._jsc is not None else "a stopped Spark"

    def __enter__(self) -> SessionContext:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _frame(self, query: DataFrame | str) -> DataFrame:
        self._require_open()
        return self.sql(query) if isinstance(query, str) else query

    def _require_open(self) -> None:
        if self._closed:
            raise HeadraceError("this SessionContext is closed")
        self._require_spark()

    def _require_spark(self) -> None:
        if self._lost and not self._closed:
            raise jvm_lost()
        if self._spark.sparkContext._jsc is None and not self._closed:
            raise HeadraceError("Spark was stopped; close this SessionContext and make a new one")


def _check_connector(jvm: Any) -> None:
    """Raises TransportError where Spark has loaded a connector of another release, e.g. from its classpath."""
    numbers = jvm.org.headrace.spark.transport.Protocol
    found = (numbers.PLANNER_VERSION, numbers.PROTOCOL_VERSION)
    if found != (PLANNER_VERSION, PROTOCOL_VERSION):
        raise TransportError(
            f"Spark has loaded a Headrace connector that speaks protocol {found}, this package speaks "
            f"{(PLANNER_VERSION, PROTOCOL_VERSION)}; remove the other headrace-connector.jar from Spark's classpath"
        )


def _endpoint(launched: launch.Launched) -> Endpoint:
    """Unix socket only where all tasks run in this machine's one JVM, TCP on the driver's address as well elsewhere."""
    if launched.in_process:
        return Endpoint()
    settings = launched.spark.sparkContext.getConf()
    address = settings.get("spark.driver.host", None)
    tls = _tls(lambda key: settings.get(key, None))
    return Endpoint(settings.get("spark.driver.bindAddress", None) or address, address, tls)


def _tls(setting: Callable[[str], str | None]) -> TlsIdentity | None:
    certificate, key = setting("spark.headrace.tls.certificate"), setting("spark.headrace.tls.key")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise HeadraceError("TLS needs both spark.headrace.tls.certificate and spark.headrace.tls.key (PEM files)")
    return TlsIdentity(certificate, key)


def _abandon(table: RegisteredTable, error: StreamError) -> None:
    if table.live is not None:
        table.live.abandon(error)


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name.strip():
        raise RegistrationError(f"a table's name must be a non-empty string, not {name!r}")
    if "." in name or "`" in name:
        raise RegistrationError(f"a table's name cannot have a dot or a backtick: {name!r}")
    if "${" in name:
        raise RegistrationError(f"a table's name cannot have '${{', which Spark replaces in every query: {name!r}")


def _quoted(name: str) -> str:
    return f"`{name}`"
