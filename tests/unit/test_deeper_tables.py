"""Ready-made tables: aggregates from footers and memory, runtime filters that skip files and partitions; no Spark."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import cloudpickle
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.execute.partition_stream import PartitionStream
from headrace.execute.stopping import StopFlag
from headrace.negotiate.aggregates import OfferedFunction
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.partitioning import ScanSettings
from headrace.negotiate.planned import PlannedScan
from headrace.negotiate.registry import RegisteredTable
from headrace.tables.dataset.footers import Footers
from headrace.testing import check_provider
from parquet_files import table, years

INT, TEXT = pa.int64(), pa.string()


def aggregated(provider: hr.TableProvider, *functions: str, filters: tuple[hr.Expr, ...] = ()) -> PlannedScan | None:
    """``aggregated(t, "count(*)", "min(id)")``: the plan, the provider's or with work for Headrace's stage."""
    schema = provider.schema()
    negotiation = Negotiation(RegisteredTable("t", provider, schema, schema))
    negotiation.settings = ScanSettings(work_at_source=True)
    if filters:
        negotiation.offer_filters(filters)
    offered = []
    for function in functions:
        name, _, operand = function.rstrip(")").partition("(")
        offered.append(OfferedFunction(name, None if operand == "*" else hr.Column(operand)))  # type: ignore[arg-type]
    if negotiation.offer_aggregation((), offered).answer is hr.AggregatePushdown.UNSUPPORTED:
        return None
    return negotiation.plan()


def merged(planned: PlannedScan | None) -> list[Any]:
    """What Spark makes of the partial results."""
    assert planned is not None
    task = planned.task()
    if planned.plan.placement is hr.Placement.EXECUTORS:
        task = pickle.loads(cloudpickle.dumps(task))
    streams = [PartitionStream(task, i, StopFlag()) for i in range(planned.partitioning.n)]
    rows = [tuple(row.values()) for stream in streams for batch in stream for row in batch.to_pylist()]
    assert len(rows) == planned.partitioning.n  # one each, even over no rows
    merge = {"count": sum, "min": min, "max": max}
    found = []
    for i, function in enumerate(planned.aggregation.functions):  # type: ignore[union-attr]
        values = [row[i] for row in rows if row[i] is not None]
        found.append(merge[function.name](values) if values else None)
    return found


def narrowed(provider: hr.TableProvider, *filters: hr.Expr, columns: tuple[str, ...] | None = None) -> PlannedScan:
    """The plan of a scan that is planned again, with what a join's other side told."""
    schema = provider.schema()
    negotiation = Negotiation(RegisteredTable("t", provider, schema, schema))
    if columns is not None:
        negotiation.offer_columns(pa.schema([schema.field(name) for name in columns]))
    first = negotiation.plan()
    assert {name for expr in filters for name in expr.columns()} <= set(first.runtime_filter_columns)
    return negotiation.narrow(first, filters)


def rows_of(planned: PlannedScan) -> list[dict[str, Any]]:
    partitions = range(planned.partitioning.n)
    return [row for i in partitions for batch in planned.plan.execute(i) for row in batch.to_pylist()]


def one_of(column: str, *values: Any, type_: pa.DataType = INT) -> hr.Expr:
    return hr.InList(hr.Column(column), tuple(hr.Literal(value, type_) for value in values))


def without_data(path: Path) -> None:
    """Overwrites everything before the footer: whoever reads rows fails."""
    data = path.read_bytes()
    footer = int.from_bytes(data[-8:-4], "little") + 8
    path.write_bytes(data[:4] + b"\x00" * (len(data) - footer - 4) + data[-footer:])


EXACT = pa.table(
    {
        "i": pa.array([3, None, -7, 5], pa.int32()),
        "u": pa.array([3, 2**64 - 1, 0, None], pa.uint64()),
        "b": [True, None, True, False],
        "d": pa.array([Decimal("1.25"), None, Decimal("-9.5"), Decimal(0)], pa.decimal128(20, 2)),
        "day": [dt.date(2024, 1, 1), None, dt.date(1969, 12, 31), dt.date(2030, 5, 5)],
        "ts": pa.array([0, None, -5, 10**15], pa.timestamp("us")),
        "tz": pa.array([0, None, -5, 10**12], pa.timestamp("ms", "UTC")),
        "s": ["b", None, "é", ""],
        "y": [b"\xff", None, b"", b"a"],
        "nothing": pa.array([None] * 4, pa.int64()),
    }
)


def test_footers_tell_count_min_and_max_without_a_row_being_read(tmp_path: Path) -> None:
    for i in range(5):
        pq.write_table(EXACT.slice(i % 2), tmp_path / f"{i}.parquet", row_group_size=2)
        without_data(tmp_path / f"{i}.parquet")
    names = EXACT.column_names
    provider = hr.DatasetTable(tmp_path)
    found = merged(aggregated(provider, "count(*)", *(f"{f}({n})" for n in names for f in ("count", "min", "max"))))
    assert found[0] == 3 * 4 + 2 * 3
    for i, name in enumerate(names):
        values = [v for v in EXACT[name].to_pylist() if v is not None]
        low, high = (min(values), max(values)) if values else (None, None)
        assert found[2 + 3 * i : 4 + 3 * i] == [low, high], name
        assert found[1 + 3 * i] == sum(len(EXACT.slice(k % 2)[name].drop_null()) for k in range(5)), name


def test_partition_columns_and_their_filters_are_decided_without_reading(tmp_path: Path) -> None:
    for path in years(tmp_path).rglob("*.parquet"):
        without_data(path)
    provider = hr.DatasetTable(tmp_path)
    year = provider.schema().field("year").type
    later = hr.Comparison(">", hr.Column("year"), hr.Literal(2022, year))
    assert merged(aggregated(provider, "count(*)", "count(year)", "max(year)", "min(id)")) == [60, 40, 2023, 0]
    assert merged(aggregated(provider, "count(*)", "min(year)", "max(id)", filters=(later,))) == [20, 2023, 39]
    never = hr.Comparison(">", hr.Column("year"), hr.Literal(2050, year))
    assert merged(aggregated(provider, "count(*)", "max(id)", filters=(never,))) == [0, None]


def test_filter_that_footers_leave_open_is_applied_to_rows(tmp_path: Path) -> None:
    pq.write_table(table(100), tmp_path / "a.parquet", row_group_size=10)
    above = hr.Comparison(">", hr.Column("id"), hr.Literal(94, INT))
    planned = aggregated(hr.DatasetTable(tmp_path), "count(*)", "min(id)", "max(id)", "min(name)", filters=(above,))
    assert merged(planned) == [5, 95, 99, "n0"]
    assert planned is not None
    assert "footers" not in planned.plan_text
    assert planned.work is not None


@pytest.mark.parametrize("writer", ["polars", "no statistics", "some statistics", "another type"])
def test_rows_are_read_where_footers_do_not_tell(tmp_path: Path, writer: str) -> None:
    rows = pa.table({"id": [1, 5, None], "s": ["z" * 200 + "b", "a" * 200 + "c", "a" * 200 + "b"]})
    path = tmp_path / "a.parquet"
    if writer == "polars":  # cuts the bounds of strings to 64 bytes
        pl.from_arrow(rows).write_parquet(path)  # type: ignore[union-attr]
        assert len(pq.read_metadata(path).row_group(0).column(1).statistics.max) == 64
    elif writer == "another type":
        pq.write_table(rows.set_column(0, "id", rows["id"].cast(pa.int32())), path)
    else:
        pq.write_table(rows, path, write_statistics=["id"] if writer == "some statistics" else False)
    schema = pa.schema([("id", INT), ("s", TEXT), ("later", TEXT)])
    provider = hr.DatasetTable(ds.dataset(tmp_path, schema=schema))
    functions = ("count(*)", "count(id)", "min(id)", "max(id)", "min(s)", "max(s)", "count(later)", "max(later)")
    assert merged(aggregated(provider, *functions)) == [3, 2, 1, 5, "a" * 200 + "b", "z" * 200 + "b", 0, None]


def test_footers_of_many_files_are_one_task(tmp_path: Path) -> None:
    for i in range(200):
        pq.write_table(pa.table({"id": [i]}), tmp_path / f"{i}.parquet")
        without_data(tmp_path / f"{i}.parquet")
    planned = aggregated(hr.DatasetTable(tmp_path), "count(*)", "min(id)", "max(id)")
    assert planned is not None
    assert planned.partitioning.n == 1
    assert planned.aggregation is not None
    assert planned.aggregation.answer is hr.AggregatePushdown.COMPLETE
    assert merged(planned) == [200, 0, 199]


def test_footers_of_very_many_files_are_several_tasks() -> None:
    assert Footers(1.0, pa.schema([]), size=900.0).in_a_task() == 1000
    assert Footers(1.0, pa.schema([]), size=100_000.0).in_a_task() == 41
    assert Footers(1.0, pa.schema([]), size=1e9).in_a_task() == 1


@pytest.mark.parametrize("column", ["unknown", "another"])
def test_rows_are_shared_out_where_the_footers_looked_into_do_not_tell(tmp_path: Path, column: str) -> None:
    rows = pa.table({"unknown": [1], "another": pa.array([1], pa.int32()), "known": [1]})
    for i in range(16):
        pq.write_table(rows, tmp_path / f"{i}.parquet", write_statistics=["another", "known"])
    schema = rows.schema.set(1, pa.field("another", INT))
    provider = hr.DatasetTable(ds.dataset(tmp_path, schema=schema), partition_bytes=1 << 20)
    planned, told = aggregated(provider, f"count({column})"), aggregated(provider, "count(known)")
    assert planned is not None
    assert told is not None
    assert (planned.partitioning.n, told.partitioning.n) == (16, 1)
    assert planned.aggregation is not None
    assert planned.aggregation.answer is hr.AggregatePushdown.PARTIAL
    assert merged(planned) == merged(told) == [16]


def test_partition_without_rows_has_no_extremes(tmp_path: Path) -> None:
    for day, ids in ((1, []), (2, [7]), (3, [])):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table({"id": pa.array(ids, INT)}), tmp_path / f"day={day}" / "a.parquet")
    provider = hr.DatasetTable(tmp_path)
    assert merged(aggregated(provider, "count(*)", "count(day)", "min(day)", "max(day)")) == [1, 1, 2, 2]


def test_footers_behind_a_network_are_read_together(tmp_path: Path) -> None:
    for i in range(40):
        pq.write_table(pa.table({"id": [i]}), tmp_path / f"{i}.parquet")
    elsewhere = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    provider = hr.DatasetTable("", filesystem=elsewhere)
    assert merged(aggregated(provider, "count(*)", "min(id)", "max(id)")) == [40, 0, 39]
    (tmp_path / "23.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"23\.parquet: it was there when"):
        merged(aggregated(provider, "count(*)"))
    assert not [one for one in threading.enumerate() if one.name.startswith("headrace-footers")]


def test_extremes_of_floats_are_not_taken_from_footers(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0, math.nan], "p": [{"a": 1}, None]}), tmp_path / "a.parquet")
    for provider in (hr.DatasetTable(tmp_path), hr.MemTable(pa.table({"x": [1.0, math.nan]}))):
        planned = aggregated(provider, "max(x)", "count(x)")
        assert planned is not None
        assert planned.request.aggregation is None
        assert repr(merged(planned)) == "[nan, 2]"


def test_other_formats_and_memory_are_counted_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,s\n1,x\n2,\n")
    assert merged(aggregated(hr.DatasetTable(tmp_path / "a.csv"), "count(*)", "max(id)", "min(s)")) == [2, 2, ""]
    memory = hr.DatasetTable(ds.dataset(table(10)))
    planned = aggregated(memory, "count(*)", "max(id)")
    assert planned is not None
    assert [b.to_pylist()[0] for b in planned.plan.execute(0)] == [{"count_0": 10, "max_1": 9}]


@pytest.mark.parametrize("filters", [(), (one_of("id", 3, 7, 70),)], ids=["all", "filtered"])
def test_memory_is_counted_where_it_is(filters: tuple[hr.Expr, ...]) -> None:
    rows = table(100).append_column("n", pa.array([None if i % 4 else i for i in range(100)]))
    provider = hr.MemTable(rows, partitions=3)
    planned = aggregated(provider, "count(*)", "count(n)", "min(id)", "max(name)", filters=filters)
    assert merged(planned) == ([3, 0, 3, "n3"] if filters else [100, 25, 0, "n6"])


def test_runtime_filter_on_a_partition_column_skips_files_and_keys(tmp_path: Path) -> None:
    provider = hr.DatasetTable(years(tmp_path))
    year = provider.schema().field("year").type
    planned = narrowed(provider, one_of("year", 2023, 2050, type_=year), columns=("id", "year"))
    assert isinstance(planned.partitioning, hr.KeyPartitioning)
    assert planned.partitioning.keys == ((2023,),)
    assert sorted(row["id"] for row in rows_of(planned)) == list(range(20, 40))
    nothing = narrowed(provider, one_of("year", 2050, type_=year), columns=("id", "year"))
    assert rows_of(nothing) == []


@pytest.mark.parametrize("ids", [(5, 995), (*range(5, 12), 995, 996)], ids=["few keys", "a set of keys"])
def test_runtime_filter_skips_row_groups_and_rows(tmp_path: Path, ids: tuple[int, ...]) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table(1000), path, row_group_size=100)
    data = path.read_bytes()
    third = pq.read_metadata(path).row_group(3).column(0)
    start = third.dictionary_page_offset or third.data_page_offset
    path.write_bytes(data[:start] + b"\x00" * 64 + data[start + 64 :])  # whoever reads row group 3 fails
    planned = narrowed(hr.DatasetTable(tmp_path), one_of("id", *ids))
    assert [row["id"] for row in rows_of(planned)] == list(ids)


def test_runtime_filter_leaves_rows_that_a_filter_lets_through(tmp_path: Path) -> None:
    provider = hr.DatasetTable(years(tmp_path))
    planned = narrowed(provider, one_of("id", 25, 45), hr.Not(hr.IsNull(hr.Column("year"))))
    assert [row["id"] for row in rows_of(planned)] == [25]


class Numbers(hr.FileFormat):
    """A line a number; the file's name tells the least and the greatest."""

    def schema(self, file: hr.DataFile) -> pa.Schema:
        return pa.schema([("n", INT)])

    def read(self, file: hr.DataFile, request: hr.ScanRequest) -> Any:
        with file.open() as opened:
            yield pa.record_batch({"n": [int(line) for line in opened.read().split()]})

    def statistics(self, file: hr.DataFile) -> hr.ContainerStats:
        low, high = Path(file.path).stem.split("-")
        return hr.ContainerStats({"n": hr.ColumnStats(int(low), int(high), 0)})


def numbers(root: Path) -> hr.ListingTable:
    for day in range(4):
        (root / f"day={day}").mkdir()
        for start in (day * 100, day * 100 + 50):
            lines = "\n".join(map(str, range(start, start + 50)))
            (root / f"day={day}" / f"{start}-{start + 49}.txt").write_text(lines)
    return hr.ListingTable(root, Numbers())


def test_listing_skips_files_by_path_and_by_what_is_known_of_them(tmp_path: Path) -> None:
    provider = numbers(tmp_path)
    by_path = narrowed(provider, one_of("day", 1, 3, type_=provider.schema().field("day").type), columns=("n", "day"))
    assert isinstance(by_path.partitioning, hr.KeyPartitioning)
    assert by_path.partitioning.keys == ((1,), (3,))
    assert sorted(row["n"] for row in rows_of(by_path)) == [*range(100, 200), *range(300, 400)]
    by_range = narrowed(provider, one_of("n", 7, 360), columns=("n",))
    assert by_range.plan_text == "Numbers, 2 of 8 files"
    assert {7, 360} <= {row["n"] for row in rows_of(by_range)}


def test_memory_skips_partitions_and_rows() -> None:
    provider = hr.MemTable(table(1000), partitions=10)
    planned = narrowed(provider, one_of("id", 5, 995))
    assert planned.partitioning == hr.UnknownPartitioning(2)
    assert [row["id"] for row in rows_of(planned)] == [5, 995]
    assert narrowed(provider, one_of("id", -1)).partitioning == hr.UnknownPartitioning(0)


def test_runtime_filters_are_not_asked_for_below_a_cut() -> None:
    provider = hr.MemTable(table(10))
    schema = provider.schema()
    negotiation = Negotiation(RegisteredTable("t", provider, schema, schema))
    negotiation.offer_limit(3)
    assert negotiation.plan().runtime_filter_columns == ()


def test_long_list_of_values_is_compared_quickly_with_many_files() -> None:
    values = one_of("id", *range(0, 100_000, 10))
    stats = [hr.ContainerStats({"id": hr.ColumnStats(i * 10 + 1, i * 10 + 9, 0)}) for i in range(2000)]
    stats.append(hr.ContainerStats({"id": hr.ColumnStats(95, 105, 0)}))
    keep = hr.PruningPredicate([values], pa.schema([("id", INT)])).keep(stats)
    assert keep == [False] * 2000 + [True]


@pytest.mark.daily
@pytest.mark.parametrize("kind", ["mem", "dataset", "listing"])
def test_table_keeps_the_promises_of_aggregates_and_runtime_filters(tmp_path: Path, kind: str) -> None:
    if kind == "mem":
        provider: hr.TableProvider = hr.MemTable(EXACT, partitions=2)
    elif kind == "dataset":
        pq.write_table(EXACT, tmp_path / "a.parquet", row_group_size=2)
        pq.write_table(EXACT.slice(1), tmp_path / "b.parquet", write_statistics=["i", "s"])
        provider = hr.DatasetTable(tmp_path)
    else:
        provider = numbers(tmp_path)
    report = check_provider(provider, samples=1, planning_budget_s=60)
    assert report.ok, str(report)


def first(provider: hr.TableProvider, limit: int, *order: hr.SortKey) -> PlannedScan | None:
    """The plan of the first rows in an order; None where the provider does not take it."""
    negotiation = Negotiation(RegisteredTable("t", provider, provider.schema(), provider.schema()))
    if negotiation.offer_top_n(order, limit).answer is hr.Pushdown.UNSUPPORTED:
        return None
    return negotiation.plan()


BY_ID = hr.SortKey("id")


def test_sorted_table_reads_no_more_than_the_first_rows_of_a_partition() -> None:
    read: list[int] = []

    def numbers_from(start: int) -> Any:
        for i in range(start, start + 1000, 10):
            read.append(i)
            yield pa.record_batch({"id": range(i, i + 10), "n": [i % 3] * 10})

    schema = pa.schema([("id", INT), ("n", INT)])
    streams = hr.StreamTable(schema, [lambda: numbers_from(0), lambda: numbers_from(500)])
    planned = first(hr.SortedTable(streams, [BY_ID, hr.SortKey("n")]), 12, BY_ID)
    assert planned is not None
    assert [row["id"] for row in rows_of(planned)] == [*range(12), *range(500, 512)]
    assert read == [0, 10, 500, 510]
    assert planned.plan_text.startswith("first 12 of each partition, sorted")


def test_sorted_table_takes_only_its_own_order() -> None:
    provider = hr.SortedTable(hr.MemTable(table(20)), [BY_ID, hr.SortKey("x")])
    for order in ([hr.SortKey("x")], [hr.SortKey("id", descending=True)], [hr.SortKey("id", nulls_first=False)]):
        assert first(provider, 3, *order) is None
    assert first(provider, 3, BY_ID, hr.SortKey("x"), hr.SortKey("name")) is None
    assert first(provider, 3, BY_ID, hr.SortKey("x")) is not None


def test_sorted_table_is_its_inner_table_in_every_other_way() -> None:
    provider = hr.SortedTable(hr.MemTable(table(100), partitions=4), [BY_ID])
    planned = narrowed(provider, one_of("id", 5))
    assert planned.partitioning.n == 1
    assert planned.ordering == (BY_ID,)
    assert aggregated(provider, "count(*)") is not None


def test_sorted_files_give_their_first_rows_only(tmp_path: Path) -> None:
    for i in range(4):
        pq.write_table(table(5000, 1000 * i), tmp_path / f"{i}.parquet", row_group_size=1000)
    planned = first(hr.DatasetTable(tmp_path, sorted_by=[BY_ID]), 3, BY_ID)
    assert planned is not None
    assert sorted(row["id"] for row in rows_of(planned)) == sorted(1000 * i + k for i in range(4) for k in range(3))
    assert first(hr.DatasetTable(tmp_path), 3, BY_ID) is None


def test_sorted_files_of_a_listing_give_their_first_rows_only(tmp_path: Path) -> None:
    numbers(tmp_path)
    provider = hr.ListingTable(tmp_path, Numbers(), sorted_by=[hr.SortKey("n")])
    planned = first(provider, 2, hr.SortKey("n"))
    assert planned is not None
    found = [row["n"] for row in rows_of(planned)]
    assert {0, 1, 50, 51, 350, 351} <= set(found)
    report = check_provider(provider, samples=1, planning_budget_s=60)
    assert report.ok, str(report)


@pytest.mark.parametrize("keys", ["id", [BY_ID, "x"]])
def test_sorted_by_takes_sort_keys(tmp_path: Path, keys: Any) -> None:
    pq.write_table(table(5), tmp_path / "a.parquet")
    with pytest.raises(TypeError, match="sorted_by takes"):
        hr.DatasetTable(tmp_path, sorted_by=keys)
    with pytest.raises(ValueError, match="'nope', which is no column"):
        hr.DatasetTable(tmp_path, sorted_by=[hr.SortKey("nope")])


@pytest.mark.daily
def test_sorted_tables_keep_the_promise_of_top_n(tmp_path: Path) -> None:
    rows = pa.table({"id": [None, 1, 1, 2, 3, 3, 4], "s": ["b", None, "a", "c", "x", "y", "z"]})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=2)
    pq.write_table(rows.slice(1), tmp_path / "b.parquet")
    for provider in (
        hr.DatasetTable(tmp_path, sorted_by=[BY_ID]),
        hr.SortedTable(hr.MemTable(rows, partitions=3), [BY_ID]),
    ):
        report = check_provider(provider, samples=2, planning_budget_s=60)
        assert report.ok, str(report)


def fragments_of_one_file(path: Path, *row_groups: list[int]) -> hr.DatasetTable:
    """A dataset made by hand: several fragments of the same file, each with row groups of its own."""
    pq.write_table(table(100), path, row_group_size=20)
    (whole,) = ds.dataset(path).get_fragments()
    parts = [whole.subset(row_group_ids=groups) for groups in row_groups]
    return hr.DatasetTable(ds.FileSystemDataset(parts, whole.physical_schema, whole.format, whole.filesystem))


def test_fragments_of_one_file_are_told_apart(tmp_path: Path) -> None:
    provider = fragments_of_one_file(tmp_path / "a.parquet", [0], [3, 4], [])
    wanted = [*range(20), *range(60, 100)]
    assert merged(aggregated(provider, "count(*)", "min(id)", "max(id)")) == [60, 0, 99]
    assert sorted(row["id"] for row in rows_of(narrowed(provider))) == wanted
    for low in (0, 19, 20, 59, 60, 99):
        above = hr.Comparison(">=", hr.Column("id"), hr.Literal(low, INT))
        counted = aggregated(provider, "count(*)", "min(id)", filters=(above,))
        expected = [i for i in wanted if i >= low]
        assert merged(counted) == [len(expected), expected[0]]
        assert [row["id"] for row in rows_of(narrowed(provider, above))] == expected
    assert [row["id"] for row in rows_of(narrowed(provider, one_of("id", 5, 30, 70)))] == [5, 70]
    assert provider.statistics().num_rows == 60
    assert "1 of 1 files" in narrowed(provider).plan_text


def test_fragments_of_one_file_with_partitions_of_their_own_are_told_apart(tmp_path: Path) -> None:
    pq.write_table(table(100), tmp_path / "a.parquet", row_group_size=20)
    (whole,) = ds.dataset(tmp_path).get_fragments()
    parts = [
        whole.format.make_fragment(whole.path, whole.filesystem, ds.field("half") == half, row_groups=groups)
        for half, groups in ((1, [0, 1]), (2, [3]), (1, [4]))
    ]
    schema = whole.physical_schema.append(pa.field("half", INT))
    provider = hr.DatasetTable(ds.FileSystemDataset(parts, schema, whole.format, whole.filesystem))
    for half, first, rows in ((1, 0, 60), (2, 60, 20)):
        chosen = hr.Comparison("=", hr.Column("half"), hr.Literal(half, INT))
        found = aggregated(provider, "count(*)", "min(id)", "min(half)", filters=(chosen,))
        assert merged(found) == [rows, first, half]
        assert len(rows_of(narrowed(provider, chosen))) == rows
    assert merged(aggregated(provider, "count(*)", "max(id)", "max(half)")) == [80, 99, 2]


def test_planning_an_aggregation_opens_no_file(tmp_path: Path) -> None:
    for i in range(3):
        pq.write_table(table(100), tmp_path / f"{i}.parquet")
    provider = hr.DatasetTable(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    planned = aggregated(provider, "count(*)", "min(id)", "max(id)")
    assert planned is not None
    assert planned.plan_text == "footers of parquet, 3 of 3 files"
    with pytest.raises(FileNotFoundError, match=r"0\.parquet: it was there when"):
        merged(planned)
