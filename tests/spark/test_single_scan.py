"""A streaming table is scanned once: whatever Spark does with that scan is right, and a second one is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headrace as hr
from pushing import ROWS, filled, rows, settings

COUNT = 100
ADVICE = r"can be scanned once.*(\n.*)*use a TableProvider to scan again"


@pytest.fixture(autouse=True)
def others(ctx: hr.SessionContext) -> Iterator[None]:
    """Tables to be used with the streaming one: small and large, and without Spark knowing how small."""
    spark = ctx.spark
    spark.range(10).createOrReplaceTempView("small")
    spark.range(0, 50_000, numPartitions=4).createOrReplaceTempView("large")
    spark.range(0, 300, numPartitions=3).createOrReplaceTempView("middle")
    yield
    spark.catalog.clearCache()
    for name in ("small", "large", "middle"):
        spark.catalog.dropTempView(name)


def values(result: Any) -> list[Any]:
    """Rows as tuples, single columns as values."""
    if isinstance(result, pa.Table):
        result = [tuple(row.values()) for row in result.to_pylist()]
    return [row[0] if len(row) == 1 else tuple(row) for row in result]


@dataclass
class Query:
    """A query over the streaming table ``t`` (a = 0..99) and what it gives; in order if ``ordered``."""

    sql: str
    expected: list[Any]
    ordered: bool = False
    settings: dict[str, Any] | None = None


PRUNE_BY_BROADCAST = "optimizer__dynamicPartitionPruning__reuseBroadcastOnly"
NO_BROADCAST = {"autoBroadcastJoinThreshold": -1}

QUERIES = {
    "count": Query("SELECT count(*) FROM t", [COUNT]),
    "group by": Query("SELECT s, count(*) FROM t GROUP BY s", [(str(i), 10) for i in range(10)]),
    "distinct": Query("SELECT DISTINCT s FROM t", [str(i) for i in range(10)]),
    "order by": Query("SELECT a FROM t ORDER BY a DESC", list(range(99, -1, -1)), ordered=True),
    "order by after group by": Query(
        "SELECT s, sum(a) FROM t GROUP BY s ORDER BY s DESC", [(str(i), 450 + 10 * i) for i in range(9, -1, -1)], True
    ),
    "order by limit": Query("SELECT a FROM t ORDER BY a LIMIT 5", [0, 1, 2, 3, 4], ordered=True),
    "order by limit offset": Query("SELECT a FROM t ORDER BY a LIMIT 5 OFFSET 90", [90, 91, 92, 93, 94], ordered=True),
    "order by of a large limit": Query(
        "SELECT a FROM t ORDER BY a LIMIT 60", list(range(60)), True, {"execution.topKSortFallbackThreshold": 10}
    ),
    "order by over a union": Query(
        "SELECT a FROM t UNION ALL SELECT id + 100 FROM small ORDER BY 1", list(range(110)), ordered=True
    ),
    "order by over a filter": Query("SELECT a FROM t WHERE s = '3' ORDER BY a", list(range(3, 100, 10)), ordered=True),
    "order by over a broadcast join": Query(
        "SELECT a FROM t JOIN small ON a = id ORDER BY a", list(range(10)), ordered=True
    ),
    "order by over a merge join": Query(
        "SELECT a FROM t JOIN large ON a = id ORDER BY a", list(range(100)), True, NO_BROADCAST
    ),
    "order by over a cross join": Query(
        "SELECT a, id FROM t CROSS JOIN small WHERE id < 2 ORDER BY a, id",
        [(a, i) for a in range(100) for i in (0, 1)],
        True,
    ),
    "order by over a distinct union": Query(
        "SELECT a FROM t UNION SELECT id FROM middle ORDER BY 1", list(range(300)), ordered=True
    ),
    "window": Query(
        "SELECT a FROM (SELECT a, row_number() OVER (PARTITION BY s ORDER BY a DESC) r FROM t) WHERE r = 1",
        list(range(90, 100)),
    ),
    "global window": Query("SELECT sum(x) FROM (SELECT lag(a) OVER (ORDER BY a) x FROM t)", [4851]),
    "broadcast join": Query("SELECT count(*) FROM t JOIN small ON a = id", [10]),
    "broadcast as the small side": Query("SELECT /*+ BROADCAST(t) */ count(*) FROM large JOIN t ON a = id", [100]),
    "merge join": Query("SELECT count(*) FROM t JOIN large ON a = id", [100], settings=NO_BROADCAST),
    "hash join": Query("SELECT /*+ SHUFFLE_HASH(t) */ count(*) FROM t JOIN large ON a = id", [100]),
    "replicated join": Query("SELECT /*+ SHUFFLE_REPLICATE_NL(t) */ count(*) FROM t JOIN middle ON a = id", [100]),
    "outer join": Query("SELECT count(*), count(a) FROM t FULL OUTER JOIN middle ON a = id", [(300, 100)]),
    "cross join small": Query("SELECT count(*), sum(a) FROM t CROSS JOIN small", [(1000, 49500)]),
    "cross join large": Query("SELECT count(*), sum(a) FROM t CROSS JOIN middle", [(30000, 1485000)]),
    "cross join the other way": Query("SELECT count(*), sum(a) FROM middle CROSS JOIN t", [(30000, 1485000)]),
    "cross join without broadcast": Query(
        "SELECT count(*), sum(a) FROM t CROSS JOIN middle", [(30000, 1485000)], settings=NO_BROADCAST
    ),
    "non-equi join small": Query("SELECT count(*) FROM t JOIN small ON a < id", [45]),
    "non-equi join without broadcast": Query(
        "SELECT count(*) FROM t JOIN middle ON a > id", [4950], settings=NO_BROADCAST
    ),
    "non-equi outer join": Query("SELECT count(*) FROM t LEFT JOIN middle ON a > id AND id < 3", [297 - 3 + 1]),
    "union": Query("SELECT a FROM t WHERE a < 2 UNION ALL SELECT id FROM small", [0, 0, 1, 1, *range(2, 10)]),
    "except": Query("SELECT a FROM t EXCEPT SELECT id FROM small", list(range(10, 100))),
    "intersect": Query("SELECT a FROM t INTERSECT SELECT id FROM small", list(range(10))),
    "in a subquery of": Query("SELECT a FROM t WHERE a IN (SELECT id FROM small)", list(range(10))),
    "in the subquery": Query("SELECT id FROM small WHERE id NOT IN (SELECT a + 5 FROM t)", [0, 1, 2, 3, 4]),
    "exists": Query("SELECT count(*) FROM middle WHERE EXISTS (SELECT 1 FROM t WHERE a = id)", [100]),
    "scalar subquery": Query("SELECT id FROM middle WHERE id = (SELECT max(a) FROM t)", [99]),
    "scalar subquery pushed to both sides": Query(
        "SELECT count(*) FROM middle m JOIN large l ON m.id = l.id WHERE m.id > (SELECT max(a) FROM t)", [200]
    ),
    "lateral": Query("SELECT count(*) FROM t LATERAL VIEW explode(array(a, a)) AS e", [200]),
    "tablesample": Query("SELECT count(*) FROM t TABLESAMPLE (100 PERCENT)", [COUNT]),
    "rollup": Query("SELECT count(*) FROM (SELECT s, count(*) FROM t GROUP BY ROLLUP (s))", [11]),
    "two distinct counts": Query("SELECT count(DISTINCT s), count(DISTINCT a) FROM t", [(10, 100)]),
    "pivot": Query("SELECT * FROM (SELECT s FROM t) PIVOT (count(*) FOR s IN ('0', '1'))", [(10, 10)]),
    "a CTE once": Query("WITH c AS (SELECT a FROM t) SELECT count(*) FROM c", [COUNT]),
}


WAYS = [(1, True), (3, False), (1, False), (3, True)]
SCANNED_TWICE_BY_SPARK = (  # if nothing were done about it
    "order by",
    "order by over a union",
    "order by over a merge join",
    "replicated join",
    "cross join without broadcast",
)
EACH_IN_ONE_WAY = [(name, *WAYS[i % 4]) for i, name in enumerate(QUERIES)]
IN_EVERY_WAY = [(name, *way) for name in SCANNED_TWICE_BY_SPARK for way in WAYS]


@pytest.mark.daily(
    "order by-3-fixed",
    "order by over a merge join-3-fixed",
    "replicated join-3-fixed",
    "count-1-adaptive",
    "broadcast join-1-adaptive",
)
@pytest.mark.parametrize(
    ("name", "partitions", "adaptive"),
    sorted({*EACH_IN_ONE_WAY, *IN_EVERY_WAY}),
    ids=lambda value: {True: "adaptive", False: "fixed"}[value] if isinstance(value, bool) else str(value),
)
def test_query_over_a_streaming_table_is_right_with_one_scan(
    ctx: hr.SessionContext, name: str, partitions: int, adaptive: bool
) -> None:
    query = QUERIES[name]
    sink = filled(ctx, "t", COUNT, partitions=partitions)
    with settings(ctx.spark, adaptive__enabled=adaptive, **(query.settings or {})):
        result = values(ctx.collect(query.sql))
    assert (result if query.ordered else sorted(result)) == query.expected
    assert sink.stats.rows_delivered == COUNT


def test_join_of_two_streaming_tables_scans_each_once(ctx: hr.SessionContext) -> None:
    sinks = [filled(ctx, "t", 100), filled(ctx, "u", 50, partitions=2)]
    assert values(ctx.collect("SELECT t.a FROM t JOIN u ON t.a = u.a ORDER BY t.a")) == list(range(50))
    assert [sink.stats.state for sink in sinks] == ["finished", "finished"]


def test_tables_of_the_same_name_in_two_contexts_are_two_tables(ctx: hr.SessionContext) -> None:
    with hr.SessionContext(ctx.spark) as other:
        filled(ctx, "t", 20)
        mine = ctx.table("t")
        ctx.spark.catalog.dropTempView("t")
        filled(other, "t", 10)
        assert mine.join(other.table("t"), "a").count() == 10


@pytest.mark.daily("broadcast")
@pytest.mark.parametrize(
    ("hint", "pruning"),
    [
        ("/*+ BROADCAST(t) */", {}),
        # As if the streaming table were known to be tiny, so that running it beforehand would pay.
        (
            "",
            {"optimizer__dynamicPartitionPruning__reuseBroadcastOnly": False, "defaultSizeInBytes": 1, **NO_BROADCAST},
        ),
    ],
    ids=["broadcast", "run beforehand"],
)
def test_join_that_prunes_partitions_is_right_with_one_scan(
    ctx: hr.SessionContext, tmp_path: Path, hint: str, pruning: dict[str, Any]
) -> None:
    ctx.spark.range(20_000).withColumn("p", F.col("id") % 5).write.partitionBy("p").parquet(str(tmp_path / "fact"))
    ctx.spark.read.parquet(str(tmp_path / "fact")).createOrReplaceTempView("fact")
    sink = filled(ctx, "t", COUNT)
    with settings(ctx.spark, **pruning):
        assert values(ctx.collect(f"SELECT {hint} count(*) FROM fact JOIN t ON p = a WHERE s = '3'")) == [4000]
    assert sink.stats.state == "finished"


def by_range(t: DataFrame) -> Any:
    return sorted(values(t.repartitionByRange(3, "a").select("a").collect()))


def coalesced_and_sorted(t: DataFrame) -> Any:
    return values(t.coalesce(2).orderBy("a").select("a").collect())


def local_iterator(t: DataFrame) -> Any:
    return sorted(row.a for row in t.toLocalIterator())


def prefetching_local_iterator(t: DataFrame) -> Any:
    return sorted(row.a for row in t.toLocalIterator(prefetchPartitions=True))


def mapped(t: DataFrame) -> Any:
    return values(t.mapInArrow(lambda batches: batches, t.schema).orderBy("a").select("a").collect())


ACTIONS: dict[str, Callable[[DataFrame], Any]] = {
    "toPandas": lambda t: sorted(t.toPandas().a),
    "toArrow": lambda t: sorted(t.toArrow()["a"].to_pylist()),
    "toLocalIterator": local_iterator,
    "prefetching toLocalIterator": prefetching_local_iterator,
    "rdd": lambda t: sorted(t.rdd.map(lambda row: row.a).collect()),
    "repartitionByRange": by_range,
    "coalesce and sort": coalesced_and_sorted,
    "sort within partitions": lambda t: sorted(values(t.sortWithinPartitions("a").select("a").collect())),
    "mapInArrow": mapped,
    "collect": lambda t: sorted(row.a for row in t.collect()),
    "tail": lambda t: sorted(row.a for row in t.tail(1000)),
}


@pytest.mark.daily(every=6)
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_action_on_a_streaming_table_gets_everything_once(
    ctx: hr.SessionContext, action: Callable[[DataFrame], Any], partitions: int
) -> None:
    sink = filled(ctx, "t", COUNT, partitions=partitions)
    assert action(ctx.table("t")) == list(range(COUNT))
    assert sink.stats.state == "finished"


def test_show_reads_the_table_once(ctx: hr.SessionContext, capfd: pytest.CaptureFixture[str]) -> None:
    filled(ctx, "t", 3)
    ctx.table("t").show()
    assert "|  2|  2|" in capfd.readouterr().out


def test_cached_table_can_be_used_many_times(ctx: hr.SessionContext) -> None:
    sink = filled(ctx, "t", COUNT, partitions=3)
    ctx.table("t").cache().count()
    assert sink.stats.state == "finished"
    assert values(ctx.collect("SELECT count(*) FROM t x JOIN t y ON x.a = y.a")) == [COUNT]
    assert values(ctx.collect("SELECT a FROM t ORDER BY a LIMIT 2")) == [0, 1]
    assert ctx.table("t").count() == COUNT


def test_cached_sort_is_computed_with_one_scan(ctx: hr.SessionContext) -> None:
    filled(ctx, "t", COUNT)
    frame = ctx.sql("SELECT a FROM t ORDER BY a").cache()
    assert [row.a for row in frame.collect()] == list(range(COUNT))
    assert frame.count() == COUNT


@pytest.mark.parametrize("partitions", [1, 3])
def test_written_parquet_has_every_row_in_order(ctx: hr.SessionContext, tmp_path: Path, partitions: int) -> None:
    filled(ctx, "t", COUNT, partitions=partitions)
    ctx.sql("SELECT * FROM t ORDER BY a").write.parquet(str(tmp_path / "out"))
    assert values(ctx.spark.read.parquet(str(tmp_path / "out")).select("a").collect()) == list(range(COUNT))


def test_create_table_as_select_reads_the_table_once(ctx: hr.SessionContext, tmp_path: Path) -> None:
    sink = filled(ctx, "t", COUNT)
    ctx.sql(f"CREATE TABLE made USING parquet LOCATION '{tmp_path}/made' AS SELECT * FROM t ORDER BY a")
    try:
        assert ctx.spark.table("made").count() == COUNT
    finally:
        ctx.sql("DROP TABLE made")
    assert sink.stats.state == "finished"


def test_view_over_a_streaming_table_used_once_reads_it_once(ctx: hr.SessionContext) -> None:
    filled(ctx, "t", COUNT)
    ctx.sql("CREATE OR REPLACE TEMP VIEW evens AS SELECT * FROM t WHERE a % 2 = 0")
    assert values(ctx.collect("SELECT count(*) FROM evens")) == [50]


# Refusals

TWICE = {
    "self-join": "SELECT count(*) FROM t x JOIN t y ON x.a = y.a",
    "self-join of different columns": "SELECT count(*) FROM (SELECT a FROM t) x JOIN (SELECT s FROM t) y ON x.a = y.s",
    "self-union": "SELECT a FROM t UNION ALL SELECT a FROM t",
    "CTE used twice": "WITH c AS (SELECT * FROM t) SELECT count(*) FROM c x JOIN c y ON x.a = y.a",
    "view used twice": "SELECT count(*) FROM evens x JOIN evens y ON x.a = y.a",
    "view and table": "SELECT count(*) FROM evens JOIN t USING (a)",
    "scalar subquery and main": "SELECT count(*) FROM t WHERE a = (SELECT max(a) FROM t)",
    "two scalar subqueries": "SELECT (SELECT min(a) FROM t), (SELECT max(a) FROM t)",
    "in-subquery and main": "SELECT count(*) FROM t WHERE a IN (SELECT a + 1 FROM t)",
    "subquery of a subquery": "SELECT * FROM small WHERE id > (SELECT min(a) FROM t WHERE a > (SELECT min(a) FROM t))",
    "sort of a self-union": "SELECT a FROM t UNION ALL SELECT a FROM t ORDER BY 1",
}


@pytest.mark.daily(every=3)
@pytest.mark.parametrize("sql", TWICE.values(), ids=TWICE)
def test_query_that_scans_twice_is_refused_before_a_row_is_read(ctx: hr.SessionContext, sql: str) -> None:
    sink = filled(ctx, "t", COUNT)
    ctx.sql("CREATE OR REPLACE TEMP VIEW evens AS SELECT * FROM t WHERE a % 2 = 0")
    with pytest.raises(hr.StreamConsumedError, match=ADVICE):
        ctx.collect(sql)
    with pytest.raises(hr.StreamConsumedError, match=ADVICE), ctx.execute_stream(sql) as stream:
        next(stream)
    with pytest.raises(Exception, match=f"StreamConsumedError: .*{ADVICE}") as caught:
        ctx.sql(sql).collect()
    assert not isinstance(caught.value, hr.HeadraceError)
    assert sink.stats.rows_delivered == 0
    assert values(ctx.collect("SELECT count(*) FROM t")) == [COUNT]


def test_second_query_is_refused_with_advice(ctx: hr.SessionContext) -> None:
    filled(ctx, "t", COUNT, partitions=3)
    frame = ctx.table("t")
    assert frame.count() == COUNT
    for again in (frame, ctx.table("t"), "SELECT a FROM t ORDER BY a"):
        with pytest.raises(hr.StreamConsumedError, match=ADVICE):
            ctx.collect(again)
    with pytest.raises(Exception, match=f"StreamConsumedError: .*{ADVICE}"):
        frame.count()


def test_second_query_while_the_first_runs_is_refused_and_the_first_goes_on(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS)
    with ctx.execute_stream("SELECT a FROM t") as first:
        sink.write(rows(1))
        assert next(first).to_pydict() == {"a": [1]}
        with pytest.raises(hr.StreamConsumedError, match=ADVICE):
            ctx.collect("SELECT a FROM t")
        sink.write(rows(2))
        sink.close()
        assert pa.Table.from_batches(first, first.schema).to_pydict() == {"a": [2]}


def test_planning_and_explaining_are_no_scan(ctx: hr.SessionContext, capfd: pytest.CaptureFixture[str]) -> None:
    sink = filled(ctx, "t", COUNT)
    frame = ctx.sql("SELECT a FROM t WHERE a > 1 ORDER BY a")
    frame.explain(extended=True)
    frame.explain(mode="formatted")
    frame.printSchema()
    assert "streaming" in ctx.explain(frame)
    ctx.sql("EXPLAIN SELECT * FROM t").collect()
    ctx.sql("DESCRIBE t").collect()
    assert frame.columns == ["a"]
    assert sink.stats.rows_delivered == 0
    assert len(frame.collect()) == 98
    capfd.readouterr()


def test_limit_zero_leaves_the_table_unread(ctx: hr.SessionContext, spark: SparkSession) -> None:
    filled(ctx, "t", COUNT)
    assert ctx.collect("SELECT a FROM t LIMIT 0").num_rows == 0
    assert values(ctx.collect("SELECT count(*) FROM t")) == [COUNT]
