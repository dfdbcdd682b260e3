"""ProviderStreamReader: a StreamProvider on PySpark's own stream reader; in a process of Spark's, and its workers."""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from headrace.errors import PlanError
from headrace.negotiate.asking import ProviderRaised
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.offsets import offset_of, offset_text
from headrace.negotiate.pickling import pickled
from headrace.negotiate.reading import StreamReading
from headrace.negotiate.registry import RegisteredTable
from headrace.spark.data_source.errors import original
from headrace.spark.data_source.reading import selected_columns, task_batches
from headrace.spark.versions import knows_available_now, spark_read_limit
from headrace.stream import Offset

_OFFSET = "offset"
_ASKED_SECONDS = 1.0
_MAX_ROWS, _MAX_BYTES = "maxRowsPerTrigger", "maxBytesPerTrigger"


@knows_available_now
class ProviderStreamReader(DataSourceStreamReader):
    """Spark makes one for a query, in a process of its own, and another that it pickles for the workers to ``read``.

    A partition brings the plan of its range along. While nothing is new, Spark asks many times a second how far it
    goes, and the provider is asked once a second.
    """

    def __init__(self, table: RegisteredTable, struct: StructType, options: Mapping[str, str]) -> None:
        self._table = table
        self._struct = struct
        self._limits = tuple(_positive(options, name) for name in (_MAX_ROWS, _MAX_BYTES))
        self._reading = StreamReading(table, lambda: True)
        self._is_available_now = False
        self._start: Offset | None = None
        self._idle: tuple[str, float] = "", 0.0

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        with _raising_its_own():
            return {_OFFSET: offset_of(self._reading.initial())}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        return spark_read_limit(*self._limits)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._is_available_now = True

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Before Spark 4.2 neither is given: the start is then where the last range ended, and a micro-batch has all
        that there is, as the first answer is availableNow's end.
        """
        return {_OFFSET: self._latest(None if start is None else start[_OFFSET], limit)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._start = end[_OFFSET]
        if start == end:
            return []
        negotiation = Negotiation(self._table)
        negotiation.offer_columns(selected_columns(self._table, self._struct))
        with _raising_its_own():
            planned = negotiation.plan_between(start[_OFFSET], end[_OFFSET])
        task = planned.task()
        try:
            data = pickled(task, by_value=True)
        except Exception as error:  # pickling runs user code
            raise PlanError(
                f"{task.plan_name} (table {task.table!r}) cannot be pickled for Spark's Python workers: "
                f"{type(error).__name__}: {error}. As a data source every plan runs there, those with Placement.DRIVER "
                "too: make it hold only what can be pickled, or use SessionContext.register_table."
            ) from error
        return [RangePartition(number, data) for number in range(planned.partitioning.n)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return task_batches(pickle.loads(partition.task), partition.value, self._struct)

    def commit(self, end: dict[str, Any]) -> None:
        with _raising_its_own():
            self._reading.commit(offset_text(end[_OFFSET]))

    def stop(self) -> None:
        self._reading.close()

    def __getstate__(self) -> dict[str, Any]:
        """Workers read partitions, which bring all along: the provider stays behind."""
        return {"_struct": self._struct}

    def _begun(self) -> Offset:
        if self._start is None:
            self._start = self.initialOffset()[_OFFSET]
        return self._start

    def _latest(self, given: Offset | None, limit: Any) -> Offset:
        start = self._begun() if given is None else given
        text, now = offset_text(start), time.monotonic()
        if self._idle[0] == text and now - self._idle[1] < _ASKED_SECONDS:
            return start
        most_rows, most_bytes = getattr(limit, "max_rows", None), getattr(limit, "max_bytes", None)
        with _raising_its_own():
            if given is None:
                found = [text, *self._reading.ends_until_now(text)][-1]
            else:
                found = self._reading.latest(text, most_rows, most_bytes, available_now=self._is_available_now).end
        self._idle = (text, now) if found == text else ("", 0.0)
        return offset_of(found)


@contextlib.contextmanager
def _raising_its_own() -> Iterator[None]:
    """What the provider raises is raised."""
    try:
        yield
    except ProviderRaised as error:
        raise original(error) from None


class RangePartition(InputPartition):
    """A partition of one range of a stream, with the pickled task that reads it."""

    def __init__(self, number: int, task: bytes) -> None:
        super().__init__(number)
        self.task = task


def _positive(options: Mapping[str, str], name: str) -> int | None:
    """Options are in any case. Raises ValueError for what is no positive number."""
    text = next((value for key, value in options.items() if key.lower() == name.lower()), None)
    if text is None:
        return None
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"{name} is a positive number, not {text!r}")
    return int(text)
