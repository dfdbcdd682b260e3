"""Ready-made tables on a real Spark: aggregates, top-n and runtime filters, adaptive execution on and off."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from versions import has

pytestmark = [  # as most sessions are; tests say which they try without, too
    pytest.mark.daily("adaptive*"),
    pytest.mark.usefixtures("adaptive"),
]

DAYS, PER_DAY = 8, 50


def rows(day: int) -> pa.Table:
    ids = range(day * PER_DAY, (day + 1) * PER_DAY)
    return pa.table({"id": ids, "v": [None if i % 7 == 0 else i % 10 for i in ids], "s": [f"é{i % 13}" for i in ids]})


class Plans:
    """A table that keeps the plans it made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.plans: list[hr.ExecutionPlan] = []  # copies of the table, one for each scan, share it

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        plan: hr.ExecutionPlan = super().scan(request)  # type: ignore[misc]
        self.plans.append(plan)
        return plan


class Mem(Plans, hr.MemTable):
    pass


class Dataset(Plans, hr.DatasetTable):
    pass


class Listing(Plans, hr.ListingTable):
    pass


class ParquetFormat(hr.FileFormat):
    def schema(self, file: hr.DataFile) -> pa.Schema:
        return pq.read_schema(file.path)

    def read(self, file: hr.DataFile, request: hr.ScanRequest) -> Any:
        yield from pq.read_table(file.path, partitioning=None).to_batches()


class Dimension(hr.MemTable):
    """Its filters stay with Spark: where they are, it looks for runtime filters."""

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[hr.Pushdown]:
        return [hr.Pushdown.UNSUPPORTED] * len(filters)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("facts")
    for day in range(DAYS):
        (root / f"day={day}").mkdir()
        pq.write_table(rows(day), root / f"day={day}" / "part.parquet", row_group_size=10)
    return root


@pytest.fixture
def facts(ctx: hr.SessionContext, files: Path) -> dict[str, Plans]:
    every = pa.concat_tables([rows(d).append_column("day", pa.array([d] * PER_DAY, pa.int32())) for d in range(DAYS)])
    tables: dict[str, Any] = {
        "mem": Mem(every, partitions=DAYS),
        "dataset": Dataset(files),
        "listing": Listing(files, ParquetFormat(), partition_columns={"day": pa.int32()}),
    }
    for name, table in tables.items():
        ctx.register_table(name, table)
    ctx.spark.read.parquet(str(files)).createOrReplaceTempView("truth")
    dimension = pa.table({"day": pa.array(range(DAYS), pa.int32()), "week": [d // 2 for d in range(DAYS)]})
    ctx.register_table("days", Dimension(dimension))
    return tables


def same(ctx: hr.SessionContext, query: str, table: str) -> list[dict[str, Any]]:
    found = ctx.collect(query.format(t=table)).to_pylist()
    expected = ctx.collect(query.format(t="truth")).to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, expected))
    return found


AGGREGATES = [
    "SELECT count(*), count(v), min(v), max(v), min(s), max(s), min(id) FROM {t}",
    "SELECT count(*), min(id), max(day) FROM {t} WHERE day >= 6",
    "SELECT count(*), count(v), max(s) FROM {t} WHERE id > 123 AND v = 3",
    "SELECT count(*), max(id), min(s) FROM {t} WHERE day = 77",
]


@pytest.mark.daily("adaptive-dataset")
@pytest.mark.parametrize("table", ["mem", "dataset"])
def test_counts_and_extremes_are_not_left_to_spark(ctx: hr.SessionContext, facts: dict[str, Plans], table: str) -> None:
    """Footers tell them where partitions decide the filter; everything else is done with the rows, in Arrow."""
    for query in AGGREGATES:
        same(ctx, query, table)
        by_footers = table == "dataset" and query is not AGGREGATES[2]
        assert ("Aggregate" in type(facts[table].plans[-1]).__name__) is by_footers
        text = ctx.explain(query.format(t=table))
        assert ("PARTIAL: Spark merges" if by_footers else "done in Arrow") in text


@pytest.mark.daily("adaptive-dataset")
@pytest.mark.parametrize("table", ["mem", "dataset"])
def test_what_the_table_does_not_take_is_right_too(ctx: hr.SessionContext, facts: dict[str, Plans], table: str) -> None:
    for query in (
        "SELECT count(DISTINCT v), sum(v), avg(id) FROM {t}",
        "SELECT day, count(*), max(v) FROM {t} GROUP BY day",
        "SELECT count(*) FROM {t} WHERE s RLIKE '1$'",
    ):
        same(ctx, query, table)


STAR = "SELECT count(*), sum(f.id), max(f.s) FROM {t} AS f JOIN days ON f.day = days.day WHERE days.week = 1"
BY_SUBQUERY = "SELECT count(*), sum(id) FROM {t} WHERE day >= (SELECT max(day) - 1 FROM days)"
SEMI = "SELECT count(*), min(id) FROM {t} WHERE day IN (SELECT day FROM days WHERE week = 3)"


@pytest.mark.daily("adaptive-join-dataset", "not adaptive-subquery-mem")
@pytest.mark.parametrize("table", ["mem", "dataset", "listing"])
@pytest.mark.parametrize("query", [STAR, SEMI, BY_SUBQUERY], ids=["join", "semi join", "subquery"])
def test_join_makes_the_table_skip_partitions(
    ctx: hr.SessionContext, facts: dict[str, Plans], table: str, query: str
) -> None:
    same(ctx, query, table)
    if query == BY_SUBQUERY and not has("scalar subqueries"):
        assert facts[table].plans[-1].partitioning.n == DAYS
        return
    first, *_, last = facts[table].plans
    assert (first.partitioning.n, last.partitioning.n) == (DAYS, 2)
    if table != "mem":
        assert f"2 of {DAYS} files" in last.describe()


@pytest.mark.daily("not adaptive-mem-dataset")
@pytest.mark.parametrize("table", ["mem", "dataset"])
@pytest.mark.parametrize("small", ["mem", "dataset"])
def test_small_table_that_filters_exactly_tells_its_keys_too(
    ctx: hr.SessionContext, facts: dict[str, Plans], tmp_path: Path, table: str, small: str
) -> None:
    """Its filter is not with Spark, which looks for one; where Spark can put it back, it is asked to."""
    weeks = pa.table({"day": pa.array(range(DAYS), pa.int32()), "week": [d // 2 for d in range(DAYS)]})
    pq.write_table(weeks, tmp_path / "weeks.parquet")
    exact = Mem(weeks) if small == "mem" else Dataset(tmp_path)
    ctx.register_table("weeks", exact)
    query = "SELECT count(*), sum(f.id) FROM {t} AS f JOIN weeks ON f.day = weeks.day WHERE weeks.week = 1"
    same(ctx, query, table)
    assert "week = 1  EXACT" in ctx.explain(query.format(t=table))
    told = any(plan.partitioning.n == 2 for plan in facts[table].plans)
    assert told is has("filters put back")
    assert ctx.collect("SELECT count(*) AS n FROM weeks WHERE week = 1").to_pylist() == [{"n": 2}]
    assert ctx.collect("SELECT day FROM weeks WHERE week = 3 LIMIT 1").num_rows == 1


NOTHING = "SELECT count(*), sum(f.id) FROM {t} AS f JOIN days ON f.day = days.day WHERE days.week = 77"


@pytest.mark.daily("adaptive-dataset", "not adaptive-listing")
@pytest.mark.parametrize("table", ["mem", "dataset", "listing"])
def test_join_that_leaves_nothing_is_right(ctx: hr.SessionContext, facts: dict[str, Plans], table: str) -> None:
    assert same(ctx, NOTHING, table) == [{"count(1)": 0, "sum(id)": None}]


@pytest.mark.daily("adaptive-dataset")
@pytest.mark.parametrize("table", ["dataset", "listing"])
def test_partitioned_join_is_right_with_runtime_filters(
    ctx: hr.SessionContext, facts: dict[str, Plans], table: str
) -> None:
    """Both sides are partitioned by the join's key; a third table narrows one of them."""
    query = (
        "SELECT a.day, count(*), sum(a.id + b.id) FROM {t} AS a JOIN {t} AS b ON a.day = b.day "
        "JOIN days ON a.day = days.day WHERE days.week = 2 GROUP BY a.day"
    )
    found = same(ctx, query, table)
    assert len(found) == 2
    plan = str(ctx.sql(query.format(t=table))._jdf.queryExecution().executedPlan().toString())
    assert "hashpartitioning" not in plan
    assert any(f"2 of {DAYS} files" in plan.describe() for plan in facts[table].plans)


def tasks_of_largest_stage(ctx: hr.SessionContext, query: str) -> int:
    """Runs the query as a group of jobs of its own."""
    context, group = ctx.spark.sparkContext, uuid.uuid4().hex
    context.setJobGroup(group, query)
    try:
        ctx.sql(query).collect()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return max(stage.numTasks for stage in stages if stage)


@pytest.mark.daily("adaptive-join-dataset", "adaptive-semi join-listing")
@pytest.mark.parametrize("table", ["dataset", "listing"])
@pytest.mark.parametrize("query", [STAR, SEMI], ids=["join", "semi join"])
def test_keys_that_a_join_rules_out_are_no_tasks(
    ctx: hr.SessionContext, facts: dict[str, Plans], table: str, query: str
) -> None:
    assert tasks_of_largest_stage(ctx, query.format(t=table)) == 2
    text = ctx.explain(query.format(t=table))
    assert f"KEY(day; {DAYS} keys), not told: nothing groups by it" in text


@pytest.mark.daily("adaptive-group by")
@pytest.mark.parametrize(
    "grouped",
    [
        "SELECT f.day, count(*), sum(f.id) FROM {t} AS f JOIN days ON f.day = days.day WHERE week = 1 GROUP BY f.day",
        "SELECT d + 0, n FROM (SELECT day AS d, count(*) AS n FROM (SELECT day, id FROM {t}) WHERE day IN "
        "(SELECT day FROM days WHERE week = 1) GROUP BY day)",
        "SELECT id, rank() OVER (PARTITION BY f.day ORDER BY id) FROM {t} AS f JOIN days ON f.day = days.day "
        "WHERE week = 1",
        "SELECT count(DISTINCT f.day) FROM {t} AS f JOIN days ON f.day = days.day WHERE week = 1",
    ],
    ids=["group by", "alias", "window", "distinct"],
)
def test_keys_that_something_needs_are_told(ctx: hr.SessionContext, facts: dict[str, Plans], grouped: str) -> None:
    same(ctx, grouped, "dataset")
    text = ctx.explain(grouped.format(t="dataset"))
    assert "not told" not in text
    assert "used: no shuffle before" in text


def test_footers_are_read_by_one_task_without_a_shuffle(ctx: hr.SessionContext, files: Path, facts: object) -> None:
    ctx.register_table("plain", hr.DatasetTable(files))
    for query in (AGGREGATES[1], "SELECT count(*), min(id), max(day) FROM {t} WHERE day = 77"):
        same(ctx, query, "plain")
        assert "COMPLETE: Spark does not aggregate again" in ctx.explain(query.format(t="plain"))
        plan = str(ctx.sql(query.format(t="plain"))._jdf.queryExecution().executedPlan().toString())
        assert "Exchange" not in plan
        assert "Aggregate" not in plan
    same(ctx, AGGREGATES[2], "plain")
    text = ctx.explain(AGGREGATES[2].format(t="plain"))  # a filter that footers do not decide
    assert "Spark merges what the partitions give" in text
    over = "SELECT n + 1, low FROM (SELECT count(*) AS n, min(id) AS low FROM {t} WHERE day < 3) WHERE n > 1"
    same(ctx, over, "plain")


def test_runtime_filter_is_not_applied_below_a_top_n(ctx: hr.SessionContext, facts: dict[str, Plans]) -> None:
    """The first rows are taken before the join leaves some out."""
    for table in ("mem", "dataset"):
        query = (
            "SELECT count(*) FROM (SELECT * FROM {t} ORDER BY id LIMIT 60) AS f JOIN days ON f.day = days.day "
            "WHERE days.week = 1"
        )
        assert same(ctx, query, table) == [{"count(1)": 0}]


def test_first_rows_of_sorted_files_are_right(ctx: hr.SessionContext, facts: dict[str, Plans], files: Path) -> None:
    by_id = [hr.SortKey("id")]
    ctx.register_table("sorted_dataset", hr.DatasetTable(files, sorted_by=by_id))
    ctx.register_table("sorted_listing", hr.ListingTable(files, ParquetFormat(), sorted_by=by_id))
    ctx.register_table("sorted_table", hr.SortedTable(facts["mem"], by_id))  # type: ignore[arg-type]
    for table in ("sorted_dataset", "sorted_listing", "sorted_table"):
        query = "SELECT id, s FROM {t} ORDER BY id LIMIT 5 OFFSET 3"
        assert ctx.collect(query.format(t=table)).equals(ctx.collect(query.format(t="truth")))
        assert "INEXACT: each" in ctx.explain(query.format(t=table))
