"""A source that can do more than yield rows: it knows counts, finds the newest rows, and skips days for a join.

python examples/daily_store.py
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pyarrow as pa

import headrace as hr

SCHEMA = pa.schema([("day", pa.int32()), ("amount", pa.int64())])
DAYS, ROWS_A_DAY = 100, 1_000


class Sales(hr.TableProvider):
    """One partition a day. What a scan will open is in its plan: several scans may be planned at the same time."""

    def schema(self) -> pa.Schema:
        return SCHEMA

    def supports_aggregate_pushdown(self, aggregation: hr.Aggregation) -> hr.AggregatePushdown:
        """``count(*)``, also by day: the store's index has it."""
        counts = all(function.name == "count" and function.operand is None for function in aggregation.functions)
        by_day = aggregation.group_by in ((), (hr.Column("day"),))
        return hr.AggregatePushdown.COMPLETE if counts and by_day else hr.AggregatePushdown.UNSUPPORTED

    def supports_top_n_pushdown(self, order: Sequence[hr.SortKey], limit: int) -> hr.Pushdown:
        """The newest rows: those of the last days. INEXACT, so Spark picks the rows."""
        newest = hr.SortKey("day", descending=True, nulls_first=False)
        return hr.Pushdown.INEXACT if tuple(order[:1]) == (newest,) else hr.Pushdown.UNSUPPORTED

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        days: Sequence[int] = range(DAYS)
        wanted = hr.guarantees(request.runtime_filters).get("day")
        if wanted is not None:  # what a join's other side has
            days = [day for day in days if wanted.allows(day)]
        if request.order and request.limit is not None:
            days = days[-max(1, math.ceil(request.limit / ROWS_A_DAY)) :]
        if request.aggregation is not None:
            return SalesCounts(request)
        return SalesPlan(tuple(days))


class SalesPlan(hr.ExecutionPlan):
    """The rows of some days."""

    schema = SCHEMA
    runtime_filter_columns = ("day",)

    def __init__(self, days: tuple[int, ...]) -> None:
        self.days = days
        self.partitioning = hr.UnknownPartitioning(len(days))

    def describe(self) -> str:
        return "all days" if len(self.days) == DAYS else f"days {', '.join(map(str, self.days))}"

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        day = self.days[partition]
        yield pa.record_batch([[day] * ROWS_A_DAY, range(day, day + ROWS_A_DAY)], schema=SCHEMA)


class SalesCounts(hr.ExecutionPlan):
    """What the index has: no row is touched."""

    def __init__(self, request: hr.ScanRequest) -> None:
        assert request.aggregation is not None
        self.schema = request.schema
        self.by_day = bool(request.aggregation.group_by)
        self.counts = len(request.aggregation.functions)

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        counts = [[ROWS_A_DAY] * DAYS if self.by_day else [DAYS * ROWS_A_DAY]] * self.counts
        yield pa.record_batch([list(range(DAYS)), *counts] if self.by_day else counts, schema=self.schema)


def main(ctx: hr.SessionContext | None = None) -> dict[str, object]:
    """Count, take the newest rows, and join; returns the answers and what EXPLAIN says of the days opened for them."""
    if ctx is None:
        with hr.SessionContext() as own:
            return main(own)
    ctx.register_table("sales", Sales())
    kinds = ["workday" if day % 50 else "holiday" for day in range(DAYS)]
    days = pa.table({"day": pa.array(range(DAYS), pa.int32()), "kind": kinds})
    ctx.register_table("days", days)

    counted = ctx.collect("SELECT count(*) AS n FROM sales").to_pylist()
    newest = ctx.sql("SELECT day, amount FROM sales ORDER BY day DESC, amount LIMIT 2")
    joined = ctx.sql("SELECT sum(amount) AS total FROM sales JOIN days ON sales.day = days.day WHERE kind = 'holiday'")
    total = ctx.collect(joined).to_pylist()  # first: EXPLAIN tells what the join has learnt once it has run
    print(ctx.explain("SELECT day, count(*) FROM sales GROUP BY day"))
    answers = {
        "counted": counted,
        "newest": ctx.collect(newest).to_pylist(),
        "scan of the newest": ctx.explain(newest).splitlines()[0],
        "total of holidays": total,
        "scan of the join": ctx.explain(joined).splitlines()[0],
    }
    for name, value in answers.items():
        print(f"{name}: {value}")
    return answers


if __name__ == "__main__":
    main()
