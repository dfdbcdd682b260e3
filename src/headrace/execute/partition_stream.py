"""Partition streams: one partition's batches, checked and in wire types; runs where ``execute`` runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.arrow.batches import compacted, halves, indented, same_columns
from headrace.arrow.conversion import batch_converter, converter
from headrace.arrow.damage import DamageCheck
from headrace.arrow.data import opened
from headrace.arrow.mismatch import mismatch
from headrace.arrow.nulls import NullCheck
from headrace.arrow.sending import ColumnsAsTheyAre
from headrace.arrow.sources import BatchSource, batch_iterator, close_sources, hint_for
from headrace.arrow.types import wire_schema
from headrace.errors import BrokenPromiseError, SchemaMismatchError
from headrace.execute.live import LivePlan
from headrace.execute.stage.source_stage import SourceStage
from headrace.execute.stage.work import StageWork
from headrace.execute.stopping import Ending, StopFlag
from headrace.plan import ExecutionPlan
from headrace.promises.checks import PartitionCheck, Promises

_END = object()


@dataclass(frozen=True)
class ScanTask:
    """Everything needed to produce any partition of one scan; pickled for EXECUTORS placement."""

    table: str
    plan: ExecutionPlan
    plan_schema: pa.Schema
    request_schema: pa.Schema
    limit: int | None
    promises: Promises | None = None
    """To be verified on the rows of the plan."""
    work: StageWork | None = None
    """What is done with them before they are sent. ``request_schema`` and ``limit`` are of the rows after it."""

    @property
    def plan_name(self) -> str:
        return type(self.plan).__name__

    @property
    def live(self) -> LivePlan | None:
        """The plan, if it is one of what lives in the driver."""
        return self.plan if isinstance(self.plan, LivePlan) else None

    def place(self, method: str) -> str:
        """Who is blamed for an error while a partition is read."""
        return self.live.failure_place if self.live is not None else f"{self.plan_name}.{method}"

    @property
    def verified(self) -> frozenset[str]:
        """The columns that promises are about which are to be verified."""
        return frozenset() if self.promises is None else frozenset(self.promises.schema.names)

    @property
    def most_rows(self) -> int | None:
        """The rows that are needed of a partition after the stage; of those in an order the stage keeps the first."""
        limits = [self.limit] if self.work is None or self.work.order else [self.limit, self.work.limit]
        return min((limit for limit in limits if limit is not None), default=None)

    def wire_schema(self) -> pa.Schema:
        return wire_schema(self.request_schema)


class PartitionStream:
    """Iterates over the wire batches of one partition and closes the user's iterator when done.

    Raises SchemaMismatchError where a batch breaks the plan's promise, and BrokenPromiseError for those that the table
    was registered to verify; user exceptions pass unchanged.
    Single-threaded, except that ``stop.request()`` may come from anywhere. ``source`` is what ``execute`` returned,
    where that was called already. ``as_they_are``: columns may be dictionaries or views where that is cheaper to send;
    the schema of such a batch says so.
    """

    def __init__(
        self,
        task: ScanTask,
        partition: int,
        stop: StopFlag,
        source: BatchSource | None = None,
        *,
        as_they_are: bool = False,
    ) -> None:
        self._stage = None if task.work is None else SourceStage(task.work, task.plan_schema, task.request_schema)
        converted = task.plan_schema if self._stage is None else self._stage.schema
        conversion = _conversion_of(task, converted)
        self.schema = conversion.schema
        self.task = task
        self.partition = partition
        self.source: Any = source
        self._stop = stop
        stop.watch(source)
        self._batches: Iterator[Any] | None = None
        self._item: Iterator[pa.RecordBatch] | None = None
        """The batches of what the source gave last, while they are read."""
        self._other: tuple[pa.Schema, Callable[[pa.RecordBatch], pa.RecordBatch]] | None = None
        self._remaining = task.most_rows
        self._rows_read = 0
        self._select = conversion.select
        self._nulls = conversion.nulls
        self._buffers = conversion.buffers
        self._read_by_stage = None if task.work is None else DamageCheck(task.plan_schema, _read_by_stage(task))
        unconverted = self.schema if as_they_are and task.promises is None else pa.schema([])  # to verify is to read
        self._as_they_are = ColumnsAsTheyAre(converted, unconverted)
        self._verified = self._partition_check(task.promises) if task.promises is not None else None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with self._stop.user_code():
            if self.source is None:
                self.source = self.task.plan.execute(self.partition)
                self._stop.watch(self.source)
            self._batches = batch_iterator(self.source, f"{self.task.plan_name}.execute")
        if isinstance(self._batches, pa.RecordBatchReader):  # it may have no batch that could be checked
            found = self._batches.schema
            if not same_columns(found, self.task.plan_schema):
                self._converter(found, "returned a reader")
        while self._remaining is None or self._remaining > 0:
            with self._stop.user_code():
                item = next(self._batches, _END)
            if item is _END:
                self._stop.check()  # a source may end because it was interrupted
                break
            for batch in self._checked(item):
                self._rows_read += batch.num_rows
                if self._stage is None:
                    yield from self._cut(batch)
                else:
                    self._check_read(batch)
                    for part in self._stage.add(batch):
                        yield from self._cut(part)
                if self._remaining == 0:
                    break
        for part in () if self._stage is None else self._stage.finish():
            yield from self._cut(part)

    def _cut(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What is sent of ``batch``: no more rows than are needed, converted."""
        if self._remaining == 0:
            return
        unconverted = self._check_buffers(batch)
        if self._remaining is not None:
            if batch.num_rows > self._remaining:
                batch = batch.slice(0, self._remaining)
                unconverted = self._check_buffers(batch)  # it has another last offset now
            self._remaining -= batch.num_rows
        yield from self._converted(batch, unconverted)

    @property
    def rows_read(self) -> int | None:
        """How many rows the plan gave so far, where the stage makes others of them."""
        return None if self._stage is None else self._rows_read

    @property
    def ending(self) -> Ending | None:
        """Why it was stopped, said by whoever requested the stop; None if nobody did."""
        return self._stop.ending

    def close(self) -> None:
        """Close the user's generator or reader; whatever that raises passes unchanged. Idempotent."""
        self._stop.watch(None)
        item, batches, source = self._item, self._batches, self.source
        self._item = self._batches = self.source = None
        try:
            close_sources(item, batches, source)
        finally:
            self._stop.process.end_child()

    def _checked(self, item: Any) -> Iterable[pa.RecordBatch]:
        """What the source gave, as batches of the plan's schema."""
        expected = self.task.plan_schema
        if isinstance(item, pa.RecordBatch):
            if item.schema.equals(expected):
                return (item,)
            if same_columns(item.schema, expected):
                # Only what is declared nullable differs; small batches can be merged only if their schemas are equal.
                return (pa.RecordBatch.from_arrays(item.columns, schema=expected),)
        return self._conforming(item)

    def _conforming(self, item: Any) -> Iterator[pa.RecordBatch]:
        """Data of another kind, or of other types, as batches of the plan's schema, where that loses nothing."""
        name, where = f"{self.task.plan_name}.execute", f"(table {self.task.table!r}, partition {self.partition})"
        try:
            with self._stop.user_code():
                found = opened(item, self.task.plan_schema, "do not fit the plan's schema")
        except SchemaMismatchError as error:  # of rows
            raise SchemaMismatchError(f"{name} yielded rows of other types {where}: {error}") from error
        except TypeError as error:
            raise SchemaMismatchError(f"{name} yielded {type(item).__name__} {where}: {error}") from error
        if found is None:
            raise SchemaMismatchError(
                f"{name} yielded {type(item).__name__}, expected pyarrow.RecordBatch, a Table, a frame or a list of "
                f"dicts{hint_for(item)} {where}"
            )
        schema, self._item = found
        convert = None if schema.equals(self.task.plan_schema) else self._converter(schema, "yielded a batch")
        while True:
            with self._stop.user_code():
                batch = next(self._item, None)
            if batch is None:
                break
            yield batch if convert is None else convert(batch)
        close_sources(self._item)
        self._item = None

    def _converter(self, found: pa.Schema, what: str) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """From batches of another schema to the plan's. Raises SchemaMismatchError where no values would fit."""
        if self._other is not None and self._other[0].equals(found, check_metadata=True):
            return self._other[1]
        expected = self.task.plan_schema
        name, where = f"{self.task.plan_name}.execute", f"(table {self.task.table!r}, partition {self.partition})"
        convert = batch_converter(found, expected)
        if convert is None:
            raise SchemaMismatchError(
                f"{name} {what} whose schema is not the plan's {where}\n{mismatch(expected, found)}"
            )
        buffers = DamageCheck(found, read=found.names)

        def converted(batch: pa.RecordBatch) -> pa.RecordBatch:
            self._refuse_damage(buffers.damage(batch))
            try:
                return convert(batch)
            except SchemaMismatchError as error:
                both = f"expected:\n{indented(expected)}\nfound:\n{indented(found)}"
                raise SchemaMismatchError(f"{name} {what} whose values do not fit {where}: {error}\n{both}") from error

        self._other = found, converted
        return converted

    def _converted(self, batch: pa.RecordBatch, unconverted: dict[str, pa.Array]) -> Iterator[pa.RecordBatch]:
        """The batch in wire types, except for the columns of ``unconverted``.

        In several where its strings are too many for one. See ``arrow.conversion``.
        """
        try:
            selected = self._select(batch, unconverted)
        except SchemaMismatchError:
            if batch.num_rows <= 1:
                raise
            for part in halves(batch):
                yield from self._converted(compacted(part), {})
            return
        self._check_nulls(selected)
        if self._stage is None:
            self._verify(batch)
        yield selected

    def _verify(self, batch: pa.RecordBatch) -> None:
        """Look for promises that a batch of the plan's breaks."""
        if self._verified is None:
            return
        try:
            violations = list(self._verified.violations(batch))
        except SchemaMismatchError:  # as in _converted
            if batch.num_rows <= 1:
                raise
            for part in halves(batch):
                self._verify(compacted(part))
            return
        for violation in violations:
            where = f"(table {self.task.table!r}, rows of {self.task.plan_name}.execute)"
            message = f"{self._verified.promises.provider} {violation.text} {where}. {violation.advice}"
            raise BrokenPromiseError(violation.promise, message)

    def _partition_check(self, promises: Promises) -> PartitionCheck:
        select = _selector(self.task.plan_schema, promises.schema, wire_schema(promises.schema))
        return PartitionCheck(promises, self.partition, lambda batch: select(batch, {}))

    def _check_read(self, batch: pa.RecordBatch) -> None:
        """What has to hold before the stage reads a batch of the plan's."""
        if self._read_by_stage is not None:
            self._refuse_damage(self._read_by_stage.damage(batch))
        self._verify(batch)

    def _check_buffers(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Raises for a broken batch; returns the columns that nobody reads here, because they are sent as they are."""
        unconverted = self._as_they_are.of(batch)
        self._refuse_damage(self._buffers.damage(batch, unread=unconverted))
        return unconverted

    def _refuse_damage(self, damage: str | None) -> None:
        if damage is not None:
            raise SchemaMismatchError(
                f"{self.task.plan_name}.execute yielded a broken batch (table {self.task.table!r}, "
                f"partition {self.partition}): {damage}"
            )

    def _check_nulls(self, batch: pa.RecordBatch) -> None:
        """Spark does not look for nulls where the table declares none, and would read garbage.

        Looks at the converted columns: a null may hide in a dictionary's values or in a run.
        """
        path = self._nulls.path(batch)
        if path is not None:
            raise SchemaMismatchError(
                f"{self.task.plan_name}.execute yielded nulls in column {path!r}, which the schema declares not "
                f"null (table {self.task.table!r}, partition {self.partition})\n"
                f"expected:\n{indented(self.task.request_schema)}\nfound:\n{indented(batch.schema)}"
            )


Select = Callable[[pa.RecordBatch, dict[str, pa.Array]], pa.RecordBatch]


@dataclass(frozen=True)
class _Conversion:
    """How batches of a plan become those of the wire, and what is checked on the way. Any number of threads."""

    planned: pa.Schema
    requested: pa.Schema
    verified: frozenset[str]
    schema: pa.Schema
    select: Select
    nulls: NullCheck
    buffers: DamageCheck

    @classmethod
    def of(cls, task: ScanTask, planned: pa.Schema) -> _Conversion:
        requested, schema = task.request_schema, task.wire_schema()
        nulls = NullCheck(schema)
        # The columns whose values this process reads: to convert them, to verify them, or to find nulls inside of them.
        converted = {field.name for field in schema if planned.field(field.name).type != field.type}
        buffers = DamageCheck(planned, read=converted | task.verified | nulls.reads)
        select = _selector(planned, requested, schema)
        return cls(planned, requested, task.verified, schema, select, nulls, buffers)

    def serves(self, task: ScanTask, planned: pa.Schema) -> bool:
        return (
            self.verified == task.verified
            and self.planned.equals(planned, check_metadata=True)
            and self.requested.equals(task.request_schema, check_metadata=True)
        )


_last_conversion: _Conversion | None = None


def _conversion_of(task: ScanTask, planned: pa.Schema) -> _Conversion:
    """The conversion of the last partition, if it serves this task: to make one takes longer than to send a row.

    ``planned`` is the schema of the batches that are converted.
    """
    global _last_conversion
    conversion = _last_conversion
    if conversion is None or not conversion.serves(task, planned):
        _last_conversion = conversion = _Conversion.of(task, planned)
    return conversion


def _selector(plan: pa.Schema, request: pa.Schema, wire: pa.Schema) -> Select:
    """A function from the plan's batches to the wire's: pick columns, prune nested fields, cast losslessly.

    It takes the columns that need no cast as they are, by their names, beside the batch.
    """
    positions = [plan.get_field_index(name) for name in request.names]
    steps = [
        converter(plan.field(position).type, field.type, field.name)
        for position, field in zip(positions, wire, strict=True)
    ]
    in_order = positions == list(range(len(plan)))
    if not any(steps) and pa.schema([plan.field(position) for position in positions]).equals(wire):
        return (lambda batch, _: batch) if in_order else (lambda batch, _: batch.select(positions))

    def convert(batch: pa.RecordBatch, unconverted: dict[str, pa.Array]) -> pa.RecordBatch:
        columns = []
        for position, step, field in zip(positions, steps, wire, strict=True):
            column = unconverted.get(field.name)
            if column is None:
                column = batch.column(position) if step is None else step(batch.column(position))
            columns.append(column)
        schema = wire
        if unconverted:
            fields = [field.with_type(column.type) for field, column in zip(wire, columns, strict=True)]
            schema = pa.schema(fields)
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    return convert


def _read_by_stage(task: ScanTask) -> frozenset[str]:
    """The columns of the plan that the stage reads, or of which it copies some rows."""
    assert task.work is not None
    sent = task.request_schema.names if task.work.aggregation is None else []
    return task.work.columns().union(sent)
