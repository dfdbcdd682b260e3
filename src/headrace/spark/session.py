"""SessionContext: a Spark session whose tables are Python providers; driver Python, thread-safe."""

from __future__ import annotations

import operator
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from headrace.arguments import checked
from headrace.arrow.schemas import SchemaLike, schema_of
from headrace.arrow.types import wire_schema
from headrace.catalog import CatalogProvider
from headrace.display import html_table, html_text, names_text
from headrace.errors import (
    ClosedError,
    HeadraceError,
    RegistrationError,
    TransportError,
)
from headrace.negotiate.registry import RegisteredTable, Registry
from headrace.optional import CONNECT, check_installed
from headrace.provider import TableProvider
from headrace.push.channel import Channel
from headrace.push.packing import Packed, Packing
from headrace.push.sink import TableSink
from headrace.push.table import PushTable
from headrace.spark import launch
from headrace.spark.attached import AttachedSpark, is_connect
from headrace.spark.catalog_names import check_catalog_name
from headrace.spark.classic.session import ClassicSpark
from headrace.spark.explain.answer import Explanation
from headrace.spark.explain.statements import explain_statement, is_statement
from headrace.spark.progress import Progress, ProgressBar
from headrace.spark.results import ResultStream
from headrace.spark.session_tables import SessionTables, check_name
from headrace.spark.sql_names import with_frames
from headrace.spark.unknown_tables import naming_near_tables
from headrace.spark.unnamed import keep_with
from headrace.spill.arrow_spill import ArrowSpill
from headrace.stream import why_no_stream
from headrace.tables.choose import is_table, provider_for

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.spark.connect.session import ConnectSpark

Args: TypeAlias = dict[str, Any] | list[Any] | None
"""The parameters of a query: by name (``:n``) or by place (``?``)."""


_open: list[SessionContext] = []
"""All open contexts of this process, in the order in which they were made."""
_get_or_create_lock = threading.Lock()


_COLUMNS_CHANGED = "INCOMPATIBLE_COLUMN_CHANGES_AFTER_VIEW_WITH_PLAN_CREATION"
"""Spark looks for the table behind a view again: one that is being replaced may have other columns than the view."""


_STREAM_OPTIONS = {option.lower(): option for option in ("maxRowsPerTrigger", "maxBytesPerTrigger")}
"""As Spark reads options: in lower case."""


class SessionContext:
    """Registers tables and runs queries. May be used from several threads.

    ``SessionContext()`` starts a local Spark, ``SessionContext(spark)`` attaches to a session that exists, and
    ``SessionContext(master=..., config=...)`` starts one with settings of your own, or attaches to the one that this
    process has started with them. ``SessionContext.get_or_create`` gives the context that is open already. Closing it
    (or leaving its ``with`` block) ends what it registered and stops Spark if it started it. A Spark Connect session is
    attached to in the same way; ``planning`` says where its tables are planned: ``"client"``, in this process, to which
    the server then has to connect, or ``"server"``, in a process beside the server, for tables that are pulled and
    pickled.

    One of Spark's settings is worth knowing: ``spark.sql.optimizer.datasourceV2JoinPushdown``, off unless you set it to
    ``"true"`` (in ``config``, or with ``ctx.spark.conf.set``), lets a database join two AdbcTables, from Spark 4.1 on.
    """

    @checked("master", "config", "planning", "catalog")
    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        master: str | None = None,
        config: Mapping[str, Any] | None = None,
        planning: str | None = None,
        catalog: str = "headrace",
    ) -> None:
        """``catalog``: the name wanted for the catalog of this context's tables, see the property ``catalog``."""
        check_catalog_name(catalog)
        if spark is not None and (master is not None or config):
            raise ValueError("give either a SparkSession or master and config, not both")
        self._closed = False
        self._registry = Registry()
        self._context_id = uuid.uuid4().hex
        self._attached: AttachedSpark
        if is_connect(spark):
            connect_spark = _connect_spark()
            self._attached = connect_spark(spark, self._registry, self._context_id, catalog, planning or "client")
        elif planning is not None:
            raise ValueError("planning is for Spark Connect sessions: a classic one plans in this process")
        else:
            launched = launch.adopt(spark) if spark is not None else launch.start(master, config or {})
            self._attached = ClassicSpark(launched, self._registry, self._context_id, catalog)
        self._spark = self._attached.spark
        self._tables = SessionTables(self._attached, self._registry)
        _open.append(self)

    @classmethod
    def get_or_create(
        cls,
        spark: SparkSession | None = None,
        *,
        master: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> SessionContext:
        """The open context of the session, or a new one: a notebook's first cell can be run again.

        Without ``spark`` the session is that of the Spark that runs in this process, which must have been started with
        ``master`` and ``config``; where none runs, they start it. Of several open contexts it is the first one. Raises
        as ``SessionContext(...)`` does. Any thread.
        """
        with _get_or_create_lock:
            session = spark
            if session is None and launch.is_running():
                session = launch.running(master, config or {})
            found = None if session is None else next((one for one in list(_open) if one._is_of(session)), None)
            return cls(spark, master=master, config=config) if found is None else found

    def _is_of(self, spark: SparkSession) -> bool:
        """Whether it is attached to this session, and Spark runs."""
        with suppress(HeadraceError):
            self._attached.require_alive()
            return self._attached.is_session(spark)
        return False

    @property
    def spark(self) -> SparkSession:
        """The real SparkSession."""
        return self._spark

    def register_table(
        self,
        name: str,
        table: Any,
        *,
        replace: bool = False,
        verify: Literal["sample", "all"] | None = None,
        schema: SchemaLike | None = None,
        read_only: bool = False,
    ) -> None:
        """Make ``table`` queryable as ``name`` in ``ctx.sql``, ``ctx.spark.sql`` and ``ctx.spark.table``.

        ``table`` is a TableProvider, or data, which is then what every query sees: whatever has ``__arrow_c_stream__``
        or ``__arrow_c_array__`` (Arrow, polars, a DuckDB relation, which runs here), a pandas frame (its index only
        where that has a name), a list of dicts, a dict of lists, a ``pyarrow.dataset``.

        ``schema`` (a ``pa.schema``, DDL text, or pairs of name and type) gives data its columns and types, into which
        it is cast where nothing is lost: a list of tuples has no names without it, an empty list no columns. A key that
        a row does not have is a null; pandas' NA and NaT are nulls.

        ``verify`` checks what the provider promises (EXACT filters and top-n, partitioning, ordering) on the rows of
        each scan, on all of them or on some of each batch; a query whose rows break a promise fails with
        BrokenPromiseError. ``read_only=True`` refuses INSERT, DELETE and TRUNCATE with a WriteError, before anything
        runs, whatever the provider can do.

        With ``replace``, queries that other threads run meanwhile give the old rows or the new ones. A DataFrame that
        was made before gives the old rows; of a Spark Connect session the new ones.

        Asks a provider for its ``schema`` exactly once, on this thread; what it raises reaches you unchanged. Raises
        TableExistsError if the name is taken (by a table of this context or a temporary view of the session)
        and ``replace`` is false, UnsupportedTypeError for a type Spark has no equal of, RegistrationError for
        a bad name, columns that Spark does not tell apart, something that is neither a TableProvider nor data, or data
        that can be read once only (a RecordBatchReader, a generator), and SchemaMismatchError for data that ``schema``
        does not fit. On any error nothing is registered.
        """
        self._require_open()
        if verify not in (None, "sample", "all"):
            raise ValueError(f'verify must be None, "sample" or "all", not {verify!r}')
        registered = self._registered(name, table, replace, verify, schema, read_only)
        self._tables.add(registered, replace=replace)

    def register_tables(self, tables: Mapping[str, Any], *, replace: bool = False) -> None:
        """Register many tables, each under its name: all of them or, on any error, none.

        Takes and raises what ``register_table`` does. Raises RegistrationError for two names that differ in case only.
        """
        self._require_open()
        if not isinstance(tables, Mapping):
            raise RegistrationError(f"register_tables takes a dict of names and tables, not {type(tables).__name__}")
        registered = [self._registered(name, table, replace) for name, table in tables.items()]
        names: dict[str, str] = {}
        for table in registered:
            other = names.setdefault(table.name.lower(), table.name)
            if other != table.name:
                raise RegistrationError(f"the names {other!r} and {table.name!r} are one to Spark; rename one of them")
        self._tables.add(*registered, replace=replace)

    def _registered(
        self,
        name: str,
        table: Any,
        replace: bool,
        verify: Literal["sample", "all"] | None = None,
        schema: SchemaLike | None = None,
        read_only: bool = False,
    ) -> RegisteredTable:
        """Check the name, and ask the table for its schema. Raises as ``register_table`` does."""
        check_name(name)
        if not replace:
            self._tables.check_free(name)
        where = f"register_table({name!r}, ...)"
        try:
            given = None if schema is None else schema_of(schema, "register_table's schema")
        except (TypeError, ValueError) as error:
            raise RegistrationError(str(error)) from None
        return RegisteredTable.of(name, provider_for(table, where, given), verify, read_only=read_only)

    @property
    def catalog(self) -> str:
        """The Spark catalog with this context's tables: ``headrace.orders`` is the table behind the view ``orders``.

        It also works where temporary views do not: in permanent views, and in other sessions of the application
        that are made later (``newSession``). If the wanted name is taken, it is the next free one: ``headrace_2``.
        """
        return self._attached.catalog

    def register_catalog(
        self, name: str, catalog: CatalogProvider, *, replace: bool = False, read_only: bool = False
    ) -> None:
        """Make ``SELECT * FROM name.schema.table`` work, with SHOW SCHEMAS / TABLES, DESCRIBE and VERSION AS OF.

        The provider is asked when a query needs something, and its answers are kept: see ``refresh_catalog``. Works in
        this session, and in later ones of the application. ``read_only=True`` refuses what writes to its tables, makes
        or drops them, with a WriteError. Raises TableExistsError if Spark has a catalog of that name and ``replace`` is
        false (one that is not this context's cannot be replaced), RegistrationError for a bad name or something that is
        not a CatalogProvider, HeadraceError in a Spark Connect session with ``planning="server"``.
        """
        self._require_open()
        with self._tables.lock, self._attached.errors_of_spark():
            self._attached.catalogs().register(name, catalog, replace=replace, read_only=read_only)

    @checked("name")
    def refresh_catalog(self, name: str) -> None:
        """Forget what a catalog's provider answered: it is asked again. Raises HeadraceError for an unknown name."""
        self._require_open()
        self._attached.catalogs().refresh(name)

    @checked("name")
    def deregister_catalog(self, name: str) -> bool:
        """Forget a catalog; True if it was there. Queries under way go on; new ones find no table in it."""
        self._require_open()
        with self._tables.lock, self._attached.errors_of_spark():
            return self._attached.catalogs().deregister(name)

    def register_table_function(
        self, name: str, function: Callable[..., TableProvider], *, replace: bool = False
    ) -> None:
        """Make ``SELECT * FROM name('open', since => DATE '2026-01-01')`` work in this session.

        ``function`` is called at each analysis of such a query, possibly on a thread that is not the caller's. Its
        arguments are the constants of the call, as Python values; what it raises fails the analysis with its class and
        message. Raises TableExistsError if there is a table function of that name and ``replace`` is false (one that
        is not this context's cannot be replaced), RegistrationError for a bad name or something that cannot be called,
        HeadraceError in a Spark Connect session with ``planning="server"``.
        """
        self._require_open()
        with self._tables.lock, self._attached.errors():
            self._attached.catalogs().register_function(name, function, replace=replace)

    @checked("name")
    def deregister_table_function(self, name: str) -> bool:
        """Forget a table function; True if it was there."""
        self._require_open()
        with self._tables.lock, self._attached.errors_of_spark():
            return self._attached.catalogs().deregister_function(name)

    def register_streaming_table(
        self, name: str, schema: SchemaLike, capacity: int = 16, *, partitions: int = 1, replace: bool = False
    ) -> TableSink:
        """Make a push table: what is written to the sink returned is what one query, running meanwhile, reads.

        ``schema``: a ``pa.schema``, DDL text (``"id BIGINT NOT NULL, name STRING"``) or pairs of name and type.
        ``capacity`` batches may wait before ``write`` blocks (per partition, if there are several). With ``replace``
        a table of that name is replaced; if it was a push table, its sink and its query end with DeregisteredError.
        Raises as ``register_table`` does, TypeError or ValueError for a capacity or a number of partitions that is no
        whole number, or below 1, and HeadraceError in a Spark Connect session with ``planning="server"``.
        """
        self._require_open()
        check_name(name)
        try:
            schema = schema_of(schema, f"the schema of {name!r}")
        except (TypeError, ValueError) as error:
            raise RegistrationError(str(error)) from None
        wire = wire_schema(schema)
        capacity, partitions = _count("capacity", capacity), _count("partitions", partitions)
        self._attached.require_planner("push tables")
        packing = Packing(schema, capacity)
        channel: Channel[Packed] = Channel(
            name, capacity, partitions=partitions, spill=ArrowSpill(), new_pack=packing.new_pack
        )
        provider = PushTable(name, channel, packing)
        self._tables.add(RegisteredTable(name, provider, schema, wire), replace=replace)
        return TableSink(channel, packing)

    def deregister_table(self, name: str) -> bool:
        """Forget a table; True if it was there. Scans under way go on, but a push table's sink and query end."""
        self._require_open()
        return self._tables.remove(name)

    def table_exists(self, name: str) -> bool:
        """Whether this context registered ``name``, and nobody has dropped or replaced its view since."""
        self._require_spark()
        return self._tables.find(name) is not None

    def table_names(self) -> list[str]:
        """The names of this context's tables, sorted."""
        self._require_spark()
        return self._tables.names()

    def table(self, name: str) -> DataFrame:
        """A registered table as a DataFrame. Raises HeadraceError if this context has no such table."""
        self._require_open()
        return self._tables.frame(name)

    def stream(self, name: str, **options: Any) -> DataFrame:
        """A registered StreamProvider as a streaming DataFrame: what ``spark.readStream`` gives, with all its sinks.

        ``options``: ``maxRowsPerTrigger`` and ``maxBytesPerTrigger``, about how much a micro-batch may have. Raises
        HeadraceError if this context has no such table or it is no stream, ValueError for an option
        that there is not.
        """
        self._require_open()
        unknown = [option for option in options if option.lower() not in _STREAM_OPTIONS]
        if unknown:
            raise ValueError(f"a stream has no option {unknown[0]!r}; it has {', '.join(_STREAM_OPTIONS.values())}")
        table = self._tables.known(name)
        if (reason := why_no_stream(table.provider)) is not None:
            raise HeadraceError(
                f"the table {name!r} cannot be read as a stream: {reason}. Or read it with ctx.table(name)"
            )
        with self._attached.errors_of_spark():
            return self._spark.readStream.options(**options).table(self._tables.full_name(table))

    def read_table(self, table: Any) -> DataFrame:
        """A provider or data as a DataFrame, without a name; see ``register_table`` for what it may be.

        It is forgotten with the last DataFrame that scans it: this one, or what was made of it. Spark tells when its
        JVM collects garbage; until then the data stays in memory. Raises as ``register_table`` does.
        """
        return self._read_table(table, "read_table")

    def _read_table(self, table: Any, where: str) -> DataFrame:
        self._require_open()
        provider = provider_for(table, where)
        registered = RegisteredTable.of(type(provider).__name__, provider)
        with self._attached.errors_of_spark():
            self._tables.check_columns(registered)
            return self._attached.unnamed(registered)

    @checked("query")
    def sql(self, query: str, args: Args = None, **names: Any) -> DataFrame:
        """A query as an ordinary PySpark DataFrame.

        As in PySpark's own ``sql``: ``args`` are the values of its parameters, and ``{name}`` in the query stands for a
        value or a DataFrame given by that name. Here a name may also be a provider or data, as for ``read_table``:
        ``ctx.sql("SELECT * FROM {orders} WHERE id > {n}", orders=frame, n=3)``.
        """
        self._require_open()
        found = with_frames(query, names, lambda value, name: self._read_table(value, f"{{{name}}} in a query"))
        with naming_near_tables(self.table_names, self.catalog), self._attached.errors_of_spark():
            try:
                frame = self._spark.sql(query, args, **found)
            except AnalysisException as error:
                if error.getCondition() != _COLUMNS_CHANGED:
                    raise
                with self._tables.lock:  # while no table is replaced
                    frame = self._spark.sql(query, args, **found)
        if is_connect(self._spark):
            keep_with(frame, [value for value in found.values() if isinstance(value, DataFrame)])
        return frame

    def collect(self, query: DataFrame | str, args: Args = None, **names: Any) -> pa.Table:
        """The whole result as Arrow. Raises Headrace's own errors where a provider failed.

        ``args`` and ``names`` are those of ``sql``, for a query as text.
        """
        frame = self._frame(query, args, names)
        with self._attached.errors():
            stream = ResultStream(self._attached.query(frame, bounded=False))
        return stream.read_all()

    @checked("progress")
    def execute_stream(
        self,
        query: DataFrame | str,
        args: Args = None,
        *,
        progress: bool | Callable[[Progress], None] = False,
        **names: Any,
    ) -> ResultStream:
        """Start the query and return its result as it comes: an iterator of Arrow batches, in the query's order.

        ``progress=True`` shows a bar, in a notebook's cell or on stderr if that is a terminal; a function is called
        with a Progress on the consumer's thread, after each batch and at the end. ``args`` and ``names`` are those of
        ``sql``, for a query as text. See ResultStream.
        """
        frame = self._frame(query, args, names)
        report = progress if callable(progress) else ProgressBar() if progress else None
        with self._attached.errors():
            return ResultStream(self._attached.query(frame, bounded=True), report)

    def explain(self, query: DataFrame | StreamingQuery | str, args: Args = None, **names: Any) -> Explanation:
        """A readable block per Headrace scan of the query: what was negotiated, and why something was not used.

        Of a streaming query that was started it describes the last micro-batch. A statement that writes is planned as
        well, and does not run: a block per write says what becomes of the table. The answer is a ``str`` that notebooks
        show as it is. ``args`` and ``names`` are those of ``sql``, for text. Raises HeadraceError for a streaming query
        of Spark Connect, whose plan only the server has.
        """
        asked: Any = query
        if hasattr(asked, "lastProgress"):
            self._require_open()
            with self._attached.errors():
                return self._attached.explain_batch(asked)
        if isinstance(query, str) and is_statement(query):
            with self._attached.errors():
                return explain_statement(query, lambda text: self.sql(text, args, **names), self._attached.planner)
        frame = self._frame(asked, args, names)
        with self._attached.errors():
            return self._attached.explain(frame)

    def close(self) -> None:
        """End transports and registrations, and Spark if this context started it. Idempotent."""
        with self._tables.lock:
            if self._closed:
                return
            self._closed = True
            _open.remove(self)
            with suppress(TransportError):
                self._attached.leave()
            self._tables.close()
            self._attached.close()

    def __repr__(self) -> str:
        if self._closed:
            return "<SessionContext: closed>"
        names = self._registry.names()
        tables = f"tables {names_text(names)}" if names else "no tables"
        return f"<SessionContext on {self._attached.where()}: {tables}>"

    def _repr_html_(self) -> str:
        if self._closed:
            return html_text(repr(self))
        tables = [table for name in self._registry.names() if (table := self._registry.find(name)) is not None]
        rows = [(table.name, table.provider_name, names_text(table.schema.names)) for table in tables]
        return html_table(f"SessionContext on {self._attached.where()}", ("table", "provider", "columns"), rows)

    def __enter__(self) -> SessionContext:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _frame(self, query: DataFrame | str, args: Args, names: Mapping[str, Any]) -> DataFrame:
        self._require_open()
        if isinstance(query, str):
            with self._attached.errors():  # catalogs and table functions are asked while Spark analyses the query
                return self.sql(query, args, **names)
        if not hasattr(query, "sparkSession"):
            advice = "; ctx.read_table(...) makes one of a table or data" if is_table(query) else ""
            raise TypeError(f"a query is SQL text or a Spark DataFrame, not {type(query).__name__}{advice}")
        if args is not None or names:
            raise TypeError("args and names belong to a query as SQL text; a DataFrame has its own already")
        return query

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedError("this SessionContext is closed")
        self._require_spark()

    def _require_spark(self) -> None:
        if not self._closed:
            self._attached.require_alive()


def _connect_spark() -> type[ConnectSpark]:
    """Only a session of Spark Connect needs the packages that this imports. Raises MissingPackageError without them."""
    try:
        from headrace.spark.connect.session import ConnectSpark
    except (ImportError, SystemExit) as error:  # PySpark takes ``python -c`` for its doctests, and would end it
        for module in CONNECT:
            check_installed(module, "a Spark Connect session", install="'headrace[connect]'")
        raise HeadraceError(f"PySpark's client of Spark Connect cannot be imported: {error}") from error
    return ConnectSpark


def _count(what: str, number: int) -> int:
    try:
        count = operator.index(number)
    except TypeError:
        raise TypeError(f"{what} must be a whole number, not {number!r}") from None
    if count < 1:
        raise ValueError(f"{what} must be at least 1, not {count}")
    return count
