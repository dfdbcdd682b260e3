"""Partition streams with work for the source stage: laziness, limits, closing, promises, errors, pickling. No Spark."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

import headrace as hr
from broken_arrays import ALL, broken_batch
from headrace.arrow.sizes import LARGE_ROWS
from headrace.errors import BrokenPromiseError, SchemaMismatchError
from headrace.execute.partition_stream import PartitionStream, ScanTask
from headrace.execute.stage.work import StageWork
from headrace.execute.stopping import Ending, StopFlag, StopRequested
from headrace.expr.nodes import Column, Comparison, Expr, IsNull, Literal, Not
from headrace.plan import SortKey
from headrace.promises.checks import Promises
from naive_stage import aggregation
from producing import FunctionPlan

LONG = pa.int64()
SCHEMA = pa.schema([("a", LONG), ("s", pa.string())])
COUNT = aggregation([], [("count", None, LONG)])
SMALL: Expr = Comparison("<", Column("a"), Literal(5, LONG))


def batch(*values: int | None) -> pa.RecordBatch:
    texts = [None if value is None else str(value) for value in values]
    return pa.RecordBatch.from_arrays([pa.array(values, LONG), pa.array(texts)], schema=SCHEMA)


def task(source: Any, work: StageWork | None, sent: pa.Schema = SCHEMA, **others: Any) -> ScanTask:
    plan = FunctionPlan(others.pop("schema", SCHEMA), source, 1, hr.Placement.DRIVER)
    return ScanTask("t", plan, plan.schema, sent, others.pop("limit", None), work=work, **others)


class Produced:
    """Batches that were produced so far, and whether the generator was closed, by which thread."""

    def __init__(self, *batches: pa.RecordBatch) -> None:
        self.batches = batches
        self.given = 0
        self.closed = False
        self.threads: set[int] = set()

    def __call__(self, _partition: int) -> Iterator[pa.RecordBatch]:
        try:
            for one in self.batches:
                self.threads.add(threading.get_ident())
                self.given += 1
                yield one
        finally:
            self.closed = True


def test_filtered_batch_is_sent_before_the_next_is_produced() -> None:
    produced = Produced(batch(1, 7), batch(8, 9), batch(2))
    stream = iter(PartitionStream(task(produced, StageWork(filters=(SMALL,))), 0, StopFlag()))
    assert next(stream).to_pydict() == {"a": [1], "s": ["1"]}
    assert produced.given == 1
    assert next(stream)["a"].to_pylist() == [2]  # a batch without such rows is no batch
    assert next(stream, None) is None


def test_limit_after_filters_stops_the_producer() -> None:
    for work, limit in ((StageWork(filters=(SMALL,), limit=3), None), (StageWork(filters=(SMALL,)), 3)):
        produced = Produced(*(batch(i, i + 10) for i in range(5)))
        stream = PartitionStream(task(produced, work, limit=limit), 0, StopFlag())
        assert [row for one in stream for row in one["a"].to_pylist()] == [0, 1, 2]
        assert produced.given == 3
        stream.close()
        assert produced.closed


def test_aggregation_drives_the_producer_on_the_readers_thread_alone() -> None:
    groups = aggregation([(Column("s"), pa.string())], [("count", None, LONG)])
    produced = Produced(*(batch(*range(i, i + 5)) for i in range(50)))
    stream = PartitionStream(task(produced, StageWork(aggregation=groups), groups.schema), 0, StopFlag())
    assert sum(value for one in stream for value in one["count_0"].to_pylist()) == 250
    assert produced.threads == {threading.get_ident()}


def test_aggregation_over_no_batches_has_one_row() -> None:
    stream = PartitionStream(task(Produced(), StageWork(aggregation=COUNT), COUNT.schema), 0, StopFlag())
    assert [one.to_pylist() for one in stream] == [[{"count_0": 0}]]


def test_stop_while_rows_are_aggregated_ends_the_stream_without_a_result() -> None:
    stop = StopFlag()

    def source(_partition: int) -> Iterator[pa.RecordBatch]:
        yield batch(1)
        stop.request(Ending("lost", "nobody reads"))
        yield batch(2)

    stream = PartitionStream(task(source, StageWork(aggregation=COUNT), COUNT.schema), 0, stop)
    with pytest.raises(StopRequested):
        list(stream)


def test_error_of_the_producer_passes_and_no_partial_result_is_sent() -> None:
    def source(_partition: int) -> Iterator[pa.RecordBatch]:
        yield batch(1)
        raise KeyError("mine")

    stream = iter(PartitionStream(task(source, StageWork(aggregation=COUNT), COUNT.schema), 0, StopFlag()))
    with pytest.raises(KeyError, match="mine"):
        next(stream)


def test_batch_of_another_schema_is_refused_before_the_stage() -> None:
    other = pa.RecordBatch.from_pydict({"a": ["x"], "s": ["y"]})
    stream = PartitionStream(task(Produced(other), StageWork(filters=(SMALL,))), 0, StopFlag())
    with pytest.raises(SchemaMismatchError, match=r"FunctionPlan\.execute yielded a batch whose schema is not"):
        list(stream)


@pytest.mark.parametrize("name", ALL)
def test_broken_batch_is_refused_before_the_stage_reads_it(name: str) -> None:
    broken = broken_batch(name)
    work = StageWork(filters=(Not(IsNull(Column("c"))),))
    stream = PartitionStream(task(Produced(broken), work, broken.schema, schema=broken.schema), 0, StopFlag())
    with pytest.raises(SchemaMismatchError, match="yielded a broken batch"):
        list(stream)


def test_null_in_a_column_declared_without_is_refused_after_the_filter() -> None:
    schema = pa.schema([pa.field("a", LONG, nullable=False), ("s", pa.string())])
    broken = pa.RecordBatch.from_arrays(batch(1, None).columns, schema=schema)
    keep = Not(IsNull(Column("a")))
    work = StageWork(filters=(Comparison("<=>", Column("s"), Literal(None, pa.string())),))
    stream = PartitionStream(task(Produced(broken), work, schema, schema=schema), 0, StopFlag())
    with pytest.raises(SchemaMismatchError, match="yielded nulls in column 'a'"):
        list(stream)
    stream = PartitionStream(task(Produced(broken), StageWork(filters=(keep,)), schema, schema=schema), 0, StopFlag())
    assert [one["a"].to_pylist() for one in stream] == [[1]]


def test_promises_are_verified_on_the_rows_of_the_provider() -> None:
    """The stage drops the row that breaks the promise, and it is told all the same."""
    promises = Promises("P", True, pa.schema([("a", LONG)]), ordering=(SortKey("a"),))
    work = StageWork(filters=(SMALL,))
    stream = PartitionStream(task(Produced(batch(1, 9, 8, 4)), work, promises=promises), 0, StopFlag())
    with pytest.raises(BrokenPromiseError, match="is sorted by a"):
        list(stream)


def test_large_filtered_batch_is_sent_with_its_dictionary() -> None:
    values = pa.array(["one name", "another name"])
    indices = pa.array([0, 1] * LARGE_ROWS, pa.int32())
    schema = pa.schema([("a", LONG), ("c", pa.dictionary(pa.int32(), pa.string()))])
    array = pa.DictionaryArray.from_arrays(indices, values)
    rows = pa.RecordBatch.from_arrays([pa.array(range(2 * LARGE_ROWS), LONG), array], schema=schema)
    work = StageWork(filters=(Comparison("<", Column("a"), Literal(LARGE_ROWS, LONG)),))
    sent = pa.schema([schema.field("c")])
    stream = PartitionStream(task(Produced(rows), work, sent, schema=schema), 0, StopFlag(), as_they_are=True)
    (found,) = stream
    assert found.num_rows == LARGE_ROWS
    assert found["c"].type == schema.field("c").type


def test_task_with_work_is_pickled() -> None:
    work = StageWork(
        filters=(SMALL,),
        runtime_filters=(Not(IsNull(Column("a"))),),
        aggregation=aggregation([(Column("s"), pa.string())], [("sum", Column("a"), LONG)]),
        order=(SortKey("a"),),
        limit=3,
        ansi=False,
    )
    asked = task(lambda _partition: iter([batch(1)]), work)
    found = pickle.loads(cloudpickle.dumps(asked))
    assert found.work == work
    assert work.columns() == {"a", "s"}


def test_work_knows_whether_there_is_any() -> None:
    assert StageWork(ansi=False).is_empty
    assert not StageWork(limit=0).is_empty
    assert not StageWork(filters=(SMALL,)).is_empty
