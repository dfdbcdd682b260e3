"""A small table, and a provider of it that keeps every promise; for the tests."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr
from headrace import FilterPushdown

CITIES = ("bonn", "kiel", "ulm")
PLACE = pa.struct([("x", pa.int32()), ("label", pa.string())])
SCHEMA = pa.schema(
    [
        pa.field("city", pa.string(), nullable=False),
        ("value", pa.int64()),
        ("weight", pa.int64()),
        ("name", pa.string()),
        ("score", pa.float64()),
        ("place", PLACE),
    ]
)
ROWS = pa.Table.from_pylist(
    [
        {
            "city": CITIES[0 if i % 5 < 3 else 1 if i % 5 == 3 else 2],  # 18, 6 and 6 rows
            "value": None if i % 7 == 0 else (i * 11) % 17,
            "weight": i,
            "name": None if i % 6 == 1 else ["ada", "Ada", "ad%", "", "bea", "é"][i % 6],
            "score": None if i % 8 == 5 else math.nan if i % 8 == 2 else i / 4 - 3,
            "place": None if i % 9 == 4 else {"x": i % 4, "label": None if i % 5 == 0 else f"p{i % 3}"},
        }
        for i in range(30)
    ],
    SCHEMA,
)


@functools.cache
def sorted_rows(city: str) -> pa.Table:
    rows = ROWS.filter(pc.equal(ROWS["city"], city)).sort_by("value")
    null = pc.is_null(rows["value"])
    return pa.concat_tables([rows.filter(null), rows.filter(pc.invert(null))]).combine_chunks()


class Plan(hr.ExecutionPlan):
    """One city a partition, sorted by value. Each step of ``execute`` is a method, for others to get wrong."""

    def __init__(self, request: hr.ScanRequest) -> None:
        self.request = request
        self.schema = pa.schema([SCHEMA.field(name) for name in request.projection])
        self.partitioning: hr.Partitioning = hr.KeyPartitioning("city", CITIES)
        self.ordering: Sequence[hr.SortKey] = [hr.SortKey("value")]

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        rows = self.projected(self.limited(self.matching(self.rows(partition))))
        yield from rows.to_batches(max_chunksize=2)

    def rows(self, partition: int) -> pa.Table:
        return sorted_rows(CITIES[partition])

    def matching(self, rows: pa.Table) -> pa.Table:
        for expr in self.request.filters:
            if not isinstance(expr, hr.StringMatch):
                rows = rows.filter(self.keep(expr, one_batch(rows)))
        return rows

    def keep(self, expr: hr.Expr, batch: pa.RecordBatch) -> pa.Array:
        return expr.evaluate(batch)

    def limited(self, rows: pa.Table) -> pa.Table:
        return rows if self.request.limit is None else rows.slice(0, self.request.limit)

    def projected(self, rows: pa.Table) -> pa.Table:
        return rows.select(list(self.request.projection))


class HonestTable(hr.TableProvider):
    """EXACT for all but matches of strings (INEXACT, and not used) and what is made of several filters."""

    OwnPlan: type[hr.ExecutionPlan] = Plan

    def schema(self) -> pa.Schema:
        return SCHEMA

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[FilterPushdown]:
        return [self.answer(expr) for expr in filters]

    def answer(self, expr: hr.Expr) -> FilterPushdown:
        if isinstance(expr, hr.StringMatch):
            return FilterPushdown.INEXACT
        return FilterPushdown.UNSUPPORTED if isinstance(expr, (hr.And, hr.Or)) else FilterPushdown.EXACT

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return self.OwnPlan(request)  # type: ignore[call-arg]

    def statistics(self) -> hr.Statistics | None:
        return hr.Statistics(num_rows=30)


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)
