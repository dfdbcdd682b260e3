"""A data source's own stream reader as offsets and plans: PySpark's two kinds of them, of every version; driver."""

from __future__ import annotations

import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from headrace.errors import PlanError
from headrace.negotiate.offsets import offset_text
from headrace.plan import Placement
from headrace.spark.data_source.errors import type_mismatch
from headrace.spark.data_source.plan import DataSourcePlan
from headrace.spark.versions import spark_read_limit
from headrace.stream import Offset, ReadLimit

_MOST_PREFETCHED = 16
"""Ranges whose rows a simple reader gave already, and which no query has committed. Any other is read again."""


def has_stream(source: DataSource) -> bool:
    """Whether the data source can be read as a stream."""
    own: Any = type(source)
    inherited: Any = DataSource
    return own.streamReader is not inherited.streamReader or own.simpleStreamReader is not inherited.simpleStreamReader


def stream_of_source(source: DataSource, struct: StructType, name: str) -> PartitionedStream | SimpleStream:
    """As in Spark: ``streamReader``, and ``simpleStreamReader`` where that is not there."""
    try:
        source.streamReader(schema=struct)
    except (NotImplementedError, PySparkNotImplementedError):
        return SimpleStream(lambda: _simple_reader(source, struct), struct, name)
    return PartitionedStream(lambda: _stream_reader(source, struct), struct, name)


def _stream_reader(source: DataSource, struct: StructType) -> DataSourceStreamReader:
    reader: Any = source.streamReader(schema=struct)
    if not isinstance(reader, DataSourceStreamReader):
        raise type_mismatch("an instance of DataSourceStreamReader", reader)
    return reader


def _simple_reader(source: DataSource, struct: StructType) -> SimpleDataSourceStreamReader:
    reader: Any = source.simpleStreamReader(schema=struct)
    if not isinstance(reader, SimpleDataSourceStreamReader):
        raise type_mismatch("an instance of SimpleDataSourceStreamReader", reader)
    return reader


class PartitionedStream:
    """A DataSourceStreamReader that tells offsets and partitions, and one of its own, as it was made, for the tasks.

    So it is in Spark: what the first one keeps (a connection, a count) need not be fit to be pickled.
    """

    def __init__(self, make: Callable[[], DataSourceStreamReader], struct: StructType, name: str) -> None:
        self.reader = make()
        self._for_tasks = make()
        self._struct = struct
        self._name = name
        self._takes_limits = bool(inspect.signature(self.reader.latestOffset).parameters)

    def latest(self, start: Offset, limit: ReadLimit) -> Offset:
        """``until`` is given back as it is: nobody knows which of a reader's offsets come before it."""
        if limit.until is not None:
            return limit.until
        if not self._takes_limits:
            return self.reader.latestOffset()  # type: ignore[call-arg]
        return self.reader.latestOffset(start, spark_read_limit(limit.max_rows, limit.max_bytes))

    def plan(self, start: Offset, end: Offset, projection: tuple[str, ...]) -> DataSourcePlan:
        partitions = self.reader.partitions(start, end)
        if not isinstance(partitions, Sequence):
            raise type_mismatch("'partitions' to return a list", partitions)
        if wrong := [p for p in partitions if not isinstance(p, InputPartition)]:
            raise type_mismatch("elements in 'partitions' to be of type 'InputPartition'", wrong[0])
        return DataSourcePlan(self._for_tasks, tuple(partitions), self._struct, projection, self._name)

    def commit(self, end: Offset) -> None:
        self.reader.commit(end)

    def stop(self) -> None:
        self.reader.stop()


class SimpleStream:
    """A SimpleDataSourceStreamReader, which reads rows to tell how far they go. They are kept until they are committed.

    A range that is not kept, after a restart, is read by ``readBetweenOffsets`` where Spark runs its tasks.
    """

    def __init__(self, make: Callable[[], SimpleDataSourceStreamReader], struct: StructType, name: str) -> None:
        self.reader = make()
        self._for_tasks = make()
        self._struct = struct
        self._name = name
        self._lock = threading.Lock()
        self._prefetched: OrderedDict[tuple[str, str], list[Any]] = OrderedDict()

    def latest(self, start: Offset, limit: ReadLimit) -> Offset:
        if limit.until is not None:
            return limit.until
        rows, end = self.reader.read(start)
        key = offset_text(start), offset_text(end)
        read = list(rows)
        if key[0] == key[1]:
            if read:
                raise PlanError(
                    f"{type(self.reader).__name__}.read gave rows, and an end that is its start, {key[0]}: they would "
                    "come again and again"
                )
            return end
        with self._lock:
            self._prefetched[key] = read
            while len(self._prefetched) > _MOST_PREFETCHED:
                self._prefetched.popitem(last=False)
        return end

    def plan(self, start: Offset, end: Offset, projection: tuple[str, ...]) -> DataSourcePlan:
        with self._lock:
            rows = self._prefetched.get((offset_text(start), offset_text(end)))
        if rows is not None:
            plan = DataSourcePlan(_Prefetched(rows), (InputPartition(None),), self._struct, projection, self._name)
            plan.placement = Placement.DRIVER
            return plan
        again = _ReadAgain(self._for_tasks, start, end)
        return DataSourcePlan(again, (InputPartition(None),), self._struct, projection, self._name)

    def commit(self, end: Offset) -> None:
        text = offset_text(end)
        with self._lock:
            keys = list(self._prefetched)
            done = next((i for i, key in enumerate(keys) if key[1] == text), -1)
            for key in keys[: done + 1]:
                del self._prefetched[key]
        self.reader.commit(end)

    def stop(self) -> None:
        """There is nothing to stop: such a reader has no method for it."""


class _Prefetched:
    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...] | pa.RecordBatch]:
        return iter(self._rows)


class _ReadAgain:
    def __init__(self, reader: SimpleDataSourceStreamReader, start: Offset, end: Offset) -> None:
        self._reader = reader
        self._range = start, end

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...] | pa.RecordBatch]:
        return self._reader.readBetweenOffsets(*self._range)
