"""Stated partitioning and ordering: no Exchange or Sort where they help, and right rows wherever they do not."""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.negotiate.partitioning import hash_keys
from recording import Batches, Recorder, executed_nodes
from session_settings import session_settings
from versions import has

pytestmark = pytest.mark.core

BUCKETING = "spark.sql.sources.v2.bucketing"


@contextmanager
def settings(spark: SparkSession, **values: Any) -> Iterator[None]:
    with session_settings(spark, {f"{BUCKETING}.{name}.enabled": value for name, value in values.items()}):
        yield


@pytest.fixture(autouse=True)
def _no_broadcast(spark: SparkSession) -> Iterator[None]:
    with session_settings(spark, {"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        yield


def keyed(
    schema: pa.Schema,
    columns: tuple[str, ...],
    rows_by_key: list[tuple[tuple[Any, ...], list[dict[str, Any]]]],
    **options: Any,
) -> Recorder:
    """A table with a partition per entry."""
    partitions = [[pa.RecordBatch.from_pylist(rows, schema)] for _, rows in rows_by_key]
    partitioning = hr.KeyPartitioning(columns, [key for key, _ in rows_by_key])
    return Recorder(schema, partitions, partitioning=partitioning, **options)


def exchanges(frame: DataFrame) -> int:
    return sum(name in ("ShuffleExchangeExec", "BroadcastExchangeExec") for name in executed_nodes(frame))


def sorts(frame: DataFrame) -> int:
    return executed_nodes(frame).count("SortExec")


AB = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("n", pa.int64())])
ROWS = [{"a": a, "b": b, "n": n} for n, (a, b) in enumerate(itertools.product(range(5), range(6)))]


def by_a(*, order: list[int] | None = None, **options: Any) -> Recorder:
    keys = [((a,), [row for row in ROWS if row["a"] == a]) for a in order or [3, 0, 4, 1, 2]]
    return keyed(AB, ("a",), keys, **options)


def hashed(columns: tuple[str, ...], n: int, function: str = "python", schema: pa.Schema = AB) -> Recorder:
    parts: list[list[dict[str, Any]]] = [[] for _ in range(n)]
    for row in ROWS:
        parts[hash(tuple(row[column] for column in columns)) % n].append(row)
    batches = [[pa.RecordBatch.from_pylist(rows, schema)] for rows in parts]
    return Recorder(schema, batches, partitioning=hr.HashPartitioning(columns, n, function))


def check(ctx: hr.SessionContext, query: str, tables: dict[str, Recorder], *, shuffles: int | None) -> DataFrame:
    """Run ``query`` over ``tables``, and over the same rows without any promise; compare rows, count exchanges."""
    for name, provider in tables.items():
        ctx.register_table(name, provider, replace=True)
    frame = ctx.sql(query)
    got = Counter(frame.collect())
    with session_settings(ctx.spark, {f"{BUCKETING}.enabled": "false"}):
        assert got == Counter(ctx.sql(query).collect())
    if shuffles is not None:
        assert exchanges(frame) == shuffles, executed_nodes(frame)
    return frame


KEYS: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, None, False],
    pa.int8(): [-128, None, 127],
    pa.int16(): [5, None, -5],
    pa.int32(): [2**31 - 1, None, 0],
    pa.int64(): [-(2**63), None, 2**63 - 1],
    pa.uint64(): [2**64 - 1, None, 0],
    pa.string(): ["", None, "zürich"],
    pa.large_string(): ["b", None, "a"],
    pa.dictionary(pa.int8(), pa.string()): ["b", None, "a"],
    pa.binary(): [b"\x00\xff", None, b""],
    pa.binary(2): [b"xy", None, b"ab"],
    pa.date32(): [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)],
    pa.timestamp("us"): [dt.datetime(1900, 1, 1, 0, 0, 0, 1), None, dt.datetime(2024, 1, 1)],
    pa.timestamp("ns", "Europe/Berlin"): [
        dt.datetime(2024, 7, 1, tzinfo=dt.UTC),
        None,
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    ],
    pa.decimal128(10, 2): [Decimal("1.50"), None, Decimal("-3")],
    pa.decimal128(38, 10): [Decimal("9999999999999999999999999999.9999999999"), None, Decimal("1E-10")],
    pa.duration("us"): [dt.timedelta(days=1, microseconds=1), None, dt.timedelta(0)],
}


@pytest.mark.daily("int64", "dictionary*")
@pytest.mark.parametrize("type_", KEYS, ids=str)
def test_key_partitioning_of_every_type_groups_without_exchange(ctx: hr.SessionContext, type_: pa.DataType) -> None:
    schema = pa.schema([("k", type_), ("n", pa.int64())])
    keys = [((key,), [{"k": key, "n": n} for n in range(i + 1)]) for i, key in enumerate(KEYS[type_])]
    ctx.register_table("t", keyed(schema, ("k",), keys))
    frame = ctx.sql("SELECT k, count(*) AS c FROM t GROUP BY k")
    rows = frame.collect()
    assert [row.c for row in rows if row.k is None] == [2]
    assert sorted(row.c for row in rows) == [1, 2, 3]
    assert exchanges(frame) == 0


@pytest.mark.daily("double")
@pytest.mark.parametrize("type_", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_key_partitioning_of_floats_groups_right(ctx: hr.SessionContext, type_: pa.DataType) -> None:
    schema = pa.schema([("k", type_), ("n", pa.int64())])
    values = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, None]
    rows = [None if value is None else type_.to_pandas_dtype()(value) for value in values]
    ctx.register_table(
        "t", keyed(schema, ("k",), [((v,), [{"k": r, "n": 1}]) for v, r in zip(values, rows, strict=True)])
    )
    got = {repr(row.k): row.c for row in ctx.sql("SELECT k, count(*) AS c FROM t GROUP BY k").collect()}
    assert got == {"nan": 1, "inf": 1, "-inf": 1, "0.0": 2, "None": 1}


def test_key_partitioning_join_group_and_window_have_no_exchange(ctx: hr.SessionContext) -> None:
    query = """
        SELECT x.a, x.n, count(*) OVER (PARTITION BY x.a) AS c, sum(y.n) OVER (PARTITION BY x.a) AS s
        FROM x JOIN y ON x.a = y.a
    """
    check(ctx, query, {"x": by_a(), "y": by_a(order=[0, 1, 2, 3, 4])}, shuffles=0)
    check(ctx, "SELECT a, max(n) FROM x GROUP BY a", {}, shuffles=0)
    check(ctx, "SELECT DISTINCT a FROM x", {}, shuffles=0)
    check(ctx, "SELECT a, b, max(n) FROM x GROUP BY a, b", {}, shuffles=0)


@pytest.mark.daily("FULL JOIN")
@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
def test_key_partitioning_join_with_duplicate_missing_and_null_keys_is_right(ctx: hr.SessionContext, kind: str) -> None:
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64())])

    def table(keys: list[int | None]) -> Recorder:
        return keyed(schema, ("k",), [((key,), [{"k": key, "n": i}]) for i, key in enumerate(keys)])

    columns = "x.k, x.n" if "SEMI" in kind or "ANTI" in kind else "x.k, x.n, y.k AS yk, y.n AS yn"
    query = f"SELECT {columns} FROM x {kind} y ON x.k = y.k"
    first = check(ctx, query, {"x": table([1, 2, None, 1, 3]), "y": table([2, 1, 1, None, 4])}, shuffles=0)
    expected = Counter(first.collect())
    for setting in ("partiallyClusteredDistribution", "shuffle", "partition.filter"):
        with settings(ctx.spark, **{setting: "true"}):
            frame = ctx.sql(query)
            assert Counter(frame.collect()) == expected, setting
            assert exchanges(frame) == 0, setting


def test_key_partitioning_of_several_columns_groups_by_both_and_by_one(ctx: hr.SessionContext) -> None:
    pairs = sorted({(row["a"] // 3, row["b"] // 4) for row in ROWS})
    keys = [(pair, [row | {"a": pair[0], "b": pair[1]} for row in ROWS[:3]]) for pair in pairs]
    tables = {"t": keyed(AB, ("a", "b"), keys), "u": keyed(AB, ("a", "b"), keys[::-1])}
    check(ctx, "SELECT a, b, count(*) FROM t GROUP BY b, a", tables, shuffles=0)
    check(ctx, "SELECT t.n, u.n FROM t JOIN u ON t.a = u.a AND t.b = u.b", {}, shuffles=0)
    check(
        ctx, "SELECT a, count(*), sum(b) FROM t GROUP BY a", {}, shuffles=0
    )  # groups are told by their part of the key
    check(ctx, "SELECT a, bit_xor(n), sum(b) FROM t GROUP BY a", {}, shuffles=1)
    check(ctx, "SELECT t.n, u.n FROM t JOIN u ON t.a = u.b AND t.b = u.a", {}, shuffles=2)
    with settings(ctx.spark, allowKeysSubsetOfPartitionKeys="true"):
        check(ctx, "SELECT a, bit_xor(n), sum(b) FROM t GROUP BY a", {}, shuffles=0 if has("subset of keys") else 1)


def test_hash_partitioning_of_one_column_has_no_exchange(ctx: hr.SessionContext) -> None:
    tables = {"x": hashed(("a",), 4), "y": hashed(("a",), 4)}
    check(ctx, "SELECT a, count(*) FROM x GROUP BY a", tables, shuffles=0)
    check(ctx, "SELECT a, b, count(*) FROM x GROUP BY a, b", {}, shuffles=0)
    check(ctx, "SELECT DISTINCT a FROM x", {}, shuffles=0)
    check(ctx, "SELECT a, n, row_number() OVER (PARTITION BY a ORDER BY n) FROM x", {}, shuffles=0)
    check(ctx, "SELECT x.n, y.n FROM x JOIN y ON x.a = y.a", {}, shuffles=0)
    check(ctx, "SELECT b, count(*) FROM x GROUP BY b", {}, shuffles=1)


def test_partitioning_of_a_union_groups_right(ctx: hr.SessionContext) -> None:
    tables = {
        "k": by_a(),
        "l": by_a(order=[0, 1, 2, 3, 4]),
        "x": hashed(("a",), 4),
        "y": hashed(("a",), 4, "another"),
        "p": hashed(("a", "b"), 4),
        "q": hashed(("a", "b"), 1),
    }
    for left, right in ("kl", "xy", "xk", "pp", "qq", "xx"):
        union = f"SELECT a, b FROM {left} UNION ALL SELECT a, b FROM {right}"
        check(ctx, f"SELECT a, count(*), sum(b) FROM ({union}) GROUP BY a", tables, shuffles=None)
        tables = {}


INTS = pa.schema([("a", pa.int32()), ("b", pa.int64()), ("n", pa.int64())])


@pytest.mark.daily("function")
@pytest.mark.parametrize(
    "other",
    [hashed(("a",), 4, "another"), hashed(("a",), 3), hashed(("a",), 4, schema=INTS), by_a(), hashed(("a", "b"), 4)],
    ids=["function", "n", "type", "keys", "columns"],
)
def test_hash_partitioning_that_differs_is_shuffled_and_right(ctx: hr.SessionContext, other: Recorder) -> None:
    frame = check(
        ctx, "SELECT x.n, y.n FROM x JOIN y ON x.a = y.a", {"x": hashed(("a",), 4), "y": other}, shuffles=None
    )
    assert exchanges(frame) >= 1


@pytest.mark.daily("2")
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_hash_partitioning_of_several_columns_is_right_for_one_of_them(ctx: hr.SessionContext, n: int) -> None:
    reported = 0 if n == 1 or n > 2 else 1
    of_one = 0 if n == 1 and has("subset of keys") else 1
    tables = {"t": hashed(("a", "b"), n), "u": hashed(("a", "b"), n)}
    check(ctx, "SELECT a, b, count(*) FROM t GROUP BY a, b", tables, shuffles=reported)
    check(ctx, "SELECT a, sum(b) FROM t GROUP BY a", {}, shuffles=of_one)
    check(ctx, "SELECT b, sum(a) FROM t GROUP BY b", {}, shuffles=of_one)
    if n == 4:
        check(ctx, "SELECT t.n, u.n FROM t JOIN u ON t.a = u.a AND t.b = u.b", {}, shuffles=0)
        check(ctx, "SELECT t.n, u.n FROM t JOIN u ON t.a = u.b AND t.b = u.a", {}, shuffles=2)
        narrowed = "(SELECT a, b + 1 AS c FROM {0}) {0}"
        join = f"SELECT t.c, u.c FROM {narrowed.format('t')} JOIN {narrowed.format('u')} ON t.a = u.a"
        check(ctx, join, {}, shuffles=2)
        check(ctx, "SELECT c, count(*) OVER (PARTITION BY a) FROM (SELECT a, b + 1 AS c FROM t)", {}, shuffles=1)


@pytest.mark.daily("allowKeysSubsetOfPartitionKeys")
@pytest.mark.parametrize("name", ["allowKeysSubsetOfPartitionKeys", "allowJoinKeysSubsetOfPartitionKeys"])
def test_hash_partitioning_of_several_columns_is_kept_back_where_subsets_are_allowed(
    ctx: hr.SessionContext, name: str
) -> None:
    tables = {"t": hashed(("a", "b"), 4), "x": hashed(("a",), 4), "y": hashed(("a",), 4)}
    with settings(ctx.spark, **{name: "true"}):
        check(ctx, "SELECT a, sum(b) FROM t GROUP BY a", tables, shuffles=1)
        check(ctx, "SELECT a, b, count(*) FROM t GROUP BY a, b", {}, shuffles=1)
        check(ctx, "SELECT x.n, y.n FROM x JOIN y ON x.a = y.a", {}, shuffles=0)
        assert "says nothing of one" in ctx.explain("SELECT a, b, count(*) FROM t GROUP BY a, b")


@pytest.mark.daily("shuffle")
@pytest.mark.parametrize("name", ["shuffle", "allowCompatibleTransforms"])
def test_hash_partitioning_is_kept_back_where_spark_would_compute_it(ctx: hr.SessionContext, name: str) -> None:
    tables = {"x": hashed(("a",), 4), "y": hashed(("a",), 4), "k": by_a(), "plain": Recorder(AB, [[]])}
    with settings(ctx.spark, **{name: "true"}):
        check(ctx, "SELECT x.n, y.n FROM x JOIN y ON x.a = y.a", tables, shuffles=2)
        check(ctx, "SELECT x.n, k.n FROM x JOIN k ON x.a = k.a", {}, shuffles=None)
        check(ctx, "SELECT x.n, id FROM x JOIN range(5) ON x.a = id", {}, shuffles=None)
        assert "cannot compute the provider's hash function" in ctx.explain("SELECT a, n FROM x")


def test_key_partitioning_by_binary_is_kept_back_where_spark_would_shuffle_by_it(ctx: hr.SessionContext) -> None:
    schema = pa.schema([("k", pa.binary()), ("n", pa.int64())])
    keys = [((bytes([i]),), [{"k": bytes([i]), "n": i}]) for i in range(4)]
    plain = Recorder(schema, [[pa.RecordBatch.from_pylist([row for _, rows in keys for row in rows], schema)]])
    tables = {"x": keyed(schema, ("k",), keys), "y": plain}
    with settings(ctx.spark, shuffle="true"):
        frame = check(ctx, "SELECT x.n, y.n FROM x JOIN y ON x.k = y.k", tables, shuffles=2)
    assert frame.count() == 4


@pytest.mark.daily("key-sorting")
@pytest.mark.parametrize("name", ["sorting", "partitionKeyOrdering", "preserveKeyOrderingOnCoalesce"])
@pytest.mark.parametrize("provider", [by_a(), hashed(("a",), 4), hashed(("a", "b"), 4)], ids=["key", "hash", "hash2"])
def test_partitioning_under_ordering_settings_sorts_right(
    ctx: hr.SessionContext, name: str, provider: Recorder
) -> None:
    ctx.register_table("t", provider)
    with settings(ctx.spark, **{name: "true"}):
        for order in ("a, b", "a DESC, b", "b, a"):
            rows = ctx.sql(f"SELECT a, b FROM t ORDER BY {order}").collect()
            reverse = order.startswith("a DESC")
            expected = sorted(
                ((row["a"], row["b"]) for row in ROWS),
                key=lambda r: (r[1], r[0]) if order == "b, a" else (-r[0] if reverse else r[0], r[1]),
            )
            assert [tuple(row) for row in rows] == expected, order
        got = ctx.sql("SELECT a, n, row_number() OVER (PARTITION BY a ORDER BY n) r FROM t").collect()
        assert all(row.r == row.n % 6 + 1 for row in got)


def test_partitioning_column_not_read_is_not_reported(ctx: hr.SessionContext) -> None:
    check(ctx, "SELECT b, count(*) FROM t GROUP BY b", {"t": by_a()}, shuffles=1)
    assert "the query does not read the partitioning column 'a'" in ctx.explain("SELECT b FROM t")


@pytest.mark.parametrize(
    ("key", "type_", "message"),
    [
        ("x", pa.int64(), "partition key 'x' is not a int64"),
        (2**70, pa.int64(), "is not a int64"),
        (300, pa.int8(), "is not a int8"),
        (1001, pa.timestamp("ns"), "is not a timestamp"),
        ([1], pa.list_(pa.int64()), "cannot partition"),
    ],
)
def test_key_partitioning_key_of_another_type_fails_by_name(
    ctx: hr.SessionContext, key: Any, type_: pa.DataType, message: str
) -> None:
    schema = pa.schema([("k", type_)])
    ctx.register_table("t", Recorder(schema, [[]], partitioning=hr.KeyPartitioning("k", [(key,)])))
    with pytest.raises(hr.PlanError, match=message):
        ctx.collect("SELECT k FROM t")


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
@pytest.mark.parametrize("n", range(1, 9))
def test_hash_keys_are_distinct_and_no_fewer_columns_tell_them_apart(n: int, columns: int) -> None:
    keys = hash_keys(n, columns)
    if not keys:
        assert 1 < n <= columns
        return
    assert len({tuple(key) for key in keys}) == len(keys) == n
    if n > 1:
        for kept in itertools.combinations(range(columns), columns - 1):
            assert columns == 1 or len({tuple(key[i] for i in kept) for key in keys}) < n


N_ORDER = (hr.SortKey("a"), hr.SortKey("n"))


def test_ordering_in_keyed_partitions_saves_the_sort(ctx: hr.SessionContext) -> None:
    tables = {"x": by_a(ordering=N_ORDER), "y": by_a(ordering=N_ORDER)}
    window = "SELECT a, n, row_number() OVER (PARTITION BY a ORDER BY n) FROM x"
    assert sorts(check(ctx, window, tables, shuffles=0)) == 0
    join = check(ctx, "SELECT x.n, y.n FROM x JOIN y ON x.a = y.a", {}, shuffles=0)
    assert "SortMergeJoinExec" in executed_nodes(join)
    assert sorts(join) == 0
    assert sorts(check(ctx, "SELECT a, n FROM x SORT BY a, n", {}, shuffles=0)) == 0
    assert sorts(check(ctx, "SELECT a, n FROM x SORT BY n", {}, shuffles=0)) == 1
    assert sorts(check(ctx, "SELECT a, n FROM x SORT BY a, n DESC", {}, shuffles=0)) == 1


@pytest.mark.daily("key3-*")
@pytest.mark.parametrize(
    ("key", "clause"),
    [
        (hr.SortKey("n"), "n"),
        (hr.SortKey("n", descending=True, nulls_first=False), "n DESC"),
        (hr.SortKey("n", nulls_first=False), "n NULLS LAST"),
        (hr.SortKey("n", descending=True), "n DESC NULLS FIRST"),
    ],
)
def test_ordering_direction_and_nulls_are_told_to_spark(ctx: hr.SessionContext, key: hr.SortKey, clause: str) -> None:
    schema = pa.schema([("n", pa.int64())])
    ctx.register_table("t", Recorder(schema, [[], []], ordering=(key,)))
    assert sorts(ctx.sql(f"SELECT n FROM t SORT BY {clause}")) == 0
    other = "n DESC" if clause != "n DESC" else "n"
    assert sorts(ctx.sql(f"SELECT n FROM t SORT BY {other}")) == 1


def test_ordering_ends_at_a_column_that_is_not_read(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", Recorder(AB, [[]], ordering=(hr.SortKey("a"), hr.SortKey("b"), hr.SortKey("n"))))
    assert sorts(ctx.sql("SELECT a FROM t SORT BY a")) == 0
    assert sorts(ctx.sql("SELECT a, n FROM t SORT BY a, n")) == 1
    assert sorts(ctx.sql("SELECT b FROM t SORT BY b")) == 1


@pytest.mark.parametrize("placement", list(hr.Placement))
@pytest.mark.parametrize("setting", [None, "preserveOrderingOnCoalesce"])
def test_ordering_of_partitions_with_the_same_key_is_not_trusted_blindly(
    ctx: hr.SessionContext, placement: hr.Placement, setting: str | None
) -> None:
    split = [((a,), [row for row in ROWS if row["a"] == a and row["n"] % 2 == odd]) for a in (1, 0) for odd in (1, 0)]
    provider = keyed(AB, ("a",), split, ordering=N_ORDER, placement=placement)
    ctx.register_table("t", provider)
    with settings(ctx.spark, **({setting: "true"} if setting else {})):
        frame = ctx.sql("SELECT a, n, row_number() OVER (PARTITION BY a ORDER BY n) AS r FROM t")
        assert sorted((row.a, row.n, row.r) for row in frame.collect()) == [
            (a, n, n % 6 + 1) for a in (0, 1) for n in range(a * 6, a * 6 + 6)
        ]
        assert exchanges(frame) == 0
        assert sorts(frame) == (0 if setting and has("ordering on coalesce") else 1)


def test_key_partitioning_plan_of_a_plain_class_accepts_bare_keys() -> None:
    plan = Batches(AB, [[], []], partitioning=hr.KeyPartitioning("a", [1, None]))
    assert plan.partitioning == hr.KeyPartitioning(("a",), [(1,), (None,)])
