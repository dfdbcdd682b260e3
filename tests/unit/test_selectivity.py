"""Estimates after filters, from footers: what Spark needs to know to broadcast what is left of a table."""

from __future__ import annotations

import datetime
import decimal
import math
import random
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.expr import Column, Comparison, Expr, InList, IsNull, Literal, Or
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.registry import RegisteredTable
from headrace.tables.dataset.selectivity import ColumnFacts, passing_share, worth_filtering

ROWS = 60_000
DAY = datetime.date(2020, 1, 1)
DAY_TIME = datetime.datetime(2020, 1, 1)
SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("code", pa.int32()), ("day", pa.date32())])


def facts_table(path: Path, *, use_dictionary: bool = True) -> hr.DatasetTable:
    """Unique ids in order, 7 kinds and 100 codes at random, a thousand days."""
    rng = random.Random(7)
    table = pa.table(
        {
            "id": pa.array(range(ROWS)),
            "kind": [f"kind {rng.randrange(7)}" for _ in range(ROWS)],
            "code": pa.array([rng.randrange(100) * 1000 for _ in range(ROWS)], pa.int32()),
            "day": [DAY + datetime.timedelta(days=rng.randrange(1000)) for _ in range(ROWS)],
        }
    )
    path.mkdir(exist_ok=True)
    pq.write_table(table, path / "a.parquet", use_dictionary=use_dictionary, row_group_size=ROWS // 3)
    return hr.DatasetTable(path)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> hr.DatasetTable:
    return facts_table(tmp_path_factory.mktemp("facts"))


def rows_of(table: hr.DatasetTable, *filters: Expr) -> int:
    statistics = table.scan(hr.ScanRequest(SCHEMA, tuple(SCHEMA.names), filters)).statistics()
    assert statistics is not None
    assert statistics.num_rows is not None
    return statistics.num_rows


def equals(column: str, value: object) -> Expr:
    return Comparison("=", Column(column), Literal(value, SCHEMA.field(column).type))


def one_of(column: str, values: range) -> InList:
    type_ = SCHEMA.field(column).type
    return InList(Column(column), tuple(Literal(value, type_) for value in values))


@pytest.mark.parametrize(
    ("filters", "passing"),
    [
        ([], ROWS),
        ([equals("kind", "kind 3")], ROWS / 7),
        ([equals("code", 5000)], ROWS / 20),  # a hundredth, but no table counts for less
        ([one_of("code", range(0, 20_000, 1000))], ROWS / 5),
        ([Comparison("<", Column("day"), Literal(DAY + datetime.timedelta(days=100), pa.date32()))], ROWS / 10),
        ([Comparison(">=", Column("id"), Literal(ROWS * 3 // 4, pa.int64()))], ROWS / 4),
    ],
)
def test_estimate_after_one_filter_is_right_within_a_factor_of_two(
    table: hr.DatasetTable, filters: list[Expr], passing: float
) -> None:
    assert passing / 2 <= rows_of(table, *filters) <= passing * 2


def test_estimate_of_several_filters_does_not_take_them_for_independent(table: hr.DatasetTable) -> None:
    kind, late = equals("kind", "kind 3"), Comparison(">=", Column("id"), Literal(ROWS * 3 // 4, pa.int64()))
    shares = [rows_of(table, one) / ROWS for one in (kind, late)]
    assert shares[0] * shares[1] < rows_of(table, kind, late) / ROWS < min(shares)


@pytest.mark.parametrize(
    "filter",
    [
        IsNull(Column("kind")),
        Or(equals("kind", "kind 3"), equals("code", 5000)),
        Comparison(">", Column("id"), Literal(10 * ROWS, pa.int64())),
        Comparison(">", Column("kind"), Literal("kind 3", pa.string())),
    ],
    ids=["nulls", "either of two columns", "beyond what was seen", "an order of text"],
)
def test_filter_of_which_footers_say_nothing_leaves_all_rows(table: hr.DatasetTable, filter: Expr) -> None:
    assert rows_of(table, filter) == ROWS


def test_column_without_a_dictionary_may_have_few_values(tmp_path: Path) -> None:
    assert rows_of(facts_table(tmp_path / "plain", use_dictionary=False), equals("code", 5000)) == ROWS


def test_filters_that_contradict_each_other_leave_nothing(table: hr.DatasetTable) -> None:
    assert rows_of(table, equals("code", 1), equals("code", 2)) == 0


def test_scan_is_small_after_its_exact_filters(table: hr.DatasetTable) -> None:
    scan = table.for_scan()
    whole = scan.statistics()
    scan.supports_filters_pushdown([equals("code", 5000)])
    left = scan.statistics()
    assert whole is not None
    assert left is not None
    assert left.size_in_bytes < whole.size_in_bytes / 15  # type: ignore[operator]


def test_class_with_statistics_of_its_own_is_asked_for_them(tmp_path: Path) -> None:
    class Known(hr.DatasetTable):
        def statistics(self) -> hr.Statistics:
            return hr.Statistics(17, 1700)

    facts_table(tmp_path / "known")
    scan = Known(tmp_path / "known").for_scan()
    scan.supports_filters_pushdown([equals("code", 5000)])
    assert scan.statistics() == hr.Statistics(17, 1700)
    negotiation = Negotiation(RegisteredTable.of("known", Known(tmp_path / "known")))
    negotiation.offer_filters([equals("code", 5000)])
    assert negotiation.plan().statistics == hr.Statistics(17, 1700)


FACTS = {"id": ColumnFacts(low=0, high=999), "code": ColumnFacts(low=0, high=9999)}


def test_long_list_with_few_of_the_values_is_asked_of_each_row() -> None:
    few = one_of("id", range(0, 1000, 100))
    assert worth_filtering([few], 1.0, 3, FACTS) == [few]


@pytest.mark.parametrize(
    ("passing", "columns"), [(1.0, 1), (0.1, 1), (0.01, 20)], ids=["most values", "few rows left", "very few rows left"]
)
def test_list_that_leaves_out_too_few_rows_becomes_its_ends(passing: float, columns: int) -> None:
    most = one_of("id", range(10, 910))
    low, high = (Literal(value, pa.int64()) for value in (10, 909))
    ends = [Comparison(">=", Column("id"), low), Comparison("<=", Column("id"), high)]
    assert worth_filtering([most], passing, columns, FACTS) == ends


def test_second_list_is_weighed_by_what_the_first_leaves() -> None:
    narrow, wide = one_of("code", range(0, 100)), one_of("id", range(0, 1000, 4))
    assert worth_filtering([wide], 1.0, 3, FACTS) == [wide]
    assert narrow in worth_filtering([wide, narrow], 1.0, 3, FACTS)
    assert wide not in worth_filtering([wide, narrow], 1.0, 3, FACTS)


def test_what_is_no_long_list_of_known_numbers_is_left_alone() -> None:
    others = [equals("kind", "a"), one_of("id", range(3)), IsNull(Column("id")), one_of("day", range(0))]
    unknown = InList(Column("other"), tuple(Literal(i, pa.int64()) for i in range(5000)))
    assert worth_filtering([*others, unknown], 0.001, 1, FACTS) == [*others, unknown]


def test_plan_says_which_list_rows_are_not_looked_up_in(table: hr.DatasetTable) -> None:
    most, few = one_of("id", range(0, ROWS, 2)), one_of("id", range(0, ROWS, ROWS // 10))
    for learnt, said in ((most, "of 30,000 values for id the least and greatest are asked of rows"), (few, "1 files")):
        schema = pa.schema([SCHEMA.field("id")])
        text = table.scan(hr.ScanRequest(schema, ("id",), runtime_filters=(learnt,))).describe()
        assert said in text
        assert ("values for" in text) is (learnt is most)


def test_rows_of_a_narrowed_scan_are_a_part_that_has_every_match(table: hr.DatasetTable) -> None:
    wanted = one_of("id", range(5, ROWS - 5))
    request = hr.ScanRequest(SCHEMA, tuple(SCHEMA.names), runtime_filters=(wanted,))
    plan = table.scan(request)
    ids = [value for i in range(plan.partitioning.n) for batch in plan.execute(i) for value in batch["id"].to_pylist()]
    assert set(range(5, ROWS - 5)) <= set(ids) <= set(range(ROWS))


def test_share_without_facts_is_everything() -> None:
    assert passing_share([equals("code", 5000)], SCHEMA, {}) == 1.0


def test_statistics_of_every_kind_are_taken_or_passed_over(tmp_path: Path) -> None:
    """Moments that Python has none of, NaN, infinity, bytes, numbers of 38 digits."""
    columns = {
        "late": pa.array([0, 2**62, None], pa.timestamp("us")),
        "late_utc": pa.array([-(2**62), 5, None], pa.timestamp("us", "UTC")),
        "nano": pa.array([1, 2, None], pa.timestamp("ns")),
        "real": pa.array([math.nan, math.inf, -math.inf]),
        "half": pa.array([1.0, 2.0, None], pa.float16()),
        "raw": pa.array([b"\xff\x00", b"", None]),
        "wide": pa.array([decimal.Decimal(10**37), decimal.Decimal(-(10**37)), None], pa.decimal128(38, 0)),
        "flag": pa.array([True, False, None]),
        "time": pa.array([1, 2, None], pa.time64("us")),
        "unsigned": pa.array([2**64 - 1, 0, None], pa.uint64()),
        "nothing": pa.nulls(3, pa.int32()),
        "nested": pa.array([{"a": 1}, None, {"a": 2}]),
    }
    for i in range(2):
        pq.write_table(pa.table(columns), tmp_path / f"{i}.parquet", row_group_size=2)
    table = hr.DatasetTable(tmp_path)
    schema = table.schema()
    assert table.statistics() is not None
    for name, value in (
        ("late", DAY_TIME),
        ("raw", b""),
        ("wide", decimal.Decimal(1)),
        ("flag", True),
        ("nothing", 1),
    ):
        for op in ("=", "<"):
            below = Comparison(op, Column(name), Literal(value, schema.field(name).type))
            assert table.scan(hr.ScanRequest(schema, tuple(schema.names), (below,))).statistics() is not None
    above = Comparison(">", Column("real"), Literal(0.0, pa.float64()))
    assert table.scan(hr.ScanRequest(schema, tuple(schema.names), (above,))).statistics() == table.statistics()


def test_moments_that_nanoseconds_cannot_hold_say_nothing() -> None:
    facts = {"at": ColumnFacts(low=pd.Timestamp(1970, 1, 1), high=pd.Timestamp(2000, 1, 1))}
    schema = pa.schema([("at", pa.timestamp("ns"))])

    def before(year: int) -> float:
        moment = Literal(datetime.datetime(year, 1, 1), pa.timestamp("us"))
        return passing_share([Comparison("<", Column("at"), moment)], schema, facts)

    assert before(9999) == 1.0
    assert 0.4 < before(1985) < 0.6


def test_moment_before_all_nanoseconds_says_nothing() -> None:
    facts = {"at": ColumnFacts(low=pd.Timestamp.min, high=pd.Timestamp.max)}
    moment = Literal(datetime.datetime(1, 1, 1), pa.timestamp("us"))
    schema = pa.schema([("at", pa.timestamp("ns"))])
    assert passing_share([Comparison(">", Column("at"), moment)], schema, facts) == 1.0
