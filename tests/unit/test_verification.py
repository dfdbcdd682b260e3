"""Run-time verification: promises that rows break are named, those that they keep pass, in samples and in full."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from effort import cases
from headrace.arrow.types import wire_schema
from headrace.execute.partition_stream import PartitionStream
from headrace.execute.stopping import StopFlag
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.planned import PlannedScan
from headrace.negotiate.registry import RegisteredTable
from headrace.promises.ordering import first_disorder

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.float64()), ("extra", pa.int64())])
OVER_FIVE = hr.Comparison(">", hr.Column("v"), hr.Literal(5.0, pa.float64()))


class Plan(hr.ExecutionPlan):
    def __init__(self, partitions: Sequence[Sequence[pa.RecordBatch]], request: hr.ScanRequest, **stated: Any) -> None:
        self.schema = request.schema
        self.partitions = partitions
        self.partitioning = stated.get("partitioning", hr.UnknownPartitioning(len(partitions)))
        self.ordering = stated.get("ordering", ())
        self.placement = stated.get("placement", hr.Placement.EXECUTORS)

    def execute(self, partition: int) -> Any:
        return (batch.select(self.schema.names) for batch in self.partitions[partition])


class Promising(hr.TableProvider):
    """Says EXACT to everything and yields what it was given."""

    def __init__(self, *partitions: Sequence[pa.RecordBatch], **stated: Any) -> None:
        self.partitions, self.stated = partitions, stated
        self.requests: list[hr.ScanRequest] = []

    def schema(self) -> pa.Schema:
        return SCHEMA

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> list[hr.Pushdown]:
        return [hr.Pushdown.EXACT] * len(filters)

    def supports_top_n_pushdown(self, order: Sequence[hr.SortKey], limit: int) -> hr.Pushdown:
        return hr.Pushdown.EXACT

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        self.requests.append(request)
        return Plan(self.partitions, request, **self.stated)


def rows(*values: tuple[str | None, float | None]) -> pa.RecordBatch:
    return pa.record_batch([[k for k, _ in values], [v for _, v in values], [0] * len(values)], schema=SCHEMA)


def planned(
    provider: Promising,
    offer: Callable[[Negotiation], Any] = lambda _: None,
    *,
    verify: Literal["sample", "all"] | None = "all",
    columns: Sequence[str] = ("k", "v"),
) -> PlannedScan:
    negotiation = Negotiation(RegisteredTable("t", provider, SCHEMA, wire_schema(SCHEMA), verify=verify))
    offer(negotiation)
    negotiation.offer_columns(pa.schema([SCHEMA.field(name) for name in columns]))
    return negotiation.plan()


def read(scan: PlannedScan) -> list[pa.RecordBatch]:
    task = scan.task()
    if scan.plan.placement is hr.Placement.EXECUTORS:
        task = pickle.loads(pickle.dumps(task))
    batches: list[pa.RecordBatch] = []
    for partition in range(scan.partitioning.n):
        stream = PartitionStream(task, partition, StopFlag())
        try:
            batches.extend(stream)
        finally:
            stream.close()
    return batches


def test_exact_filter_rows_that_match_pass() -> None:
    scan = planned(Promising([rows(("a", 6.0), ("b", math.nan))]), lambda n: n.offer_filters([OVER_FIVE]))
    assert sum(map(len, read(scan))) == 2


@pytest.mark.parametrize("wrong", [5.0, None])
def test_exact_filter_row_that_is_not_true_is_named(wrong: float | None) -> None:
    provider = Promising([rows(("a", 6.0)), rows(("b", 7.0), ("c", wrong))])
    with pytest.raises(hr.BrokenPromiseError) as raised:
        read(planned(provider, lambda n: n.offer_filters([OVER_FIVE])))
    assert raised.value.promise == "filters"
    text = str(raised.value)
    assert text == (
        f"Promising answered EXACT for `v > 5.0`, but partition 0 has 1 row for which it is not true: {{'v': {wrong}}} "
        "(table 't', rows of Plan.execute). Filter these rows out in execute, or answer INEXACT"
    )


def test_exact_filter_on_a_column_that_spark_does_not_read_is_checked_and_not_sent() -> None:
    provider = Promising([rows(("a", 6.0))])
    scan = planned(provider, lambda n: n.offer_filters([OVER_FIVE]), columns=["k"])
    assert provider.requests[-1].projection == ("k", "v")
    assert [batch.schema.names for batch in read(scan)] == [["k"]]
    assert scan.request.projection == ("k",)
    wrong = planned(Promising([rows(("a", 4.0))]), lambda n: n.offer_filters([OVER_FIVE]), columns=[])
    with pytest.raises(hr.BrokenPromiseError, match=r"v > 5.0"):
        read(wrong)


def test_verification_off_looks_at_nothing() -> None:
    provider = Promising([rows(("a", 4.0))])
    scan = planned(provider, lambda n: n.offer_filters([OVER_FIVE]), verify=None, columns=["k"])
    assert scan.promises is None
    assert provider.requests[-1].projection == ("k",)
    assert len(read(scan)) == 1


def test_sample_finds_rows_of_a_batch_that_is_wrong_throughout_but_not_each_single_one() -> None:
    wrong = rows(*[("a", 1.0)] * 10_000)
    with pytest.raises(hr.BrokenPromiseError, match="64 rows"):
        read(planned(Promising([wrong]), lambda n: n.offer_filters([OVER_FIVE]), verify="sample"))
    one = rows(*[("a", 6.0)] * 9_999, ("a", 1.0))
    scan = planned(Promising([one]), lambda n: n.offer_filters([OVER_FIVE]), verify="sample")
    assert sum(map(len, read(scan))) == 10_000
    with pytest.raises(hr.BrokenPromiseError, match="1 row "):
        read(planned(Promising([one]), lambda n: n.offer_filters([OVER_FIVE])))


def test_key_partitioning_row_of_another_key_is_named() -> None:
    keys = hr.KeyPartitioning(["k", "v"], [("a", 1.0), (None, math.nan)])
    good = Promising([rows(("a", 1.0))], [rows((None, math.nan), (None, math.nan))], partitioning=keys)
    assert sum(map(len, read(planned(good)))) == 3
    bad = Promising([rows(("a", 1.0))], [rows((None, math.nan), ("a", math.nan))], partitioning=keys)
    with pytest.raises(hr.BrokenPromiseError) as raised:
        read(planned(bad))
    assert raised.value.promise == "partitioning"
    assert "partition 1 holds the rows with {'k': None, 'v': nan}, but it has 1 other row: {'k': 'a', 'v': nan}" in str(
        raised.value
    )


def test_hash_partitioning_in_this_process_equal_rows_in_two_partitions_are_named() -> None:
    stated = {"partitioning": hr.HashPartitioning("k", 2, "by_letter"), "placement": hr.Placement.DRIVER}
    good = planned(Promising([rows(("a", 1.0), ("b", 1.0))], [rows(("c", 1.0))], **stated))
    assert sum(map(len, read(good) + read(good))) == 6
    with pytest.raises(hr.BrokenPromiseError, match=r"partitions 0 and 1 have equal rows: {'k': 'b'}"):
        read(planned(Promising([rows(("a", 1.0), ("b", 1.0))], [rows(("b", 1.0))], **stated)))


def test_hash_partitioning_in_workers_is_not_relied_on() -> None:
    scan = planned(Promising([], [], partitioning=hr.HashPartitioning("k", 2, "by_letter")))
    assert "cannot be verified across Spark's Python workers" in str(scan.partitioning_unused)
    off = planned(Promising([], [], partitioning=hr.HashPartitioning("k", 2, "by_letter")), verify=None)
    assert off.partitioning_unused is None


def test_ordering_broken_from_one_batch_to_the_next_is_named() -> None:
    provider = Promising([rows(("a", 1.0), ("b", 2.0)), rows(("c", 1.5))], ordering=[hr.SortKey("v")])
    with pytest.raises(hr.BrokenPromiseError) as raised:
        read(planned(provider))
    assert raised.value.promise == "ordering"
    assert "partition 0 is sorted by v NULLS FIRST, but {'v': 2.0} comes before {'v': 1.5}" in str(raised.value)


def test_ordering_that_holds_passes_in_samples() -> None:
    batches = [rows(*[("a", float(start + i)) for i in range(500)]) for start in range(0, 5_000, 500)]
    scan = planned(Promising(batches, ordering=[hr.SortKey("k"), hr.SortKey("v")]), verify="sample")
    assert sum(map(len, read(scan))) == 5_000


def test_exact_top_n_rows_out_of_order_are_named_by_a_column_that_spark_does_not_read() -> None:
    order = [hr.SortKey("v", descending=True, nulls_first=False)]
    provider = Promising([rows(("a", 3.0), ("b", 4.0))])
    with pytest.raises(
        hr.BrokenPromiseError, match="answered EXACT for the first rows by v DESC NULLS LAST, but"
    ) as raised:
        read(planned(provider, lambda n: n.offer_top_n(order, 2), columns=["k"]))
    assert raised.value.promise == "top-n"
    assert provider.requests[-1].projection == ("k", "v")


def test_filter_that_cannot_be_evaluated_is_left_out() -> None:
    unknown = hr.Comparison("=", hr.Call("soundex", (hr.Column("k"),)), hr.Literal("A", pa.string()))
    scan = planned(Promising([rows(("a", 1.0))]), lambda n: n.offer_filters([unknown]))
    assert scan.promises is None
    assert sum(map(len, read(scan))) == 1


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "float64": st.sampled_from([None, math.nan, -0.0, 0.0, 1.0, -math.inf]),
    "string": st.sampled_from([None, "", "a", "é", "z"]),
    "bool": st.sampled_from([None, True, False]),
    "int64": st.sampled_from([None, -1, 0, 2**62]),
}


@settings(max_examples=cases(300), deadline=None)
@given(data=st.data())
def test_first_disorder_any_rows_agrees_with_spark_s_order(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    count = data.draw(st.integers(0, 5))
    columns = [data.draw(st.lists(VALUES[type_], min_size=count, max_size=count)) for type_ in types]
    flags = st.tuples(st.booleans(), st.booleans())
    keys = [hr.SortKey(f"c{i}", *data.draw(flags)) for i in range(len(types))]
    arrays = [pa.array(values, type_) for values, type_ in zip(columns, types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(types))])

    def place(row: int) -> list[tuple[int, float | bytes, bool]]:
        return [_rank(values[row], key) for values, key in zip(columns, keys, strict=True)]

    wrong = [row for row, (one, two) in enumerate(itertools.pairwise(range(count))) if place(two) < place(one)]
    assert first_disorder(batch, keys) == (wrong[0] if wrong else None)


def _rank(value: Any, key: hr.SortKey) -> Any:
    if value is None:
        return (0 if key.nulls_first else 2, 0)
    order = {"": 0, "a": 1, "z": 2, "é": 3}[value] if isinstance(value, str) else value
    number = 2.0**63 if isinstance(order, float) and math.isnan(order) else order
    return (1, -number if key.descending else number)
