"""as_data_source: a provider on PySpark's own Python Data Source, where no jar may go; driver and worker Python."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from headrace.arrow.spark_types import spark_schema
from headrace.arrow.types import with_nested
from headrace.errors import HeadraceError, PlanError, RegistrationError, UnsupportedTypeError
from headrace.execute.partition_stream import ScanTask
from headrace.negotiate.asking import ProviderRaised
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.pickling import pickled
from headrace.negotiate.registry import RegisteredTable
from headrace.provider import FilterPushdown
from headrace.spark.data_source.errors import original
from headrace.spark.data_source.provider_stream import ProviderStreamReader
from headrace.spark.data_source.provider_writer import ProviderStreamWriter, ProviderWriter
from headrace.spark.data_source.reading import selected_columns, task_batches
from headrace.spark.versions import has_time_type, inherited_push_filters
from headrace.stream import why_no_stream
from headrace.tables.choose import provider_for

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


def as_data_source(provider: Any, name: str) -> type[DataSource]:
    """``provider`` as a class for ``spark.dataSource.register``; then ``spark.read.format(name).load()`` reads it.

    For sessions that take no jar. Any PySpark session will do, classic or Connect; Headrace must be installed where its
    Python workers run. Much slower than ``SessionContext.register_table``: Spark turns every row of every column
    into a row of its own, and asks for nothing but filters. ``docs/howto/without-jar.md`` lists what is lost.

    A StreamProvider is read by ``spark.readStream.format(name).load()`` too, with the options ``maxRowsPerTrigger`` and
    ``maxBytesPerTrigger`` (both from Spark 4.2 on). ``advanced()`` wakes nobody: it is asked every second.

    The provider is pickled here and now, and that copy is what queries see: it is asked about each scan in a process of
    Spark's, and ``execute`` runs in Spark's Python workers whatever the plan's placement. ``schema()`` is called
    once, by this call.

    A WritableProvider can be written to: ``df.write.format(name).mode("append").save()``, ``"overwrite"``, and
    ``writeStream``. The rows go through the driver: Spark's tasks send them along with their commit messages, and the
    plan is begun, written through and committed in one process of Spark's. A plan with Placement.DRIVER is refused.

    Raises what ``schema()`` does; RegistrationError for what is neither a TableProvider nor data, has no schema, or
    cannot be pickled; UnsupportedTypeError for a type Spark has no equal of.
    """
    if not isinstance(name, str) or not name:
        raise RegistrationError(f"as_data_source takes the name for spark.read.format(...), a text, not {name!r}")
    table = RegisteredTable.of(name, provider_for(provider, "as_data_source"))
    if table.live is not None:
        raise RegistrationError(
            f"{table.provider_name} lives in this process and is read once, so Spark's workers cannot have it; "
            "register it with a SessionContext"
        )
    for field in () if has_time_type() else table.wire_schema:
        if any(map(pa.types.is_time, with_nested(field.type))):
            raise UnsupportedTypeError(
                f"column {field.name!r} has Arrow type {table.schema.field(field.name).type}, and Spark has a "
                "TIME type from 4.1 on: cast it to a string, or to int64 microseconds"
            )
    struct = StructType.fromJson(spark_schema(table.wire_schema, table.schema))
    try:
        copy = pickled(table, by_value=True)
    except Exception as error:  # pickling runs user code
        raise RegistrationError(
            f"{table.provider_name} cannot be pickled, and as_data_source sends it to processes of Spark's: "
            f"{type(error).__name__}: {error}. Make it hold only what can be pickled (open connections and files in "
            "execute), or register it with a SessionContext, where it stays in this process."
        ) from error
    # Not a name of this module: pickled by value, with what it holds.
    members = {"__module__": __name__, "__qualname__": f"as_data_source.<locals>.{name}", "__doc__": repr(provider)}
    return type(
        f"{table.provider_name}Source", (ProviderSource,), {**members, "_name": name, "_struct": struct, "_table": copy}
    )


class ProviderSource(DataSource):
    """What ``as_data_source`` makes subclasses of. Streams have options, their limits, and writes, their request's."""

    _name: str
    _struct: StructType
    _table: bytes

    @classmethod
    def name(cls) -> str:
        return cls._name

    def schema(self) -> StructType:
        return self._struct

    def reader(self, schema: StructType) -> DataSourceReader:
        """``schema``: the table's, or what ``spark.read.schema(...)`` was given: some of its columns."""
        return ProviderReader(pickle.loads(self._table), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        table: RegisteredTable = pickle.loads(self._table)
        if (reason := why_no_stream(table.provider)) is not None:
            raise HeadraceError(f"{self._name} cannot be read as a stream: {reason}")
        return ProviderStreamReader(table, schema, self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """``schema``: of what is written. Raises as ProviderWriter does."""
        return ProviderWriter(self._table, self._name, schema, self.options, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return ProviderStreamWriter(ProviderWriter(self._table, self._name, schema, self.options, overwrite=overwrite))


class ProviderReader(DataSourceReader):
    """One scan: negotiated and planned where Spark plans, then pickled for the workers, which call ``read``.

    Spark pickles it before it asks for partitions, so pickling plans. What fails there is raised by ``partitions``: its
    errors reach the user, those of pickling lose their class.
    """

    def __init__(self, table: RegisteredTable, struct: StructType) -> None:
        self._struct = struct
        self._task: ScanTask | None = None
        self._pickled: bytes | None = None
        self._partitions = 0
        try:
            self._negotiation = Negotiation(table)
        except ProviderRaised as error:
            raise original(error) from None
        self._negotiation.offer_columns(selected_columns(table, struct))
        if (inherited := inherited_push_filters()) is not None:
            self.pushFilters = _PushFilters(self, inherited)  # type: ignore[method-assign]

    def push(self, filters: Sequence[Filter]) -> list[Filter]:
        """The filters that Spark has to evaluate: those that the provider does not decide exactly."""
        from headrace.spark.data_source.filters import expression  # of Filter classes that 4.0 does not have

        wire = self._negotiation.table.wire_schema
        try:
            offered = self._negotiation.offer_filters([expression(filter_, wire) for filter_ in filters])
        except ProviderRaised as error:
            raise original(error) from None
        return [
            filter_
            for filter_, one in zip(filters, offered, strict=True)
            if one.answer is not FilterPushdown.EXACT and not one.implied
        ]

    def partitions(self) -> list[InputPartition]:
        self._plan()
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition is None or partition.value is None:
            return  # of a plan without partitions, for which Spark runs one task
        if self._task is None:
            if self._pickled is None:
                raise PlanError("this reader could not be planned, so it reads nothing")
            self._task = pickle.loads(self._pickled)
        assert self._task is not None
        yield from task_batches(self._task, partition.value, self._struct)

    def __getstate__(self) -> dict[str, Any]:
        try:
            self._plan()
        except Exception:
            self._pickled = None  # partitions() is asked next, and raises it
        return {"_struct": self._struct, "_pickled": self._pickled, "_task": None}

    def _plan(self) -> None:
        """Once: asks the provider for the plan, and pickles it. Raises what the provider did, PlanError."""
        if self._pickled is not None:
            return
        try:
            planned = self._negotiation.plan()
        except ProviderRaised as error:
            raise original(error) from None
        self._task, self._partitions = planned.task(), planned.partitioning.n
        try:
            self._pickled = pickled(self._task, by_value=True)
        except Exception as error:  # pickling runs user code
            raise PlanError(
                f"{self._task.plan_name} (table {self._task.table!r}) cannot be pickled for Spark's Python workers: "
                f"{type(error).__name__}: {error}. As a data source every plan runs there, those with Placement.DRIVER "
                "too: make it hold only what can be pickled, or use SessionContext.register_table."
            ) from error


class _PushFilters:
    """``reader.pushFilters``. Spark refuses readers that override the method while its filter pushdown is switched off,
    and looks at the function behind the method: this one shows the inherited function, and is only called when
    pushdown is on."""

    def __init__(self, reader: ProviderReader, inherited: Any) -> None:
        self.__func__ = inherited
        self._reader = reader

    def __call__(self, filters: Sequence[Filter]) -> list[Filter]:
        return self._reader.push(filters)
