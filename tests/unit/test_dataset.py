"""DatasetTable: what pyarrow is asked to skip, and how files become partitions."""

from __future__ import annotations

import gzip
import math
import pickle
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.fs
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import headrace as hr
from effort import cases
from headrace.testing import check_provider
from parquet_files import ROWS, table, years


def scan(
    provider: hr.TableProvider, *names: str, filters: tuple[hr.Expr, ...] = (), limit: int | None = None
) -> hr.ExecutionPlan:
    schema = provider.schema()
    request = hr.ScanRequest(pa.schema([schema.field(name) for name in names]), names, filters, limit)
    return pickle.loads(cloudpickle.dumps(provider.scan(request)))


def batches(plan: hr.ExecutionPlan) -> list[pa.RecordBatch]:
    return [batch for i in range(plan.partitioning.n) for batch in plan.execute(i)]


def rows(plan: hr.ExecutionPlan) -> list[dict[str, Any]]:
    return [row for batch in batches(plan) for row in batch.to_pylist()]


def column(name: str, op: str, value: Any, type_: pa.DataType | None = None) -> hr.Expr:
    return compared(hr.Column(name), op, hr.Literal(value, type_ or pa.scalar(value).type))


def compared(column: hr.Column, op: str, literal: hr.Literal) -> hr.Expr:
    if op == "!=":
        return hr.Not(hr.Comparison("=", column, literal))
    return hr.Comparison(op, column, literal)  # type: ignore[arg-type]


WRITERS = {
    "parquet": lambda data, path: pq.write_table(data, path),
    "csv": lambda data, path: pyarrow.csv.write_csv(data, path),
    "feather": lambda data, path: pyarrow.feather.write_feather(data, path),
    "orc": lambda data, path: pyarrow.orc.write_table(data, path),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_dataset_of_each_format_has_its_rows(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"data.{kind}"
    WRITERS[kind](table(100), path)
    for source in (path, str(path), [path], ds.dataset(path, format=kind)):
        provider = hr.DatasetTable(source)
        wanted = column("id", ">=", 90)
        assert list(provider.supports_filters_pushdown([wanted])) == [hr.FilterPushdown.EXACT]
        assert rows(scan(provider, "name", "id", filters=(wanted,))) == table(10, 90).select(["name", "id"]).to_pylist()
        assert sum(batch.num_rows for batch in batches(scan(provider))) == 100


@pytest.mark.parametrize("text", ['{"id": 1}', '\r\n {"id": 1} ', '{"id": 1}\n', '{"id": 1}\n\n'])
@pytest.mark.parametrize("ending", ["json", "json.gz"])
def test_json_file_of_one_line_is_read_with_and_without_an_end_of_line(text: str, ending: str, tmp_path: Path) -> None:
    """pyarrow shows nulls where the only line has no end."""
    for year in (2023, 2024):
        file = tmp_path / f"year={year}" / f"a.{ending}"
        file.parent.mkdir()
        file.write_bytes(gzip.compress(text.encode()) if ending.endswith("gz") else text.encode())
    dataset = hr.DatasetTable(tmp_path)
    assert rows(scan(dataset, "id", "year")) == [{"id": 1, "year": 2023}, {"id": 1, "year": 2024}]
    assert rows(scan(dataset, "id", filters=(column("id", ">", 1),))) == []
    assert check_provider(dataset).ok


def test_dataset_large_parquet_file_is_split_between_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "big.parquet"
    pq.write_table(table(), path, row_group_size=500)
    provider = hr.DatasetTable(path, partition_bytes=path.stat().st_size // 5)
    plan = scan(provider, "id")
    shares = [[row["id"] for batch in plan.execute(i) for row in batch.to_pylist()] for i in range(plan.partitioning.n)]
    assert len(shares) >= 5
    assert sorted(i for share in shares for i in share) == list(range(ROWS))
    assert max(map(len, shares)) <= 3 * ROWS // 5
    assert sum(batch.num_rows for batch in batches(scan(provider))) == ROWS
    more_pieces_than_row_groups = hr.DatasetTable(path, partition_bytes=path.stat().st_size // 50)
    assert len(rows(scan(more_pieces_than_row_groups, "id"))) == ROWS


def test_dataset_point_filter_reads_one_row_group(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path, row_group_size=1000)
    damaged = bytearray(path.read_bytes())
    first = pq.read_metadata(path).row_group(0)
    start = first.column(0).dictionary_page_offset or first.column(0).data_page_offset
    damaged[start : start + first.total_byte_size // 2] = b"\xff" * (first.total_byte_size // 2)
    path.write_bytes(damaged)
    provider = hr.DatasetTable(path)
    assert rows(scan(provider, "id", filters=(column("id", "=", 4711),))) == [{"id": 4711}]
    with pytest.raises((OSError, pa.ArrowException), match=r"file .*a\.parquet: repair it"):
        rows(scan(provider, "id", filters=(column("id", "=", 7),)))


def test_dataset_hive_partitions_are_skipped_and_reported(tmp_path: Path) -> None:
    provider = hr.DatasetTable(years(tmp_path / "data"))
    assert provider.schema().names == ["id", "x", "name", "year"]
    recent = scan(provider, "id", filters=(column("year", "=", 2023, pa.int32()),))
    assert recent.describe() == "parquet, 2 of 6 files"
    assert sorted(row["id"] for row in rows(recent)) == list(range(20, 40))
    unknown = scan(provider, "id", filters=(hr.IsNull(hr.Column("year")),))
    assert sorted(row["id"] for row in rows(unknown)) == list(range(40, 60))
    plan = scan(provider, "year", "id")
    assert plan.partitioning == hr.KeyPartitioning("year", [2022, 2023, None])
    for i, key in enumerate(plan.partitioning.keys):
        assert {(row["year"],) for batch in plan.execute(i) for row in batch.to_pylist()} == {key}
    assert isinstance(scan(provider, "id").partitioning, hr.UnknownPartitioning)


def test_dataset_narrowed_to_row_groups_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path, row_group_size=1000)
    whole = ds.dataset(path)
    (fragment,) = whole.get_fragments()
    narrowed = ds.FileSystemDataset(
        [fragment.subset(row_group_ids=[2, 5])], whole.schema, whole.format, whole.filesystem
    )
    for size in (path.stat().st_size, path.stat().st_size // 4):
        provider = hr.DatasetTable(narrowed, partition_bytes=size)
        assert sorted(row["id"] for row in rows(scan(provider, "id"))) == [*range(2000, 3000), *range(5000, 6000)]


def test_dataset_options_of_the_user_reach_the_executors(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1;none\n2;b\n")
    format = ds.CsvFileFormat(
        parse_options=pyarrow.csv.ParseOptions(delimiter=";"),
        read_options=pyarrow.csv.ReadOptions(column_names=["a", "b"]),
        convert_options=pyarrow.csv.ConvertOptions(null_values=["none"], strings_can_be_null=True),
    )
    provider = hr.DatasetTable(ds.dataset(tmp_path, format=format))
    assert rows(scan(provider, "b", "a")) == [{"b": None, "a": 1}, {"b": "b", "a": 2}]


def test_dataset_union_reads_both_children(tmp_path: Path) -> None:
    pq.write_table(table(10), tmp_path / "a.parquet")
    pyarrow.feather.write_feather(table(10, 10), tmp_path / "b.feather")
    union = ds.dataset([ds.dataset(tmp_path / "a.parquet"), ds.dataset(tmp_path / "b.feather", format="feather")])
    provider = hr.DatasetTable(union)
    assert sorted(row["id"] for row in rows(scan(provider, "id"))) == list(range(20))
    assert provider.statistics().num_rows is None


def test_dataset_of_another_filesystem_is_read_through_it(tmp_path: Path) -> None:
    pq.write_table(table(10), tmp_path / "a.parquet")
    inside = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    assert len(rows(scan(hr.DatasetTable("a.parquet", filesystem=inside), "id"))) == 10


def test_dataset_statistics_come_from_footers(tmp_path: Path) -> None:
    for i in range(20):
        pq.write_table(table(100), tmp_path / f"{i}.parquet")
    provider = hr.DatasetTable(tmp_path)
    assert provider.statistics().num_rows == 2000
    one, all_columns = scan(provider, "id").statistics(), scan(provider, *provider.schema().names).statistics()
    assert one is not None
    assert all_columns is not None
    assert one.num_rows == 2000
    assert 16_000 <= one.size_in_bytes < all_columns.size_in_bytes  # type: ignore[operator]


def test_dataset_plan_of_a_thousand_files_stays_small(tmp_path: Path) -> None:
    pq.write_table(table(1), tmp_path / "a.parquet")
    paths = [str(tmp_path / f"year={i % 20}" / f"{i:04}.parquet") for i in range(1000)]
    format, local = ds.ParquetFileFormat(), pyarrow.fs.LocalFileSystem()
    fragments = [
        format.make_fragment(path, local, ds.field("year") == i % 20, file_size=100) for i, path in enumerate(paths)
    ]
    schema = pa.schema([*table(1).schema, ("year", pa.int64())])
    provider = hr.DatasetTable(ds.FileSystemDataset(fragments, schema, format, local))
    request = hr.ScanRequest(pa.schema([schema.field("id")]), ("id",))
    assert len(cloudpickle.dumps(provider.scan(request))) < 200_000


def test_dataset_limit_asks_for_few_rows(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "a.parquet")
    provider = hr.DatasetTable(tmp_path)
    assert [batch.num_rows for batch in batches(scan(provider, "id", limit=5))] == [5]


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_dataset_string_views_are_shown_and_filtered_as_strings(tmp_path: Path, kind: str) -> None:
    data = table(20).set_column(2, "name", table(20).column("name").cast(pa.string_view()))
    WRITERS[kind](data, tmp_path / f"a.{kind}")
    provider = hr.DatasetTable(tmp_path / f"a.{kind}")
    assert provider.schema().field("name").type == pa.string()
    filters = (column("name", "=", "n3"), column("id", "<", 10))
    assert list(provider.supports_filters_pushdown(filters)) == [hr.FilterPushdown.EXACT] * 2
    assert rows(scan(provider, "name", "id", filters=filters)) == [{"name": "n3", "id": 3}]
    assert len(rows(scan(provider, "name"))) == 20


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_dataset_string_views_in_structs_are_filtered_as_strings(tmp_path: Path, kind: str) -> None:
    structs = pa.array([{"a": "x"}, {"a": "y"}, None], pa.struct([("a", pa.string_view())]))
    WRITERS[kind](pa.table({"id": [1, 2, 3], "n": structs}), tmp_path / f"a.{kind}")
    provider = hr.DatasetTable(tmp_path / f"a.{kind}")
    filters = (hr.Comparison("=", hr.Column("n", ("a",)), hr.Literal("y", pa.string())),)
    assert list(provider.supports_filters_pushdown(filters)) == [hr.FilterPushdown.EXACT]
    assert rows(scan(provider, "id", "n", filters=filters)) == [{"id": 2, "n": {"a": "y"}}]


@pytest.mark.parametrize(
    "stored", [pa.string(), pa.string_view(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
@pytest.mark.parametrize("first", [pa.string(), pa.string_view()], ids=str)
def test_dataset_files_may_store_a_string_differently(tmp_path: Path, first: pa.DataType, stored: pa.DataType) -> None:
    """What the first file has decides how the column is shown."""
    for name, type_, start in (("a", first, 0), ("b", stored, 20)):
        data = table(20, start)
        data = data.set_column(2, "name", data.column("name").combine_chunks().cast(type_))
        WRITERS["feather"](data, tmp_path / f"{name}.feather")
    provider = hr.DatasetTable([tmp_path / "a.feather", tmp_path / "b.feather"])
    filters = (column("name", "=", "n3"),)
    assert list(provider.supports_filters_pushdown(filters)) == [hr.FilterPushdown.EXACT]
    found = rows(scan(provider, "name", "id", filters=filters))
    assert found == [{"name": "n3", "id": i} for i in range(40) if i % 7 == 3]


def test_dataset_file_that_vanished_is_named(tmp_path: Path) -> None:
    pq.write_table(table(10), tmp_path / "a.parquet")
    provider = hr.DatasetTable(tmp_path)
    (tmp_path / "a.parquet").unlink()
    plan = scan(provider, "id", filters=(column("id", "=", 1),))  # planning opens nothing
    with pytest.raises(FileNotFoundError, match=r"a\.parquet: it was there when the DatasetTable was made"):
        rows(plan)


@pytest.mark.daily
@pytest.mark.parametrize("kind", ["memory", "memory twice", "memory and files"])
def test_dataset_with_data_in_memory_keeps_every_promise(tmp_path: Path, kind: str) -> None:
    views = table(60).append_column("v", pa.array([None, "a", "b"] * 20, pa.string_view()))
    in_memory = ds.dataset(views)
    pq.write_table(views, tmp_path / "a.parquet")
    parts = {"memory": [], "memory twice": [in_memory], "memory and files": [ds.dataset(tmp_path)]}[kind]
    provider = hr.DatasetTable(ds.dataset([in_memory, *parts]) if parts else in_memory, partition_bytes=500)
    plan = scan(provider, "id", filters=(column("id", "<", 30),))
    assert plan.placement is hr.Placement.DRIVER
    assert plan.partitioning.n > 1
    assert "rows in memory" in plan.describe()
    assert sorted(row["id"] for row in rows(plan)) == sorted(list(range(30)) * (len(parts) + 1))
    report = check_provider(provider, samples=1, planning_budget_s=10)
    assert report.ok, report


def test_dataset_in_memory_is_counted_exactly() -> None:
    assert hr.DatasetTable(ds.dataset(table(1000))).statistics() == hr.Statistics(1000, table(1000).nbytes)


def test_dataset_that_is_no_table_is_refused(tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table(1), sink)
    open_file = ds.ParquetFileFormat().make_fragment(pa.BufferReader(sink.getvalue()))
    with pytest.raises(TypeError, match="of an open file or stream"):
        hr.DatasetTable(ds.FileSystemDataset([open_file], table(1).schema, ds.ParquetFileFormat()))
    with pytest.raises(FileNotFoundError):
        hr.DatasetTable(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="there is no file with columns"):
        hr.DatasetTable(tmp_path)


@pytest.mark.daily
def test_dataset_keeps_every_promise(tmp_path: Path) -> None:
    awkward = pa.table(
        {
            "i": [None, -1, 0, 5, 2**62, 0],
            "f": [math.nan, -0.0, 0.0, None, math.inf, 1.5],
            "s": ["", None, "a", "é", "ab%", "a"],
        }
    )
    for year in ("2022", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(awkward, tmp_path / f"year={year}" / "a.parquet", row_group_size=2)
    report = check_provider(hr.DatasetTable(tmp_path), samples=cases(2), planning_budget_s=60)
    assert report.ok, report


@pytest.mark.parametrize("encoding", ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "PLAIN"])
def test_text_with_few_values_is_read_whatever_the_encoding(tmp_path: Path, encoding: str) -> None:
    """pyarrow makes no dictionaries of the first two."""
    data = pa.table({"s": [""] * 3000, "y": [b"", b"", None] * 1000})
    encodings = {"s": encoding, "y": encoding}
    pq.write_table(data, tmp_path / "0.parquet", use_dictionary=False, column_encoding=encodings)
    pq.write_table(data, tmp_path / "1.parquet")
    plan = scan(hr.DatasetTable(tmp_path), "s", "y")
    assert rows(plan) == data.to_pylist() * 2
    assert pa.types.is_dictionary(plan.schema.field("s").type) or encoding == "PLAIN"


@pytest.mark.parametrize("op", ["!=", ">", ">=", "<=", "=", "<"])
def test_file_without_the_columns_of_a_filter_gives_no_row_too_many(tmp_path: Path, op: str) -> None:
    """pyarrow lets one null row pass where a filter names NaN and the file has no column that the scan reads."""
    pq.write_table(pa.table({"id": range(7)}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"id": [7, 8], "x": [1.5, math.nan], "st": [{"x": 1.5}] * 2}), tmp_path / "1.parquet")
    schema = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("st", pa.struct([("x", pa.float64())]))])
    provider = hr.DatasetTable(ds.dataset(tmp_path, schema=schema))
    above, equal = op in ("!=", ">", ">="), op in ("<=", ">=", "=")
    wanted = int(equal) + int(above)  # NaN is greater than all
    for names in (("x",), ("st",), ("id",), ("x", "st"), ()):
        found = batches(scan(provider, *names, filters=(column("x", op, 1.5),)))
        assert sum(batch.num_rows for batch in found) == wanted
    in_struct = compared(hr.Column("st", ("x",)), op, hr.Literal(2.5, pa.float64()))
    pq.write_table(pa.table({"id": range(7), "st": [{"a": 1}] * 7}), tmp_path / "2.parquet")
    schema = schema.set(2, pa.field("st", pa.struct([("a", pa.int64()), ("x", pa.float64())])))
    provider = hr.DatasetTable(ds.dataset(tmp_path, schema=schema))
    for names in (("st",), ("x",), ("id",), ()):
        wanted = 2 if op in ("!=", "<", "<=") else 0
        assert sum(batch.num_rows for batch in batches(scan(provider, *names, filters=(in_struct,)))) == wanted


def test_partition_column_of_floats_is_filtered_where_nothing_else_is_read(tmp_path: Path) -> None:
    for key in ("0.0", "1.5", "nan"):
        (tmp_path / f"p={key}").mkdir()
        pq.write_table(pa.table({"id": range(7)}), tmp_path / f"p={key}" / "0.parquet")
    partitioning = ds.partitioning(pa.schema([("p", pa.float64())]), flavor="hive")
    provider = hr.DatasetTable(tmp_path, partitioning=partitioning)
    assert len(rows(scan(provider, "p", filters=(column("p", "!=", 0.0),)))) == 14
    assert len(rows(scan(provider, "p", filters=(column("p", ">", 1.0),)))) == 14
    assert len(rows(scan(provider, "p", filters=(column("p", "<", 1.0),)))) == 7
