"""What EXPLAIN and ctx.explain say of a scan, and that they say why something was not used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace as hr
from recording import Batches, Recorder, exact, inexact, table_of
from session_settings import session_settings
from versions import has

DATA = pa.table({"a": [0, 0, 1, 1], "n": [1, 2, 3, 4], "s": ["w", "x", "y", "z"]})
STATED: dict[str, Any] = {
    "partitioning": hr.KeyPartitioning("a", [0, 1]),
    "ordering": (hr.SortKey("a"), hr.SortKey("n", descending=True, nulls_first=False)),
}


@pytest.fixture
def stated(ctx: hr.SessionContext) -> hr.SessionContext:
    ctx.register_table("t", table_of(DATA, 2, **STATED))
    return ctx


@pytest.fixture
def no_broadcast(spark: SparkSession) -> Iterator[None]:
    with session_settings(spark, {"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        yield


def lines(text: str) -> dict[str, str]:
    """One block's lines by their label; further lines of a label are joined by newlines."""
    found: dict[str, str] = {}
    label = ""
    for line in text.splitlines()[1:]:
        label = line[2:16].strip() or label
        found[label] = f"{found[label]}\n{line[16:]}" if label in found else line[16:]
    return found


def test_explain_of_spark_shows_everything_on_the_scan_node(ctx: hr.SessionContext) -> None:
    answers = {"n > 1": hr.FilterPushdown.EXACT, "n < 9": hr.FilterPushdown.INEXACT}
    provider = table_of(DATA, 2, answer=lambda e: answers.get(repr(e), hr.FilterPushdown.UNSUPPORTED), **STATED)
    ctx.register_table("t", provider)
    query = "SELECT a, n FROM t WHERE n > 1 AND n < 9 AND s = 'x'"
    for statement in ("EXPLAIN", "EXPLAIN FORMATTED", "EXPLAIN EXTENDED"):
        text = ctx.sql(f"{statement} {query}").collect()[0][0]
        for part in (
            "Recorder(Batches)",
            "placement=EXECUTORS",
            "partitions=2",
            "columns=[a, n, s]",
            "n > 1: EXACT",
            "n < 9: INEXACT, HEADRACE",
            "s = 'x': HEADRACE",
            "partitioning=KEY(a; 2 keys)",
            "ordering=[a ASC NULLS FIRST, n DESC NULLS LAST]",
        ):
            assert part in text, (statement, part)
    assert "limit=2" in ctx.sql("EXPLAIN SELECT a FROM t LIMIT 2").collect()[0][0]


def test_explain_of_dataframe_prints_the_scan(stated: hr.SessionContext, capsys: pytest.CaptureFixture[str]) -> None:
    stated.table("t").explain()
    assert "Recorder(Batches) placement=EXECUTORS partitions=2 columns=[a, n, s]" in capsys.readouterr().out


def test_explain_block_says_what_was_negotiated(ctx: hr.SessionContext) -> None:
    provider = table_of(DATA, 2, answer=exact, placement=hr.Placement.DRIVER)
    provider.table_statistics = hr.Statistics(num_rows=4_000)
    ctx.register_table("t", provider)
    text = ctx.explain("SELECT n FROM t WHERE a = 1 LIMIT 3")
    assert text.splitlines()[0] == "scan 1: t (Recorder: Batches)"
    assert lines(text) == {
        "runs in": "this process (DRIVER)",
        "partitions": "2",
        "columns": "n  [1 of 3]",
        "filters": "a IS NOT NULL  EXACT: Spark does not filter again\na = 1  EXACT: Spark does not filter again",
        "limit": "3 rows are enough",
        "partitioning": "none stated",
        "ordering": "none stated",
        "statistics": "3 rows, 48 bytes",
    }


def test_explain_of_one_row_has_no_plural(ctx: hr.SessionContext) -> None:
    ctx.register_table("one", hr.MemTable({"n": [1]}))
    found = lines(ctx.explain("SELECT n FROM one LIMIT 1"))
    assert found["limit"] == "1 row is enough"
    assert found["statistics"].startswith("1 row, ")
    assert "(MemTable: 1 row in memory)" in ctx.explain("SELECT n FROM one")
    assert "offset        the first row" in ctx.explain("SELECT n FROM one OFFSET 1")


@pytest.mark.usefixtures("provider_alone")
def test_explain_count_star_names_the_column_by_which_rows_are_counted(stated: hr.SessionContext) -> None:
    found = lines(stated.explain("SELECT count(*) FROM t"))
    assert found["columns"] == "a (rows are only counted)  [1 of 3]"
    assert found["partitioning"] == "KEY(a; 2 keys), not used: the query does not read the partitioning column 'a'"
    assert found["ordering"] == "a ASC NULLS FIRST, not used: the query does not read 'a'"
    assert found["statistics"] == "unknown: Spark assumes a large table"


@pytest.mark.usefixtures("provider_alone")
def test_explain_filters_say_what_was_not_used_and_what_spark_does(ctx: hr.SessionContext) -> None:
    ctx.register_table("u", table_of(DATA))
    ctx.register_table("i", table_of(DATA, answer=inexact))
    found = lines(ctx.explain("SELECT n FROM u WHERE n > 1 AND s RLIKE 'x' LIMIT 2"))
    assert "n > 1  UNSUPPORTED: the provider does not use it; Spark filters" in found["filters"]
    left = found["left to Spark"].split(" AND ")
    assert sorted(left) == ["(u.n > 1L)", "(u.n IS NOT NULL)", "(u.s IS NOT NULL)", "RLIKE(u.s, 'x')"]
    assert found["limit"].startswith("not pushed: Spark still filters above the scan (")
    assert "RLIKE" in found["limit"]
    found = lines(ctx.explain("SELECT n FROM i WHERE n > 1"))
    assert "n > 1  INEXACT: used to skip data; Spark filters again" in found["filters"]
    assert found["limit"] == "none in the query"
    far = lines(ctx.explain("SELECT n FROM u WHERE CAST(s AS date) < DATE '+12000-01-01'"))
    assert "has no form here)  UNSUPPORTED: Spark filters" in far["filters"]


@pytest.mark.parametrize(
    ("condition", "offered", "reason"),
    [
        ("st.x > 1", "st.x > 1  EXACT", None),
        ("m['k'] = 1", None, "(v.m['k'] = 1L): of nested values Spark offers fields of structs, not what is inside of"),
        ("arr[0].y = 1", None, "(v.arr[0].`y` = 1L): of nested values Spark offers fields of structs, not what is"),
        ("st.s RLIKE 'x'", "st.s IS NOT NULL  EXACT", "RLIKE(v.st.`s`, 'x'): Spark has no form of it for sources"),
        (f"st.x NOT IN ({', '.join(map(str, range(300)))})", "and 280 more)  EXACT", None),
    ],
    ids=["struct", "map", "array", "rlike", "long list"],
)
def test_explain_says_which_filters_spark_does_not_offer_and_why(
    ctx: hr.SessionContext, condition: str, offered: str | None, reason: str | None
) -> None:
    maps = pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))
    nested = pa.table({"n": [1], "st": [{"x": 1, "s": "a"}], "arr": [[{"y": 1}]], "m": maps})
    ctx.register_table("v", table_of(nested, answer=exact))
    found = lines(ctx.explain(f"SELECT n FROM v WHERE {condition}"))
    assert offered is None or offered in found["filters"]
    assert ("not offered" in found) is (reason is not None)
    assert reason is None or found["not offered"].startswith(reason)


@pytest.mark.usefixtures("provider_alone")
def test_explain_long_condition_of_sparks_is_cut(ctx: hr.SessionContext) -> None:
    ctx.register_table("u", table_of(DATA))
    text = ctx.explain(f"SELECT n FROM u WHERE n NOT IN ({', '.join(map(str, range(3000)))})")
    assert "n NOT IN (" in text
    assert "left to Spark" in text
    assert "characters)" in text
    assert len(text) < 3000


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT n FROM t ORDER BY n LIMIT 1", "the query orders first"),
        ("SELECT s, count(*) FROM t GROUP BY s LIMIT 1", "HashAggregate"),
        ("SELECT t.n FROM t JOIN t u ON t.n = u.n LIMIT 1", "Join"),
    ],
)
def test_explain_limit_not_pushed_names_what_stands_between(stated: hr.SessionContext, query: str, reason: str) -> None:
    found = lines(stated.explain(query).split("\n\n")[0])
    assert found["limit"].startswith("not pushed: ")
    assert reason in found["limit"]


GROUPS = "Sort" if has("sort aggregate") else "Hash"
USED_TO_GROUP = f"used: no shuffle before {GROUPS}Aggregate"
USED_SORTED = "used: no sort before SortAggregate"


@pytest.mark.daily(every=2)
@pytest.mark.usefixtures("no_broadcast")
@pytest.mark.parametrize(
    ("query", "partitioning", "ordering"),
    [
        (
            "SELECT a, count(*) FROM t GROUP BY a",
            USED_TO_GROUP,
            USED_SORTED if has("sort aggregate") else "not needed: nothing in the query sorts",
        ),
        (
            "SELECT a, count(*) c FROM t GROUP BY a ORDER BY c",
            USED_TO_GROUP,
            USED_SORTED if has("sort aggregate") else "not used: a shuffle comes first",
        ),
        (
            "SELECT s, bit_xor(a) FROM t GROUP BY s",
            "not used: Spark shuffles by hashpartitioning(s",
            "not used: a shuffle comes first",
        ),
        (
            "SELECT bit_xor(a), bit_xor(n) FROM t",
            "not needed: Spark brings all rows into one partition",
            "not used: a shuffle comes first",
        ),
        (
            "SELECT s, count(a) FROM t GROUP BY s",
            "not used: the partitioning column 'a' is none of the groups",
            "not used: 'a' is none of the groups",
        ),
        (
            "SELECT a, n FROM t",
            "not needed: nothing in the query groups or joins",
            "not needed: nothing in the query sorts",
        ),
        (
            "SELECT t.n FROM t JOIN t u ON t.a = u.a",
            "used: no shuffle before SortMergeJoin",
            "used: no sort before SortMergeJoin",
        ),
        (
            "SELECT a, n, rank() OVER (PARTITION BY a ORDER BY n DESC) FROM t",
            "used: no shuffle before Window",
            "used: no sort before Window",
        ),
        (
            "SELECT a, n, rank() OVER (PARTITION BY a ORDER BY n) FROM t",
            "used: no shuffle before Window",
            "not used: Spark sorts by a ASC NULLS FIRST, n ASC NULLS FIRST",
        ),
        (
            "SELECT /*+ BROADCAST(t) */ t.n FROM t JOIN t u ON t.a = u.a",
            "not needed: the rows are broadcast",
            "a broadcast comes first",
        ),
    ],
)
def test_explain_partitioning_and_ordering_say_whether_they_were_used(
    stated: hr.SessionContext, query: str, partitioning: str, ordering: str
) -> None:
    found = lines(stated.explain(query).split("\n\n")[0])
    assert partitioning in found["partitioning"]
    assert ordering in found["ordering"]
    assert "#" not in found["partitioning"]


def test_explain_setting_that_forbids_the_partitioning_is_named(stated: hr.SessionContext) -> None:
    with session_settings(stated.spark, {"spark.sql.sources.v2.bucketing.enabled": "false"}):
        text = stated.explain("SELECT a, count(*) FROM t GROUP BY a")
    assert "not used: spark.sql.sources.v2.bucketing.enabled is off (the default of Spark 4.0)" in text


@pytest.mark.daily(every=3)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT n FROM t WHERE n = (SELECT max(n) FROM u)",
        "SELECT n FROM t WHERE n IN (SELECT n FROM u)",
        "SELECT n FROM t UNION ALL SELECT n FROM u",
        "SELECT n, (SELECT count(*) FROM u) FROM t",
        "WITH c AS (SELECT n FROM u) SELECT t.n FROM t, c WHERE t.n = c.n",
    ],
)
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_explain_finds_every_scan_of_the_query(stated: hr.SessionContext, query: str, adaptive: str) -> None:
    stated.register_table("u", table_of(DATA))
    stated.spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        text = stated.explain(query)
    finally:
        stated.spark.conf.unset("spark.sql.adaptive.enabled")
    assert sorted(block.partition(": ")[2][0] for block in text.split("\n\n")) == ["t", "u"]
    assert [block[:7] for block in text.split("\n\n")] == ["scan 1:", "scan 2:"]


def test_explain_after_the_query_ran_says_the_same(stated: hr.SessionContext) -> None:
    frame = stated.sql("SELECT a, sum(n) FROM t GROUP BY a HAVING sum(n) > (SELECT min(n) FROM t)")
    before = stated.explain(frame)
    frame.collect()
    assert stated.explain(frame) == before
    assert before.count("scan ") == 2


def test_explain_cached_dataframe_says_so(stated: hr.SessionContext) -> None:
    frame = stated.sql("SELECT n FROM t").cache()
    try:
        assert frame.count() == 4
        text = stated.explain(frame.selectExpr("n + 1"))
        assert "runs in       Spark's Python workers, once: the result is cached" in text
        assert text.count("scan ") == 1
    finally:
        frame.unpersist()


def test_explain_reused_exchange_is_told_once(stated: hr.SessionContext) -> None:
    stated.spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        text = stated.explain(
            "WITH c AS (SELECT s, count(*) k FROM t GROUP BY s) SELECT * FROM c x JOIN c y ON x.k = y.k"
        )
    finally:
        stated.spark.conf.unset("spark.sql.adaptive.enabled")
    assert [block.splitlines()[0] for block in text.split("\n\n")] == [
        f"scan {i}: t (Recorder: Batches)" for i in range(1, text.count("\n\n") + 2)
    ]


def test_explain_table_of_another_context_is_shown_as_such(stated: hr.SessionContext) -> None:
    with hr.SessionContext(stated.spark) as other:
        text = other.explain(stated.table("t"))
    assert text.startswith("scan 1: of another session context\n  Recorder(Batches) placement=EXECUTORS")


def test_explain_without_a_headrace_table_says_so(ctx: hr.SessionContext) -> None:
    assert ctx.explain("SELECT 1") == "no Headrace table is scanned by this query"


def test_explain_description_of_several_lines_becomes_one(ctx: hr.SessionContext) -> None:
    class Wordy(Recorder):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            return Batches(self.table_schema, self.partitions, text="two\n  files, \t one shard")

    ctx.register_table("t", Wordy(DATA.schema, [[]]))
    assert ctx.explain("SELECT n FROM t").startswith("scan 1: t (Wordy: two files, one shard)\n")


def test_explain_provider_that_raises_is_a_provider_error(ctx: hr.SessionContext) -> None:
    class Broken(Recorder):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            raise LookupError("no such shard")

    ctx.register_table("t", Broken(DATA.schema, [[]]))
    with pytest.raises(hr.ProviderError, match="no such shard"):
        ctx.explain("SELECT n FROM t")
