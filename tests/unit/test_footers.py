"""What a DatasetTable looks for in footers, and when: the constructor reads them, a query asks for its own columns."""

from __future__ import annotations

import pickle
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.parquet as pq

import headrace as hr
from headrace.tables.dataset.footers import Footers
from headrace.tables.dataset.selectivity import ColumnFacts

COLUMNS = 300


@contextmanager
def calls_counted() -> Iterator[Counter[str]]:
    """How often each Python function is called, by its qualified name."""
    found: Counter[str] = Counter()

    def called(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            found[frame.f_code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        yield found
    finally:
        sys.setprofile(before)


def name_of(function: Callable[..., Any]) -> str:
    return function.__qualname__


def wide_files(root: Path) -> Path:
    data = pa.table({f"c{i}": range(100) for i in range(COLUMNS)})
    for number in range(3):
        pq.write_table(data, root / f"{number}.parquet", row_group_size=50)
    return root


def test_constructor_looks_at_no_column_and_a_query_at_its_own(tmp_path: Path) -> None:
    root = wide_files(tmp_path)
    hr.DatasetTable(root)  # so that modules are imported, and types known
    with calls_counted() as calls:
        provider = hr.DatasetTable(root)
    asked = [name_of(Footers.width), name_of(Footers.facts), name_of(ColumnFacts.of_chunk)]
    assert calls[name_of(Footers.sampled)] == 1
    assert [calls[name] for name in asked] == [0, 0, 0]
    schema = pa.schema([provider.schema().field("c7")])
    below = hr.Comparison("<", hr.Column("c9"), hr.Literal(10, pa.int64()))
    with calls_counted() as calls:
        for _ in range(2):
            statistics = provider.scan(hr.ScanRequest(schema, ("c7",), (below,))).statistics()
    assert [calls[name] for name in asked] == [2, 2, 3 * 2]  # of three files the first and last row group, once
    assert statistics is not None
    assert statistics.num_rows == 30


def test_pickled_table_estimates_the_same_without_its_files(tmp_path: Path) -> None:
    provider = hr.DatasetTable(wide_files(tmp_path))
    below = hr.Comparison("<", hr.Column("c9"), hr.Literal(10, pa.int64()))
    request = hr.ScanRequest(provider.schema(), tuple(provider.schema().names), (below,))
    travelled = pickle.loads(cloudpickle.dumps(provider))
    for path in tmp_path.iterdir():
        path.unlink()
    assert travelled.scan(request).statistics() == provider.scan(request).statistics()
    assert travelled.statistics() == provider.statistics()


def test_columns_beside_a_nested_one_are_found_in_their_places(tmp_path: Path) -> None:
    nested = [{"a": i, "b": f"text of {i}"} for i in range(1000)]
    data = pa.table({"x": range(1000), "n": nested, "y": range(5000, 6000), "m": [[i, i] for i in range(1000)]})
    pq.write_table(data, tmp_path / "a.parquet")
    (fragment,) = hr.DatasetTable(tmp_path)._dataset.get_fragments()
    footers = Footers.sampled([fragment], [1000], data.schema)
    assert footers.facts("n") is None
    assert footers.facts("m") is None
    low_and_high = [(found.low, found.high) for name in ("x", "y") if (found := footers.facts(name)) is not None]
    assert low_and_high == [(0, 999), (5000, 5999)]
    group = pq.read_metadata(tmp_path / "a.parquet").row_group(0)
    sizes = [group.column(i).total_uncompressed_size / 1000 for i in range(5)]
    assert [footers.width(name) for name in "xnym"] == [sizes[0], sizes[1] + sizes[2], sizes[3], sizes[4]]
