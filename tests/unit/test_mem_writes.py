"""MemTable and FunctionSink as targets of writes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from writing import committed, read_rows, request_for, written

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("score", pa.float64())])
ROWS = [
    {"id": 1, "name": "a", "score": 1.5},
    {"id": 2, "name": None, "score": math.nan},
    {"id": 3, "name": "c", "score": None},
]
LESS_THAN_3 = hr.Comparison("<", hr.Column("id"), hr.Literal(3, pa.int64()))
LOW_SCORE = hr.Comparison("<", hr.Column("score"), hr.Literal(2.0, pa.float64()))


def table(rows: list[dict[str, Any]] = ROWS) -> hr.MemTable:
    return hr.MemTable(pa.Table.from_pylist(rows, SCHEMA))


def ids(provider: hr.TableProvider) -> list[int]:
    return sorted(read_rows(provider)["id"].to_pylist())


def some(*numbers: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": n, "name": f"n{n}", "score": float(n)} for n in numbers], SCHEMA)


def test_appended_rows_are_read_and_counted() -> None:
    mem = table()
    committed(mem, some(10, 11), some(12))
    assert ids(mem) == [1, 2, 3, 10, 11, 12]
    assert mem.statistics().num_rows == 6


def test_scan_under_way_keeps_its_rows() -> None:
    mem = table()
    request = hr.ScanRequest(SCHEMA, tuple(SCHEMA.names))
    before = mem.scan(request)
    committed(mem, some(10), mode=hr.WriteMode.TRUNCATE)
    assert sorted(row["id"] for batch in before.execute(0) for row in batch.to_pylist()) == [1, 2, 3]
    assert ids(mem) == [10]


def test_rows_are_not_seen_before_commit() -> None:
    mem = table()
    plan = mem.insert(request_for(mem))
    message = written(plan, some(10))
    assert ids(mem) == [1, 2, 3]
    plan.commit([message])
    plan.commit([message])
    assert ids(mem) == [1, 2, 3, 10]


def test_aborted_write_leaves_the_rows() -> None:
    mem = table()
    plan = mem.insert(request_for(mem, mode=hr.WriteMode.TRUNCATE))
    plan.abort([written(plan, some(10)), None])
    assert ids(mem) == [1, 2, 3]


@pytest.mark.parametrize(
    ("filters", "left"),
    [((LESS_THAN_3,), [3]), ((LOW_SCORE,), [2, 3]), ((LESS_THAN_3, LOW_SCORE), [2, 3]), ((), [])],
    ids=["integers", "nulls and NaN stay", "all of them hold", "no filter is every row"],
)
def test_overwrite_and_delete_remove_exactly_the_rows_that_match(filters: tuple[hr.Expr, ...], left: list[int]) -> None:
    overwritten, deleted = table(), table()
    assert overwritten.can_overwrite(filters)
    assert deleted.can_delete(filters)
    mode = hr.WriteMode.OVERWRITE if filters else hr.WriteMode.TRUNCATE
    committed(overwritten, some(20), mode=mode, filters=filters)
    deleted.delete(filters)
    assert ids(overwritten) == [*left, 20]
    assert ids(deleted) == left


def test_filter_that_pyarrow_cannot_decide_is_no_delete() -> None:
    mem = hr.MemTable(pa.table({"v": ["x"]}))
    strange = hr.Comparison("=", hr.Call("SOUNDEX", (hr.Column("v"),)), hr.Literal("X000", pa.string()))
    assert strange.to_pyarrow(schema=mem.schema()) is None
    assert not mem.can_delete([strange])


def test_epoch_committed_twice_is_there_once() -> None:
    mem = table([])
    for epoch in (0, 1, 1, 2, 1):
        committed(mem, some(epoch), query_id="q", epoch=epoch)
    committed(mem, some(9), query_id="other", epoch=0)
    assert ids(mem) == [0, 1, 2, 9]


def test_views_and_dictionaries_take_new_rows() -> None:
    words = pa.array(["a long text that is no inlined view", "b"], pa.string_view())
    mem = hr.MemTable(pa.table({"v": words, "d": pa.array(["x", "y"]).dictionary_encode()}))
    schema = mem.schema()
    new = pa.table({"v": pa.array(["c"]), "d": pa.array(["z"])}).cast(schema)
    committed(mem, new)
    assert read_rows(mem)["v"].to_pylist() == ["a long text that is no inlined view", "b", "c"]
    assert read_rows(mem)["d"].to_pylist() == ["x", "y", "z"]


def test_the_users_own_table_never_changes() -> None:
    own = some(1)
    mem = hr.MemTable(own)
    committed(mem, some(2))
    assert own.num_rows == 1


def test_function_gets_the_batches_of_each_task() -> None:
    got: list[list[int]] = []
    sink = hr.FunctionSink(SCHEMA, lambda batches: got.append([row["id"] for b in batches for row in b.to_pylist()]))
    committed(sink, some(1, 2), some(3))
    assert got == [[1, 2], [3]]


def test_function_that_leaves_batches_fails_the_task() -> None:
    def takes_one(batches: Iterator[pa.RecordBatch]) -> None:
        next(batches)

    plan = hr.FunctionSink(SCHEMA, takes_one).insert(hr.WriteRequest(SCHEMA))
    with pytest.raises(hr.WriteError, match="takes_one returned before it had read all batches of task 0"):
        plan.write(hr.WriteTask(0, 1), iter(some(1).to_batches() * 2))


def test_function_sink_cannot_be_read_and_says_why() -> None:
    sink = hr.FunctionSink("id BIGINT", list)
    assert sink.schema() == pa.schema([("id", pa.int64())])
    with pytest.raises(hr.PlanError, match="can only be written to: list gets the rows"):
        sink.scan(hr.ScanRequest(sink.schema(), ("id",)))


def test_generators_and_coroutines_are_no_functions_that_write() -> None:
    async def later(batches: Iterator[pa.RecordBatch]) -> None: ...

    def lazy(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="lazy is a generator"):
        hr.FunctionSink(SCHEMA, lazy)
    with pytest.raises(TypeError, match="later is an async function"):
        hr.FunctionSink(SCHEMA, later)
