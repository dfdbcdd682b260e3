"""ListingTable: which files are read, what of the paths becomes columns, and how errors name the file."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

import headrace as hr
from arrow_files import SCHEMA, ArrowFormat, column, count, opened_files, request, write
from effort import cases
from headrace.execute.partition_stream import PartitionStream, ScanTask
from headrace.execute.stopping import StopFlag
from headrace.tables.file_groups import grouped, packed
from headrace.testing import check_provider


def scan(provider: hr.TableProvider, *names: str, **options: Any) -> hr.ExecutionPlan:
    return pickle.loads(cloudpickle.dumps(provider.scan(request(provider, *names, **options))))


def rows(plan: hr.ExecutionPlan) -> list[dict[str, Any]]:
    return [row for i in range(plan.partitioning.n) for batch in plan.execute(i) for row in batch.to_pylist()]


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    (tmp_path / "opened").mkdir()
    return tmp_path / "opened"


# Paths


def test_paths_of_every_kind_list_the_same_files(tmp_path: Path) -> None:
    data = tmp_path / "data"
    files = [write(data / "sub" / f"{i}.arrow", [i]) for i in range(3)]
    (data / "_SUCCESS").touch()
    (data / ".hidden").mkdir()
    write(data / ".hidden" / "x.arrow", [9])
    write(data / "sub" / "_temporary" / "y.arrow", [9])
    for paths in (
        data,
        str(data),
        f"{data}/**/*.arrow",
        f"{data}/s*",
        f"{data}/*",
        files,
        map(str, files),
        [data, files[0]],
        f"file://{data}",
        f"local://{data}",
        f"local://{data}/sub/*.arrow",
    ):
        assert sorted(row["id"] for row in rows(scan(hr.ListingTable(paths, ArrowFormat()), "id"))) == [0, 1, 2], paths


def test_paths_link_to_a_directory_above_lists_nothing_twice(tmp_path: Path) -> None:
    write(tmp_path / "sub" / "a.arrow", [1])
    (tmp_path / "sub" / "again").symlink_to(tmp_path, target_is_directory=True)
    for paths in (tmp_path, f"{tmp_path}/**/*.arrow", f"{tmp_path}/*"):
        assert rows(scan(hr.ListingTable(paths, ArrowFormat()), "id")) == [{"id": 1}]


def test_paths_glob_that_asks_for_hidden_names_gets_them(tmp_path: Path) -> None:
    write(tmp_path / "_a.arrow", [1])
    assert rows(scan(hr.ListingTable(f"{tmp_path}/_*.arrow", ArrowFormat()), "id")) == [{"id": 1}]


def test_paths_file_with_glob_characters_in_its_name_is_that_file(tmp_path: Path) -> None:
    write(tmp_path / "1.arrow", [1])
    odd = write(tmp_path / "[1].arrow", [2])
    assert rows(scan(hr.ListingTable(odd, ArrowFormat()), "id")) == [{"id": 2}]


def test_paths_relative_one_works_from_another_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.arrow", [1])
    monkeypatch.chdir(tmp_path)
    plan = scan(hr.ListingTable("a.arrow", ArrowFormat()), "id")
    monkeypatch.chdir("/")
    assert rows(plan) == [{"id": 1}]


def test_paths_in_fsspec_memory_filesystem_are_read_through_it() -> None:
    fsspec = pytest.importorskip("fsspec")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_table(pa.table({"id": [5], "name": ["five"]}, SCHEMA))
    memory = fsspec.filesystem("memory")
    for year in (2023, 2024):
        memory.pipe(f"/listing/year={year}/a.arrow", sink.getvalue().to_pybytes())
    for url in ("memory://listing", "memory://listing/*/a.arrow"):
        provider = hr.ListingTable(url, ArrowFormat())
        assert rows(scan(provider, "year", "id")) == [{"year": 2023, "id": 5}, {"year": 2024, "id": 5}]
    with pytest.raises(FileNotFoundError, match="memory://listing/none"):
        hr.ListingTable("memory://listing/none", ArrowFormat())


@pytest.mark.parametrize("paths", ["none", "none*", ".", []])
def test_paths_without_files_are_an_error_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paths: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="a table needs at least one file"):
        hr.ListingTable(paths, ArrowFormat())


# Partition columns


def test_partition_columns_are_typed_decoded_and_null(tmp_path: Path) -> None:
    for year, day, place in (("2024", "2024-01-31", "a%2Fb"), ("01", "2024-02-01", "__HIVE_DEFAULT_PARTITION__")):
        write(tmp_path / f"year={year}" / f"day={day}" / f"place={place}" / "x.arrow", [1])
    provider = hr.ListingTable(tmp_path, ArrowFormat())
    assert provider.schema() == pa.schema([*SCHEMA, ("year", pa.int32()), ("day", pa.date32()), ("place", pa.string())])
    assert sorted(rows(scan(provider, "place", "id", "year", "day")), key=lambda row: row["year"]) == [
        {"place": None, "id": 1, "year": 1, "day": datetime.date(2024, 2, 1)},
        {"place": "a/b", "id": 1, "year": 2024, "day": datetime.date(2024, 1, 31)},
    ]


def test_partition_columns_given_types_are_used(tmp_path: Path) -> None:
    write(tmp_path / "year=2024" / "zip=01234" / "x.arrow", [1])
    provider = hr.ListingTable(tmp_path, ArrowFormat(), partition_columns={"zip": pa.string()})
    assert rows(scan(provider, "zip")) == [{"zip": "01234"}]
    assert "year" not in provider.schema().names
    assert hr.ListingTable(tmp_path, ArrowFormat(), partition_columns=()).schema() == SCHEMA
    with pytest.raises(ValueError, match=r"x\.arrow has no directory month="):
        hr.ListingTable(tmp_path, ArrowFormat(), partition_columns=["month"])


def test_partition_columns_value_of_another_type_names_the_file(tmp_path: Path) -> None:
    write(tmp_path / "year=2024" / "x.arrow", [1])
    write(tmp_path / "year=old" / "y.arrow", [1])
    with pytest.raises(ValueError, match=r"year=old/y\.arrow: the partition column 'year' is a int32"):
        hr.ListingTable(tmp_path, ArrowFormat(), partition_columns={"year": pa.int32()})
    assert hr.ListingTable(tmp_path, ArrowFormat()).schema().field("year").type == pa.string()


def test_partition_columns_that_differ_are_an_error_naming_both_files(tmp_path: Path) -> None:
    write(tmp_path / "a" / "year=2024" / "x.arrow", [1])
    write(tmp_path / "b" / "y.arrow", [1])
    with pytest.raises(ValueError, match=r"y\.arrow has the partition columns \(\), but .*x\.arrow has \(year\)"):
        hr.ListingTable(tmp_path, ArrowFormat())


def test_partition_column_in_the_files_too_is_taken_from_the_path(tmp_path: Path) -> None:
    write(tmp_path / "name=path" / "x.arrow", [1])
    provider = hr.ListingTable(tmp_path, ArrowFormat())
    assert provider.schema().names == ["id", "name"]
    assert rows(scan(provider, "name", "id")) == [{"name": "path", "id": 1}]


# Filters


def test_filter_that_fails_for_a_file_that_another_filter_leaves_out_is_left_to_spark(tmp_path: Path) -> None:
    """``p <> 'x' AND CAST(p AS INT) = 3``: Spark casts only what the first lets through."""
    for value in ("3", "x"):
        write(tmp_path / f"p={value}" / "a.arrow", [1])
    provider = hr.ListingTable(tmp_path, ArrowFormat(), partition_columns={"p": pa.string()})
    number = hr.Comparison("=", hr.Cast(hr.Column("p"), "int"), hr.Literal(3, pa.int32()))
    other = hr.Not(column("p", "=", "x", pa.string()))
    assert list(provider.supports_filters_pushdown([other, number])) == [
        hr.FilterPushdown.EXACT,
        hr.FilterPushdown.INEXACT,
    ]
    assert [row["p"] for row in rows(scan(provider, "p", filters=(other, number)))] == ["3"]


def test_filter_on_partition_columns_is_exact_and_skips_files(tmp_path: Path, opened: Path) -> None:
    for year in (2022, 2023, 2024):
        write(tmp_path / "data" / f"year={year}" / f"{year}.arrow", [year])
    write(tmp_path / "data" / "year=__HIVE_DEFAULT_PARTITION__" / "null.arrow", [0])
    provider = hr.ListingTable(tmp_path / "data", ArrowFormat(opened, known=False))
    recent = column("year", ">=", 2023, pa.int32())
    missing = hr.IsNull(hr.Column("year"))
    unknown = hr.Call("UDF", (hr.Column("year"),))
    mixed = hr.Or(recent, column("id", "=", 5))
    assert list(provider.supports_filters_pushdown([recent, missing, column("id", "=", 1)])) == [
        hr.FilterPushdown.EXACT,
        hr.FilterPushdown.EXACT,
        hr.FilterPushdown.UNSUPPORTED,
    ]
    assert list(provider.supports_filters_pushdown([unknown, mixed])) == [hr.FilterPushdown.INEXACT] * 2
    assert {row["id"] for row in rows(scan(provider, "id", filters=(recent,)))} == {2023, 2024}
    assert opened_files(opened) == ["2023.arrow", "2024.arrow"]
    assert rows(scan(provider, "id", filters=(missing,))) == [{"id": 0}]
    assert scan(provider, "id", filters=(recent, missing)).partitioning == hr.UnknownPartitioning(0)
    assert len(rows(scan(provider, "id", filters=(mixed, unknown)))) == 4


def test_filter_of_both_kinds_skips_by_statistics_and_path(tmp_path: Path) -> None:
    for year in (2022, 2023, None):
        for part in range(3):
            directory = f"year={year or '__HIVE_DEFAULT_PARTITION__'}"
            write(tmp_path / directory / f"{part}.arrow", range(part * 10, part * 10 + 10))
    provider = hr.ListingTable(tmp_path, ArrowFormat())
    either = hr.Or(column("year", "=", 2022, pa.int32()), column("id", "=", 15))
    plan = scan(provider, "id", "year", filters=(either,))
    assert plan.describe() == "ArrowFormat, 5 of 9 files"
    matching = [row for row in rows(plan) if row["year"] == 2022 or row["id"] == 15]
    assert len(matching) == 32


def test_filter_the_format_answers_exact_is_left_to_it(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", range(10))
    provider = hr.ListingTable(tmp_path, ArrowFormat(exact=True))
    even = hr.InList(hr.Column("id"), (hr.Literal(3, pa.int64()), hr.Literal(4, pa.int64())))
    assert list(provider.supports_filters_pushdown([even])) == [hr.FilterPushdown.EXACT]
    assert rows(scan(provider, "id", filters=(even,), limit=1)) == [{"id": 3}, {"id": 4}]  # one batch, Headrace cuts


# Partitions


def test_files_are_balanced_by_size() -> None:
    sizes = [100 << 20] + [10 << 20] * 20
    groups = packed(sizes, 64 << 20)
    weights = [sum(sizes[i] for i in group) for group in groups]
    assert sorted(i for group in groups for i in group) == list(range(21))
    assert len(groups) == 6
    assert max(weights) == 100 << 20
    assert min(weights) >= 30 << 20
    assert packed([]) == []


@pytest.mark.parametrize(
    ("keys", "size", "sensible"),
    [
        (1, 1, False),
        (12, 1 << 20, True),
        (200, 10, True),
        (201, 10, False),
        (1000, 64 << 20, True),
        (12, 300 << 20, False),
    ],
)
def test_keys_become_partitions_where_they_make_good_tasks(keys: int, size: int, sensible: bool) -> None:
    found = grouped([(key,) for key in range(keys)], [size] * keys, force=False)
    assert (found is not None) is sensible
    assert grouped([(key,) for key in range(keys)], [size] * keys, force=True) is not None


def test_partition_by_key_holds_what_it_says(tmp_path: Path) -> None:
    for year in (2022, 2023, None):
        for month in (1, 2):
            directory = f"year={year or '__HIVE_DEFAULT_PARTITION__'}/month={month}"
            write(tmp_path / directory / "a.arrow", [month])
    provider = hr.ListingTable(tmp_path, ArrowFormat())
    assert scan(provider, "id").partitioning == hr.UnknownPartitioning(scan(provider, "id").partitioning.n)
    plan = scan(provider, "year", "id")
    assert plan.partitioning == hr.KeyPartitioning("year", [2022, 2023, None])
    for i, key in enumerate(plan.partitioning.keys):
        assert [(row["year"],) for batch in plan.execute(i) for row in batch.to_pylist()] == [key] * 2
    assert scan(provider, "month", "year").partitioning.n == 6
    assert isinstance(scan(provider, "year", "id", limit=3).partitioning, hr.UnknownPartitioning)
    never = hr.ListingTable(tmp_path, ArrowFormat(), partition_by_key=False)
    assert isinstance(scan(never, "year", "id").partitioning, hr.UnknownPartitioning)


def test_large_file_is_split_and_parts_are_skipped_by_statistics(tmp_path: Path) -> None:
    write(tmp_path / "big.arrow", range(10_000), chunk=1000)
    write(tmp_path / "small.arrow", [-1])
    provider = hr.ListingTable(tmp_path, ArrowFormat(), partition_bytes=20_000)
    plan = scan(provider, "id")
    assert plan.partitioning.n == 11
    assert sorted(row["id"] for row in rows(plan)) == [-1, *range(10_000)]
    point = scan(provider, "id", filters=(column("id", "=", 4711),))
    assert [row["id"] for row in rows(point)] == list(range(4000, 5000))
    assert point.describe() == "ArrowFormat, 1 of 2 files"


def test_limit_reads_no_more_files_than_it_needs(tmp_path: Path, opened: Path) -> None:
    for i in range(10):
        write(tmp_path / "data" / f"{i}.arrow", range(100))
    provider = hr.ListingTable(tmp_path / "data", ArrowFormat(opened))
    assert count(scan(provider, "id", limit=150)) >= 150
    assert len(opened_files(opened)) == 2
    others = tmp_path / "others"
    others.mkdir()
    provider = hr.ListingTable(tmp_path / "data", ArrowFormat(others, known=False))
    plan = scan(provider, "id", limit=150)
    stream = PartitionStream(ScanTask("t", plan, plan.schema, plan.schema, 150), 0, StopFlag())
    assert [batch.num_rows for batch in stream] == [100, 50]
    assert len(opened_files(others)) == 2


def test_count_is_answered_from_known_rows_without_opening(tmp_path: Path, opened: Path) -> None:
    for year in (2023, 2024):
        write(tmp_path / "data" / f"year={year}" / "a.arrow", range(100_000 + year))
    provider = hr.ListingTable(tmp_path / "data", ArrowFormat(opened))
    assert count(scan(provider)) == 204_047
    assert count(scan(provider, "year")) == 204_047
    assert opened_files(opened) == []
    assert count(scan(hr.ListingTable(tmp_path / "data", ArrowFormat(opened, known=False)))) == 204_047
    assert opened_files(opened) == ["a.arrow"]


def test_statistics_are_those_of_the_files_that_are_left(tmp_path: Path) -> None:
    for i in range(4):
        write(tmp_path / f"{i}.arrow", range(i * 10, i * 10 + 10))
    provider = hr.ListingTable(tmp_path, ArrowFormat())
    assert provider.statistics() == hr.Statistics(40, sum(f.stat().st_size for f in tmp_path.iterdir()))
    assert scan(provider, "id", filters=(column("id", "<", 20),)).statistics() == hr.Statistics(20, None)
    assert hr.ListingTable(tmp_path, ArrowFormat(known=False)).statistics().num_rows is None
    assert hr.ListingTable(tmp_path, ArrowFormat(), statistics=False).statistics().num_rows is None


def test_planning_opens_no_file(tmp_path: Path) -> None:
    path = write(tmp_path / "year=2024" / "a.arrow", [1])
    provider = hr.ListingTable(tmp_path, ArrowFormat())
    path.unlink()
    filters = (column("id", "=", 1), column("year", "=", 2024, pa.int32()))
    provider.supports_filters_pushdown(filters)
    assert scan(provider, "id", filters=filters).partitioning.n == 1


# Errors


def test_file_that_vanished_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", [1])
    gone = write(tmp_path / "b.arrow", [2])
    provider = hr.ListingTable(tmp_path, ArrowFormat())
    gone.unlink()
    with pytest.raises(FileNotFoundError) as caught:
        rows(scan(provider, "id"))
    (note,) = caught.value.__notes__
    assert str(gone) in note
    assert "REFRESH TABLE" in note


@pytest.mark.parametrize("known", [True, False])
def test_file_that_does_not_parse_is_named_and_keeps_its_error(tmp_path: Path, known: bool) -> None:
    write(tmp_path / "a.arrow", [1])
    (tmp_path / "b.arrow").write_bytes(b"no arrow here, and none there")
    with pytest.raises(pa.ArrowInvalid) as caught:
        rows(scan(hr.ListingTable(tmp_path, ArrowFormat(known=known)), "id"))
    (note,) = caught.value.__notes__
    assert f"of the file {tmp_path}/b.arrow" in note


def test_file_with_another_schema_is_named_with_both_schemas(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", [1])
    for other in ({"id": pa.array([1], pa.int32()), "name": ["x"]}, {"ident": [1], "name": ["x"]}):
        table = pa.table(other)
        with pa.ipc.new_file(tmp_path / "b.arrow", table.schema) as writer:
            writer.write_table(table)
        provider = hr.ListingTable(tmp_path, ArrowFormat(known=False))
        with pytest.raises(hr.SchemaMismatchError, match=r"(?s)b\.arrow .*'id'.*expected:.*id: int64.*found:.*name"):
            rows(scan(provider, "name", "id"))
        assert len(rows(scan(provider, "name"))) == 2


def test_read_is_closed_when_spark_stops_early(tmp_path: Path) -> None:
    class Closing(ArrowFormat):
        def read(self, file: hr.DataFile, request: hr.ScanRequest) -> Iterator[pa.RecordBatch]:
            try:
                yield from super().read(file, request)
            finally:
                (tmp_path / "closed").touch()

    write(tmp_path / "a.arrow", range(5000))
    batches = iter(hr.ListingTable(tmp_path / "a.arrow", Closing()).scan(request_of_ids()).execute(0))
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert (tmp_path / "closed").exists()


def request_of_ids() -> hr.ScanRequest:
    return hr.ScanRequest(pa.schema([SCHEMA.field("id")]), ("id",))


def test_format_that_breaks_its_contract_is_told(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", [1])

    class Broken(ArrowFormat):
        def schema(self, file: hr.DataFile) -> pa.Schema:
            return ["id"]

    class Wrong(ArrowFormat):
        def read(self, file: hr.DataFile, request: hr.ScanRequest) -> Any:
            return [pa.table({"id": [1]})]

    with pytest.raises(TypeError, match="write ArrowFormat"):
        hr.ListingTable(tmp_path, ArrowFormat)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"what Broken.schema returns as a list has a pair"):
        hr.ListingTable(tmp_path, Broken())
    with pytest.raises(hr.SchemaMismatchError, match=r"Wrong.read yielded Table for the file .*a\.arrow"):
        rows(hr.ListingTable(tmp_path, Wrong()).scan(request_of_ids()))


# Every promise


@pytest.mark.daily
@pytest.mark.parametrize("options", [{}, {"exact": True}, {"known": False}], ids=["plain", "exact", "unknown"])
def test_listing_keeps_every_promise(tmp_path: Path, options: dict[str, bool]) -> None:
    for year in ("2022", "__HIVE_DEFAULT_PARTITION__"):
        for part in range(2):
            write(tmp_path / f"year={year}" / f"{part}.arrow", [*range(part * 10, part * 10 + 9), None], chunk=4)
    for partition_bytes in (300, 64 << 20):
        provider = hr.ListingTable(tmp_path, ArrowFormat(**options), partition_bytes=partition_bytes)
        report = check_provider(provider, samples=cases(2), planning_budget_s=60)
        assert report.ok, report


class Naturally(hr.FileFormat):
    """As one writes it first: rows are dicts, in the schema that is asked for."""

    def schema(self, file: hr.DataFile) -> str:
        return "name STRING, id INT"

    def read(self, file: hr.DataFile, request: hr.ScanRequest) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], schema=request.schema)


def test_format_is_asked_for_the_cheapest_column_where_no_column_of_its_files_is_needed(tmp_path: Path) -> None:
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        (tmp_path / f"year={year}" / "rows").touch()
    provider = hr.ListingTable(tmp_path, Naturally())
    provider.schema()
    plan = provider.scan(hr.ScanRequest(pa.schema([]), ()))
    assert sum(batch.num_rows for i in range(plan.partitioning.n) for batch in plan.execute(i)) == 4
    assert [row["year"] for row in rows(scan(provider, "year"))] == [2023, 2023, 2024, 2024]
