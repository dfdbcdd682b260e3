"""Timestamps that Parquet stores as INT96, and days in Spark's old calendar: read rightly, or refused by name."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import headrace as hr

UTC, NAIVE, INT = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.int64()
MOMENTS = [
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime(1500, 2, 28, 1, 2, 3, 4, tzinfo=dt.UTC),
    None,
    dt.datetime(2020, 1, 1, 3, tzinfo=dt.UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
]


def moments(type_: pa.DataType, values: Sequence[dt.datetime | None] = MOMENTS) -> pa.Array:
    return pa.array(values, UTC).cast(type_)


def int96_file(path: Path, values: pa.Table, **metadata: str) -> None:
    with pq.ParquetWriter(path, values.schema, use_deprecated_int96_timestamps=True, store_schema=False) as writer:
        writer.write_table(values)
        writer.add_key_value_metadata({f"org.apache.spark.{name}": value for name, value in metadata.items()})


def rows(provider: hr.TableProvider, *names: str, filters: tuple[hr.Expr, ...] = ()) -> list[dict[str, Any]]:
    schema = provider.schema()
    plan = provider.scan(hr.ScanRequest(pa.schema([schema.field(name) for name in names]), names, filters))
    plan = pickle.loads(cloudpickle.dumps(plan))
    return [row for i in range(plan.partitioning.n) for batch in plan.execute(i) for row in batch.to_pylist()]


def compared(op: str, value: dt.datetime, *path: str) -> hr.Expr:
    return hr.Comparison(op, hr.Column("at", path), hr.Literal(value, UTC))  # type: ignore[arg-type]


def expected(op: str, bound: dt.datetime) -> list[int]:
    passes = {"<": bound.__gt__, "<=": bound.__ge__, "=": bound.__eq__, ">": bound.__lt__, ">=": bound.__le__}[op]
    return [i for i, moment in enumerate(MOMENTS) if moment is not None and passes(moment)]


def test_int96_of_any_year_is_an_instant_and_is_filtered_so(tmp_path: Path) -> None:
    int96_file(tmp_path / "a.parquet", pa.table({"id": range(5), "at": moments(NAIVE)}))
    assert pq.read_metadata(tmp_path / "a.parquet").schema.column(1).physical_type == "INT96"
    provider = hr.DatasetTable(tmp_path)
    assert provider.schema().field("at").type == UTC
    assert [row["at"] for row in rows(provider, "at")] == MOMENTS
    for bound in filter(None, MOMENTS):
        for op in ("<", "<=", "=", ">", ">="):
            filters = (compared(op, bound),)
            assert provider.supports_filters_pushdown(filters) == [hr.FilterPushdown.EXACT]
            assert [row["id"] for row in rows(provider, "id", filters=filters)] == expected(op, bound)


def test_int96_is_told_from_timestamps_without_a_zone(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": moments(NAIVE)}), tmp_path / "a.parquet")
    assert hr.DatasetTable(tmp_path).schema().field("at").type == NAIVE


def test_int96_in_nested_columns_is_an_instant(tmp_path: Path) -> None:
    at = moments(NAIVE)
    values = {
        "id": range(5),
        "at": pa.StructArray.from_arrays([at, pa.array(range(5))], ["in", "n"]),
        "l": pa.array([[value] for value in at], pa.list_(NAIVE)),
        "m": pa.array([[("k", value)] for value in at], pa.map_(pa.string(), NAIVE)),
        "deep": pa.array([[{"x": value}] for value in at], pa.list_(pa.struct([("x", NAIVE)]))),
    }
    int96_file(tmp_path / "a.parquet", pa.table(values))
    provider = hr.DatasetTable(tmp_path)
    found = rows(provider, "at", "l", "m", "deep")
    assert [row["at"]["in"] for row in found] == MOMENTS
    assert [row["l"] for row in found] == [[moment] for moment in MOMENTS]
    assert [row["m"] for row in found] == [[("k", moment)] for moment in MOMENTS]
    assert [row["deep"] for row in found] == [[{"x": moment}] for moment in MOMENTS]
    bound = dt.datetime(2019, 1, 1, tzinfo=dt.UTC)
    assert [row["id"] for row in rows(provider, "id", filters=(compared(">", bound, "in"),))] == [3, 4]


@pytest.mark.parametrize("unit", ["ns", "ms", "s"])
def test_int96_in_a_dataset_with_a_format_of_its_own_is_read_whole(tmp_path: Path, unit: str) -> None:
    int96_file(tmp_path / "a.parquet", pa.table({"id": range(5), "at": moments(NAIVE), "s": ["x"] * 5}))
    format_ = ds.ParquetFileFormat(coerce_int96_timestamp_unit=unit, dictionary_columns={"s"}, pre_buffer=True)
    provider = hr.DatasetTable(ds.dataset(tmp_path, format=format_))
    assert [row["at"] for row in rows(provider, "at")] == MOMENTS
    assert pa.types.is_dictionary(provider.schema().field("s").type)


@pytest.mark.parametrize("first", ["int96", "int64"])
def test_files_with_int96_and_with_int64_are_read_together(tmp_path: Path, first: str) -> None:
    names = ("a", "b") if first == "int96" else ("b", "a")
    int96_file(tmp_path / f"{names[0]}.parquet", pa.table({"id": range(5), "at": moments(NAIVE)}))
    pq.write_table(pa.table({"at": moments(UTC), "id": range(5)}), tmp_path / f"{names[1]}.parquet")
    provider = hr.DatasetTable(tmp_path)
    assert provider.schema().field("at").type == UTC
    assert [row["at"] for row in rows(provider, "at")] == MOMENTS * 2
    bound = dt.datetime(2019, 1, 1, tzinfo=dt.UTC)
    assert [row["id"] for row in rows(provider, "id", filters=(compared("<", bound),))] == [0, 1] * 2


def test_int96_in_partitioned_files_is_filtered_beside_the_partition(tmp_path: Path) -> None:
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        int96_file(tmp_path / f"year={year}" / "a.parquet", pa.table({"id": range(5), "at": moments(NAIVE)}))
    provider = hr.DatasetTable(tmp_path)
    type_ = provider.schema().field("year").type
    filters = (hr.Comparison("=", hr.Column("year"), hr.Literal(2024, type_)), compared(">", MOMENTS[3]))  # type: ignore[arg-type]
    assert rows(provider, "id", "year", filters=filters) == [{"id": 4, "year": 2024}]


def test_int96_where_the_table_has_no_zone_is_refused_by_name(tmp_path: Path) -> None:
    for i in range(16):
        if i == 15:
            int96_file(tmp_path / f"{i:02}.parquet", pa.table({"id": [1], "at": moments(NAIVE, [None])}))
        else:
            pq.write_table(pa.table({"id": [1]}), tmp_path / f"{i:02}.parquet")
    schema = pa.schema([("id", INT), ("at", NAIVE)])
    provider = hr.DatasetTable(ds.dataset(tmp_path, schema=schema))
    assert len(rows(provider, "id")) == 16
    with pytest.raises(hr.SchemaMismatchError, match=r"'at' of file .*15\.parquet is stored as INT96"):
        rows(provider, "at")
    zoned = hr.DatasetTable(ds.dataset(tmp_path, schema=schema.set(1, pa.field("at", UTC))))
    assert len(rows(zoned, "at")) == 16


OLD_DAY, OLD_MOMENT = dt.date(1582, 10, 4), dt.datetime(1899, 12, 31, tzinfo=dt.UTC)
NEW_DAY, NEW_MOMENT = dt.date(1582, 10, 15), dt.datetime(1900, 1, 1, tzinfo=dt.UTC)
LEGACY = {"version": "3.5.0", "legacyDateTime": ""}
LEGACY_INT96 = {"version": "3.5.0", "legacyINT96": ""}


def calendar_file(path: Path, day: dt.date, moment: dt.datetime, *, int96: bool = False, **metadata: str) -> None:
    values = {
        "id": [1, 2, 3],
        "d": pa.array([dt.date(2020, 1, 1), day, None]),
        "at": moments(NAIVE if int96 else UTC, [NEW_MOMENT, moment, None]),
        "n": moments(NAIVE if not int96 else INT, [NEW_MOMENT, OLD_MOMENT, None]),
        "in": pa.array([[{"d": day}], None, [None]], pa.list_(pa.struct([("d", pa.date32())]))),
    }
    if int96:
        int96_file(path, pa.table(values), **metadata)
    else:
        marked = {f"org.apache.spark.{name}": value for name, value in metadata.items()}
        pq.write_table(pa.table(values).replace_schema_metadata(marked), path)


def is_refused(provider: hr.TableProvider, *names: str, filters: tuple[hr.Expr, ...] = ()) -> bool:
    try:
        rows(provider, *names, filters=filters)
    except ValueError as error:
        assert "a.parquet may have" in str(error)
        return True
    return False


@pytest.mark.parametrize(
    ("metadata", "int96", "dates", "instants"),
    [
        ({}, False, False, False),
        ({"version": "3.0.0"}, False, False, False),
        ({"version": "4.3.0"}, True, False, False),
        ({"version": "2.4.8"}, False, True, True),
        ({"version": "3.0.3"}, True, False, True),
        ({"version": "3.1.0"}, True, False, False),
        ({"version": "10.1.0"}, True, False, False),
        (LEGACY, False, True, True),
        (LEGACY, True, True, False),
        (LEGACY_INT96, True, False, True),
        (LEGACY_INT96, False, False, False),
    ],
)
def test_old_days_are_refused_where_spark_would_rebase_them(
    tmp_path: Path, metadata: dict[str, str], int96: bool, dates: bool, instants: bool
) -> None:
    calendar_file(tmp_path / "a.parquet", OLD_DAY, OLD_MOMENT, int96=int96, **metadata)
    provider = hr.DatasetTable(tmp_path)
    refused = [is_refused(provider, name) for name in ("id", "d", "at", "n", "in")]
    assert refused == [False, dates, instants, False, dates]
    day = hr.Comparison(">", hr.Column("d"), hr.Literal(dt.date(2000, 1, 1), pa.date32()))
    assert is_refused(provider, "id", filters=(day,)) == dates
    assert is_refused(provider, "id", filters=(compared(">", NEW_MOMENT),)) == instants


@pytest.mark.parametrize("metadata", [LEGACY, LEGACY_INT96], ids=["int64", "int96"])
def test_days_since_the_switch_are_read_and_filtered_in_legacy_files(tmp_path: Path, metadata: dict[str, str]) -> None:
    calendar_file(tmp_path / "a.parquet", NEW_DAY, NEW_MOMENT, int96=metadata is LEGACY_INT96, **metadata)
    provider = hr.DatasetTable(tmp_path)
    assert [row["d"] for row in rows(provider, "d")] == [dt.date(2020, 1, 1), NEW_DAY, None]
    filters = (
        compared(">=", NEW_MOMENT),
        hr.Comparison("=", hr.Column("d"), hr.Literal(NEW_DAY, pa.date32())),
    )
    assert rows(provider, "id", filters=filters) == [{"id": 2}]
    assert rows(provider, "id", "at", filters=filters) == [{"id": 2, "at": NEW_MOMENT}]


def test_old_dates_of_orc_files_by_pyarrow_are_read(tmp_path: Path) -> None:
    pyarrow.orc.write_table(pa.table({"id": [1], "d": pa.array([OLD_DAY])}), tmp_path / "a.orc")
    provider = hr.DatasetTable(tmp_path, format="orc")
    assert rows(provider, "d") == [{"d": OLD_DAY}]  # pyarrow's writer follows Arrow's calendar
