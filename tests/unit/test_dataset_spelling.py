"""Files whose columns are not spelled or typed as the table's: read as Spark reads them, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.testing import check_provider

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
WRITERS: dict[str, Callable[[pa.Table, Any], None]] = {
    "parquet": pq.write_table,
    "csv": csv.write_csv,
    "orc": orc.write_table,
    "feather": lambda table, path: feather.write_feather(table, str(path)),
}
AFTER_1 = hr.Comparison(">", hr.Column("id"), hr.Literal(1, pa.int64()))


def rows(table: hr.DatasetTable, *filters: hr.Expr) -> list[dict[str, Any]]:
    schema = table.schema()
    plan = table.scan(hr.ScanRequest(schema, tuple(schema.names), filters))
    batches = [batch for i in range(plan.partitioning.n) for batch in plan.execute(i)]
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("format", WRITERS)
def test_column_that_a_file_spells_in_another_case_is_the_tables(format: str, tmp_path: Path) -> None:
    WRITERS[format](pa.table({"ID": [1, 2], "v": [3, 4]}), tmp_path / f"a.{format}")
    WRITERS[format](pa.table({"id": [5]}), tmp_path / f"b.{format}")
    table = hr.DatasetTable(tmp_path, schema=SCHEMA)
    assert rows(table) == [{"id": 1, "v": 3}, {"id": 2, "v": 4}, {"id": 5, "v": None}]
    assert rows(table, AFTER_1) == [{"id": 2, "v": 4}, {"id": 5, "v": None}]
    assert check_provider(table).ok


A, CAPITAL = pa.struct([("a", pa.int64())]), pa.struct([("A", pa.int64())])
NESTED: dict[str, tuple[pa.DataType, pa.DataType, Any, Any]] = {
    "struct": (A, CAPITAL, {"A": 2}, {"a": 2}),
    "another type": (A, pa.struct([("A", pa.float64()), ("b", pa.int8())]), {"A": 2.0, "b": 1}, {"a": 2}),
    "list": (pa.list_(A), pa.large_list(CAPITAL), [{"A": 2}, None], [{"a": 2}, None]),
    "map": (pa.map_(pa.string(), A), pa.map_(pa.string(), CAPITAL), [("A", {"A": 2})], [("A", {"a": 2})]),
    "struct in a struct": (pa.struct([("s", A)]), pa.struct([("S", CAPITAL)]), {"S": {"A": 2}}, {"s": {"a": 2}}),
}


@pytest.mark.parametrize("name", ["n", "N"])
@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("format", ["parquet", "feather"])
def test_nested_fields_that_a_file_spells_in_another_case_are_the_tables(
    format: str, kind: str, name: str, tmp_path: Path
) -> None:
    """pyarrow would show nulls."""
    type_, stored, value, expected = NESTED[kind]
    WRITERS[format](pa.table({name: pa.array([value, None], stored)}), tmp_path / f"a.{format}")
    table = hr.DatasetTable(tmp_path, schema=pa.schema([("n", type_)]))
    assert rows(table) == [{"n": expected}, {"n": None}]
    assert rows(table, hr.Not(hr.IsNull(hr.Column("n")))) == [{"n": expected}]
    assert check_provider(table).ok


def test_file_with_several_spellings_of_a_nested_field_is_refused_by_name(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.struct([("a", pa.int64())]))])
    pq.write_table(pa.table({"n": [{"A": 1}]}), tmp_path / "a.parquet")
    assert rows(hr.DatasetTable(tmp_path, schema=schema)) == [{"n": {"a": 1}}]
    table = hr.DatasetTable(tmp_path, schema=pa.schema([("n", pa.struct([("aa", pa.int64())]))]))
    pq.write_table(pa.table({"n": [{"AA": 1, "Aa": 2}]}), tmp_path / "a.parquet")
    with pytest.raises(hr.SchemaMismatchError, match=r"'n.aa' .* 'AA', 'Aa'"):
        rows(table)


def test_instant_that_a_file_spells_in_another_case_is_no_timestamp_without_a_zone(tmp_path: Path) -> None:
    instants = pa.table({"AT": pa.array([0], pa.timestamp("us"))})
    pq.write_table(instants, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    table = hr.DatasetTable(tmp_path, schema=pa.schema([("at", pa.timestamp("us"))]))
    with pytest.raises(hr.SchemaMismatchError, match="INT96"):
        rows(table)


def test_file_with_several_spellings_of_a_column_is_refused_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ID": [1], "Id": [2]}), tmp_path / "a.parquet")
    with pytest.raises(hr.SchemaMismatchError, match="'ID', 'Id'"):
        rows(hr.DatasetTable(tmp_path, schema=SCHEMA))


def test_column_that_a_file_has_as_the_table_spells_it_comes_before_others(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ID": [1], "id": [2]}), tmp_path / "a.parquet")
    assert rows(hr.DatasetTable(tmp_path, schema=SCHEMA)) == [{"id": 2, "v": None}]


@pytest.mark.parametrize("name", ["c", "C"])
def test_lists_of_an_arrow_file_that_would_need_a_fixed_size_are_refused_by_name(name: str, tmp_path: Path) -> None:
    """pyarrow ends the process."""
    feather.write_feather(pa.table({name: pa.array([None], pa.list_(pa.float32()))}), str(tmp_path / "a.feather"))
    dataset = ds.dataset(tmp_path, schema=pa.schema([("c", pa.list_(pa.float32(), 2))]), format="feather")
    with pytest.raises(hr.SchemaMismatchError, match=rf"'{name}' of file .* fixed_size_list"):
        rows(hr.DatasetTable(dataset))
