"""StreamTable: several independent streams as one table; the streams run where their placement says."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from headrace.arguments import checked
from headrace.arrow.rows import counted
from headrace.arrow.schemas import SchemaLike, schema_of
from headrace.arrow.sources import BatchSource
from headrace.display import names_text
from headrace.plan import ExecutionPlan, Placement, ScanRequest, UnknownPartitioning
from headrace.provider import TableProvider


class StreamTable(TableProvider):
    """A table with one partition per factory; Spark reads as many at once as it has cores.

    ``schema``: a ``pa.schema``, DDL text (``"id BIGINT NOT NULL, name STRING"``) or a list of pairs of name and type.
    Each factory is called without arguments when Spark reads its partition, and may be called again for the same
    scan. It returns what ``ExecutionPlan.execute`` may return (best a generator of RecordBatches), in the table's
    schema. ``placement``: EXECUTORS pickles the factories and runs each in one of Spark's Python workers; DRIVER
    runs them in this process, each on a thread of its own.

    Raises TypeError for something that is not a schema, or for a factory that cannot be called, ValueError for text
    that is no DDL.
    """

    @checked("placement")
    def __init__(
        self,
        schema: SchemaLike,
        factories: Iterable[Callable[[], BatchSource]],
        *,
        placement: Placement = Placement.EXECUTORS,
    ) -> None:
        if callable(factories) or not isinstance(factories, Iterable):
            raise TypeError("StreamTable takes a list of factories; for a single one write [factory]")
        self._schema = schema_of(schema, "StreamTable's schema")
        self._factories = tuple(factories)
        self._placement = placement
        for index, factory in enumerate(self._factories):
            if not callable(factory):
                raise TypeError(
                    f"StreamTable takes functions that open a stream, but item {index} is a "
                    f"{type(factory).__name__}, which could be read only once; pass the function, or lambda: ..."
                )

    def __repr__(self) -> str:
        return f"<StreamTable: {counted(len(self._factories), 'stream')} of {names_text(self._schema.names)}>"

    def schema(self) -> pa.Schema:
        return self._schema

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        return StreamPlan(self._schema, self._factories, self._placement)


class StreamPlan(ExecutionPlan):
    """One factory a partition; batches have the table's schema and Headrace selects."""

    def __init__(
        self, schema: pa.Schema, factories: tuple[Callable[[], BatchSource], ...], placement: Placement
    ) -> None:
        self.schema = schema
        self.partitioning = UnknownPartitioning(len(factories))
        self.placement = placement
        self._factories = factories

    def execute(self, partition: int) -> BatchSource:
        return self._factories[partition]()

    def describe(self) -> str:
        return counted(len(self._factories), "stream")
