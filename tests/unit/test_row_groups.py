"""Parquet row groups that a DatasetTable skips by their statistics, also where these tell of nulls; no row is lost."""

from __future__ import annotations

import pickle
from pathlib import Path
from random import Random
from typing import Any

import cloudpickle
import fsspec.implementations.local
import polars as pl
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import headrace as hr
from effort import cases
from headrace.tables.dataset.row_groups import RowGroupPruning
from random_predicates import POOLS, SCHEMA, one_batch, random_predicate, random_table

INT, TEXT = pa.int64(), pa.string()
GROUP = 100


def with_nulls() -> pa.Table:
    """Ten row groups in order of ``x``, with two nulls each; all of the fourth is null in ``gone``."""
    x = [None if i % GROUP < 2 else i for i in range(10 * GROUP)]
    gone = [None if i // GROUP == 3 else i for i in range(10 * GROUP)]
    names = [None if value is None else f"name {value:05}" for value in x]
    return pa.table({"x": pa.array(x, INT), "gone": pa.array(gone, INT), "name": names, "row": range(10 * GROUP)})


def compared(op: Any, value: Any, column: str = "x") -> hr.Expr:
    return hr.Comparison(op, hr.Column(column), hr.Literal(value, pa.scalar(value).type))


def one_of(values: range) -> hr.Expr:
    return hr.InList(hr.Column("x"), tuple(hr.Literal(value, INT) for value in values))


def starts_with(text: str) -> hr.Expr:
    return hr.StringMatch("STARTS_WITH", hr.Column("name"), hr.Literal(text, TEXT))


def planned(
    provider: hr.TableProvider,
    filters: tuple[hr.Expr, ...] = (),
    learnt: tuple[hr.Expr, ...] = (),
    columns: tuple[str, ...] = (),
) -> hr.ExecutionPlan:
    schema = provider.schema()
    names = columns or tuple(schema.names)
    needed = pa.schema([schema.field(name) for name in names])
    request = hr.ScanRequest(needed, names, filters, None, runtime_filters=learnt)
    return pickle.loads(cloudpickle.dumps(provider.scan(request)))


def rows(plan: hr.ExecutionPlan) -> list[dict[str, Any]]:
    return [row for i in range(plan.partitioning.n) for batch in plan.execute(i) for row in batch.to_pylist()]


def damage_all_but(path: Path, kept: set[int]) -> None:
    """Overwrites the values of the other row groups: whoever reads them fails."""
    content = bytearray(path.read_bytes())
    metadata = pq.read_metadata(path)
    for i in set(range(metadata.num_row_groups)) - kept:
        columns = [metadata.row_group(i).column(at) for at in range(metadata.num_columns)]
        start = min(column.dictionary_page_offset or column.data_page_offset for column in columns)
        stop = start + sum(column.total_compressed_size for column in columns)
        content[start:stop] = b"\xff" * (stop - start)
    path.write_bytes(content)


@pytest.mark.parametrize("runtime", [False, True], ids=["pushed", "learnt"])
@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        (compared("<", 50), {0}),
        (compared("=", 555), {5}),
        (hr.And(compared(">=", 350), compared("<", 420)), {3, 4}),
        (hr.Or(compared("<", 50), compared(">", 950)), {0, 9}),
        (one_of(range(205, 217)), {2}),
        (one_of(range(7, 1000, 890)), {0, 8}),
        (starts_with("name 004"), {4}),
        (compared("=", "name 00777", "name"), {7}),
        (hr.IsNull(hr.Column("gone")), {3}),
        (hr.And(compared(">=", 200, "gone"), compared("<", 500, "gone")), {2, 4}),
        (compared(">", 5000), set()),
    ],
    ids=repr,
)
def test_row_groups_with_nulls_are_skipped(tmp_path: Path, wanted: hr.Expr, kept: set[int], runtime: bool) -> None:
    path = tmp_path / "a.parquet"
    data = with_nulls()
    pq.write_table(data, path, row_group_size=GROUP)
    damage_all_but(path, kept)
    provider = hr.DatasetTable(path)
    found = rows(planned(provider, *(((), (wanted,)) if runtime else ((wanted,), ()))))
    expected = data.filter(wanted.evaluate(one_batch(data)), null_selection_behavior="drop")
    assert found == expected.to_pylist()


def test_row_groups_of_a_split_file_are_skipped_in_each_part(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(with_nulls(), path, row_group_size=GROUP)
    damage_all_but(path, {1, 8})
    plan = planned(hr.DatasetTable(path, partition_bytes=path.stat().st_size // 5), (one_of(range(105, 900, 700)),))
    assert plan.partitioning.n >= 5
    assert [row["x"] for row in rows(plan)] == [105, 805]


def test_row_groups_are_asked_by_the_values_of_a_list_that_rows_are_not(tmp_path: Path) -> None:
    """A list that nearly all rows pass is not looked up row by row; row groups without any of its values go."""
    path = tmp_path / "a.parquet"
    pq.write_table(with_nulls(), path, row_group_size=GROUP)
    damage_all_but(path, {0, 1, 2, 3, 5, 6, 7, 8, 9})
    keys = hr.InList(
        hr.Column("x"), tuple(hr.Literal(value, INT) for value in range(10 * GROUP) if value // GROUP != 4)
    )
    found = rows(planned(hr.DatasetTable(path), (), (keys,)))
    assert {row["x"] for row in found} >= {value for value in range(10 * GROUP) if value % GROUP > 1} - set(
        range(400, 500)
    )


def test_partition_column_that_the_file_stores_too_is_not_asked_of_the_footer(tmp_path: Path) -> None:
    (tmp_path / "x=7").mkdir()
    pq.write_table(pa.table({"x": pa.array([900, None], pa.int32()), "row": [1, 2]}), tmp_path / "x=7" / "a.parquet")
    provider = hr.DatasetTable(tmp_path)
    seven = hr.Comparison("=", hr.Column("x"), hr.Literal(7, provider.schema().field("x").type))
    assert {row["row"] for row in rows(planned(provider, (seven,)))} == {1, 2}


class TailsRead(fsspec.implementations.local.LocalFileSystem):  # type: ignore[misc]
    """Local files, which tell how often their last bytes were read."""

    cachable = False
    count = 0

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        opened = super()._open(path, mode, **options)
        read, size = opened.f.read, Path(path).stat().st_size

        def counted(length: int = -1) -> bytes:
            found = read(length)
            self.count += bool(found) and opened.f.tell() == size
            return bytes(found)

        opened.read = counted
        return opened


@pytest.mark.parametrize("filtered", [False, True])
def test_footer_is_read_once_by_a_task(tmp_path: Path, filtered: bool) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(with_nulls(), path, row_group_size=GROUP)
    files = TailsRead()
    provider = hr.DatasetTable(str(path), filesystem=pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(files)))
    schema = provider.schema()
    plan = provider.scan(hr.ScanRequest(schema, tuple(schema.names), (compared("<", 50),) if filtered else ()))
    files.count = 0
    assert len(rows(plan)) == (48 if filtered else 10 * GROUP)
    assert files.count == 1


def write(data: pa.Table, path: Path, writer: str) -> None:
    options: dict[str, Any] = {
        "no statistics": {"write_statistics": False},
        "some statistics": {"write_statistics": ["i", "s", "d", "z"]},
        "decimals as integers": {"store_decimal_as_integer": True},
    }.get(writer, {})
    if writer == "polars":  # cuts the bounds of strings
        frame = pl.from_arrow(data)
        assert isinstance(frame, pl.DataFrame)
        frame.write_parquet(path, row_group_size=8)
    else:
        pq.write_table(data, path, row_group_size=8, **options)


WRITERS = ["pyarrow", "polars", "no statistics", "some statistics", "decimals as integers"]


@pytest.mark.daily("pyarrow", "polars")
@pytest.mark.parametrize("writer", WRITERS)
def test_random_filters_on_random_row_groups_lose_no_row(tmp_path: Path, writer: str) -> None:
    rng = Random(WRITERS.index(writer))
    schema = pa.schema([field for field in SCHEMA if field.name != "st"])
    skipped = groups = 0
    for number in range(cases(18)):
        data = random_table(rng, 64, schema)
        data = with_long_texts(data).sort_by(rng.choice([*POOLS, "id"]))
        path = tmp_path / f"{number}.parquet"
        write(data, path, writer)
        provider = hr.DatasetTable(path)
        metadata, batch = pq.read_metadata(path), one_batch(data)
        physical = pq.read_schema(path)
        for _ in range(15):
            wanted = random_predicate(rng, depth=2, nested=False)
            if list(provider.supports_filters_pushdown([wanted])) != [hr.FilterPushdown.EXACT]:
                continue
            expected = data.filter(wanted.evaluate(batch), null_selection_behavior="drop")["id"].to_pylist()
            found, learnt = (planned(provider, *which, columns=("id",)) for which in (((wanted,), ()), ((), (wanted,))))
            assert [row["id"] for row in rows(found)] == expected, wanted
            assert {row["id"] for row in rows(learnt)} >= set(expected), wanted
            pruning = RowGroupPruning.of((wanted,), provider.schema())
            if pruning is not None:
                every = range(metadata.num_row_groups)
                kept = pruning.kept(metadata, physical, every)
                groups, skipped = groups + len(every), skipped + len(every) - len(kept)
    assert skipped > groups // 50 or writer == "no statistics"


def with_long_texts(data: pa.Table) -> pa.Table:
    """One of two texts has 100 characters before it, of which no other one has any."""
    long = ["\U0010ffff" * 100 + text if text and i % 2 else text for i, text in enumerate(data["s"].to_pylist())]
    return data.set_column(data.schema.get_field_index("s"), "s", pa.array(long, TEXT))
