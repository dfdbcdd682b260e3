"""A sharded source that says how it is sharded: GROUP BY and JOIN on the shard key run without a shuffle.

Shows KeyPartitioning: partition i holds exactly the rows whose region is keys[i]. Spark believes it, groups each
shard where it is, and joins shard with shard. It also shows a module beside the script (shard_store.py) being used
in Spark's Python workers.

    python examples/sharded_source.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import shard_store

import headrace as hr


class ShardedTable(hr.TableProvider):
    """One table of the store, a partition per region; ``tell=False`` keeps the sharding to itself."""

    def __init__(self, table: str, *, tell: bool = True) -> None:
        self.table, self.tell = table, tell

    def schema(self) -> pa.Schema:
        return shard_store.SCHEMAS[self.table]

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return ShardPlan(self.table, self.tell)


class ShardPlan(hr.ExecutionPlan):
    def __init__(self, table: str, tell: bool) -> None:
        self.table = table
        self.schema = shard_store.SCHEMAS[table]
        regions = shard_store.REGIONS
        self.partitioning = hr.KeyPartitioning("region", regions) if tell else hr.UnknownPartitioning(len(regions))

    def describe(self) -> str:
        return f"shards of {self.table}"

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        return shard_store.read_shard(self.table, shard_store.REGIONS[partition])


def main(ctx: hr.SessionContext | None = None) -> dict[str, Any]:
    """Run a GROUP BY and a JOIN; returns their rows and the number of shuffles with and without the promise."""
    if ctx is None:
        with hr.SessionContext() as own:
            return main(own)
    ctx.register_table("targets", ShardedTable("targets"), replace=True)
    ctx.register_table("orders", ShardedTable("orders"), replace=True)
    ctx.register_table("silent_orders", ShardedTable("orders", tell=False), replace=True)
    group = "SELECT region, sum(amount) AS amount FROM {} GROUP BY region"
    join = (
        "SELECT o.region, sum(o.amount) / max(t.target) AS reached "
        "FROM orders o JOIN targets t ON o.region = t.region GROUP BY o.region"
    )
    result = {
        "amounts": by_region(ctx, group.format("orders")),
        "reached": by_region(ctx, join),
        "shuffles": {
            "group by, sharding told": shuffles(ctx, group.format("orders")),
            "group by, sharding not told": shuffles(ctx, group.format("silent_orders")),
            "join, sharding told": shuffles(ctx, join),
        },
    }
    for name, value in result.items():
        print(f"{name:<9} {value}")
    print(f"\n{group.format('orders')}\n\n{ctx.explain(group.format('orders'))}\n\nSpark's own plan:")
    ctx.sql(group.format("orders")).explain()
    return result


def by_region(ctx: hr.SessionContext, query: str) -> dict[str, float]:
    return dict(sorted(tuple(row.values()) for row in ctx.collect(query).to_pylist()))


def shuffles(ctx: hr.SessionContext, query: str) -> int:
    """How often "Exchange" stands in the plan that EXPLAIN prints."""
    (plan,) = ctx.sql(f"EXPLAIN {query}").collect()[0]
    return str(plan).count("Exchange")


if __name__ == "__main__":
    main()
