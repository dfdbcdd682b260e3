"""Batch queries of a table that is also a stream: on the thread of a streaming query and on others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from growing import Counter, Numbers, read_available
from versions import spark_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.core

QUERIES = {
    "SELECT * FROM numbers": 10,
    "SELECT n, odd FROM numbers": 10,
    "SELECT * FROM numbers WHERE n >= 6": 4,
    "SELECT square FROM numbers WHERE n >= 6": 4,
    "SELECT odd, count(*) FROM numbers GROUP BY odd": 2,
    "SELECT * FROM numbers LIMIT 3": 3,
    "SELECT n FROM numbers ORDER BY n DESC LIMIT 2": 2,
    "SELECT a.text FROM numbers a JOIN numbers b ON a.n = b.square": 4,
    "SELECT * FROM numbers UNION ALL SELECT * FROM numbers": 20,
    "SELECT * FROM numbers WHERE n IN (SELECT square FROM numbers WHERE n > 1)": 2,
}


class Scanned(Counter):
    """A counter with a batch scan; records what that was asked for."""

    def __init__(self, head: int) -> None:
        super().__init__(head, filters=hr.FilterPushdown.EXACT)
        self.scans: list[hr.ScanRequest] = []

    def statistics(self) -> hr.Statistics:
        """Small: Spark 4.3 filters such a table again, for joins, and so reads the columns of its filters."""
        return hr.Statistics(num_rows=self.head, size_in_bytes=100 * self.head)

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        self.scans.append(request)
        return Numbers(0, self.head, request, self.parts, self.placement)


def test_batch_queries_on_the_thread_of_a_stream_are_answered_as_on_others(
    ctx: hr.SessionContext, tmp_path: Path
) -> None:
    table = Scanned(10)
    ctx.register_table("numbers", table)

    def answers() -> dict[str, tuple[list[str], list[Any]]]:
        found = {}
        for query in QUERIES:
            table.scans.clear()
            rows = sorted(map(str, ctx.spark.sql(query).collect()))
            found[query] = (rows, [(one.projection, one.filters, one.limit) for one in table.scans])
        return found

    seen = []
    read_available(ctx.stream("numbers"), tmp_path, lambda _frame, _batch: seen.append(answers()))
    expected = answers()
    assert {query: len(rows) for query, (rows, _) in expected.items()} == QUERIES
    assert seen == [expected], "the same rows, and the same asked of the provider"


def test_batch_of_a_stream_is_joined_with_a_batch_query_of_its_table(ctx: hr.SessionContext, tmp_path: Path) -> None:
    table = Scanned(10)
    ctx.register_table("numbers", table)
    joined = []

    def sink(frame: DataFrame, _batch: int) -> None:
        others = ctx.spark.table("numbers").where("n > 5").select("n", "odd").withColumnRenamed("odd", "is_odd")
        joined.extend(frame.join(others, "n").collect())

    read_available(ctx.stream("numbers", maxRowsPerTrigger=4), tmp_path, sink)
    assert sorted((row.n, row.square, row.is_odd) for row in joined) == [(n, n * n, n % 2 == 1) for n in range(6, 10)]
    assert table.scans, "the table's own scan was read"


def test_stream_joined_with_a_batch_query_of_its_own_table_reads_both(ctx: hr.SessionContext, tmp_path: Path) -> None:
    table = Scanned(10)
    ctx.register_table("numbers", table)
    frame = ctx.stream("numbers").join(ctx.spark.table("numbers").where("n > 5").select("n"), "n")
    assert read_available(frame, tmp_path).column("n") == [6, 7, 8, 9]
    assert [str(one) for one in table.scans[-1].filters if "5" in str(one)]


@pytest.mark.skipif(spark_version() < (4, 1), reason="SELECT FROM STREAM came with Spark 4.1")
def test_stream_is_selected_from_in_sql(ctx: hr.SessionContext, tmp_path: Path) -> None:
    counter = Counter(10)
    ctx.register_table("numbers", counter)
    frame = ctx.spark.sql(f"SELECT n, square FROM STREAM {ctx.catalog}.numbers WHERE n > 3")
    frame.explain()
    assert read_available(frame, tmp_path).column("square") == [n * n for n in range(4, 10)]
    assert counter.ranges[-1][2].projection == ("n", "square")
