"""DatasetTable reads text with few values as dictionaries, and gives the same rows whatever the files store."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.testing import check_provider

ROWS = 20_000
ENCODED = pa.dictionary(pa.int32(), pa.string())
DATA = pa.table(
    {
        "few": pa.array(["red", "green", None, "blue"] * (ROWS // 4)),
        "bytes": pa.array([b"x", b"y"] * (ROWS // 2)),
        "many": pa.array([f"text {i}" for i in range(ROWS)]),
        "n": pa.array(range(ROWS)),
    }
)


def scanned(provider: hr.TableProvider, *names: str, filters: tuple[hr.Expr, ...] = ()) -> hr.ExecutionPlan:
    schema = pa.schema([provider.schema().field(name) for name in names])
    return pickle.loads(cloudpickle.dumps(provider.scan(hr.ScanRequest(schema, names, filters, None))))


def read(plan: hr.ExecutionPlan) -> pa.Table:
    batches = [batch for i in range(plan.partitioning.n) for batch in plan.execute(i)]
    return pa.Table.from_batches(batches, plan.schema)


def equals(name: str, value: Any) -> hr.Expr:
    return hr.Comparison("=", hr.Column(name), hr.Literal(value, pa.scalar(value).type))


def test_text_with_few_values_is_read_as_a_dictionary_and_shown_as_text(tmp_path: Path) -> None:
    pq.write_table(DATA, tmp_path / "data.parquet")
    provider = hr.DatasetTable(tmp_path)
    assert provider.schema().field("few").type == pa.string()
    plan = scanned(provider, "few", "bytes", "many", "n")
    assert plan.schema.types == [ENCODED, pa.dictionary(pa.int32(), pa.binary()), pa.string(), pa.int64()]
    assert read(plan).to_pydict() == DATA.to_pydict()
    assert {len(chunk.dictionary) for chunk in read(plan)["few"].chunks} == {3}


def test_text_that_is_filtered_is_read_plainly(tmp_path: Path) -> None:
    pq.write_table(DATA, tmp_path / "data.parquet")
    starts = hr.StringMatch("STARTS_WITH", hr.Column("few"), hr.Literal("r", pa.string()))
    plan = scanned(hr.DatasetTable(tmp_path), "few", "bytes", filters=(starts,))
    assert plan.schema.types == [pa.string(), pa.dictionary(pa.int32(), pa.binary())]
    assert set(read(plan)["few"].to_pylist()) == {"red"}
    plan = scanned(hr.DatasetTable(tmp_path), "few", filters=(equals("n", 3),))
    assert read(plan).to_pydict() == {"few": ["blue"]}


@pytest.mark.parametrize(
    "other",
    [
        DATA.drop_columns(["few"]),
        DATA.set_column(0, "few", pa.array(range(ROWS))),
        DATA.set_column(0, "few", DATA["few"].cast(pa.large_string())),
        DATA.set_column(0, "few", DATA["few"].combine_chunks().cast(pa.string_view())),
        DATA.set_column(0, "few", DATA["few"].combine_chunks().dictionary_encode()),
    ],
    ids=["missing", "numbers", "large text", "views", "dictionaries"],
)
def test_file_that_stores_another_type_gives_the_same_dictionaries(tmp_path: Path, other: pa.Table) -> None:
    pq.write_table(DATA, tmp_path / "a.parquet")
    pq.write_table(other, tmp_path / "b.parquet")
    plan = scanned(hr.DatasetTable(ds.dataset(tmp_path, schema=DATA.schema, format="parquet")), "few", "n")
    expected = other["few"].cast(pa.string()).to_pylist() if "few" in other.schema.names else [None] * ROWS
    assert read(plan)["few"].to_pylist() == [*DATA["few"].to_pylist(), *expected]


def test_file_without_an_encoding_is_read_plainly(tmp_path: Path) -> None:
    pq.write_table(DATA, tmp_path / "data.parquet", use_dictionary=False)
    assert scanned(hr.DatasetTable(tmp_path), "few").schema.types == [pa.string()]


def test_format_with_options_of_the_users_is_left_alone(tmp_path: Path) -> None:
    pq.write_table(DATA, tmp_path / "data.parquet")
    options = ds.ParquetFileFormat(default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=False))
    provider = hr.DatasetTable(ds.dataset(tmp_path, format=options))
    assert scanned(provider, "few").schema.types == [pa.string()]


@pytest.mark.daily
def test_table_with_dictionaries_keeps_every_promise(tmp_path: Path) -> None:
    pq.write_table(DATA, tmp_path / "data.parquet", row_group_size=5000)
    check_provider(hr.DatasetTable(tmp_path)).raise_if_failed()
