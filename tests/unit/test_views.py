"""Views of text as plain text over the same memory; no Spark."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from effort import cases
from headrace.arrow import views
from headrace.arrow.views import plain_where_in_a_row

ROWS = 40_000


def long_text(rows: int = ROWS) -> pl.Series:
    return pl.Series("s", [f"a line of a log, number {i}" for i in range(rows)])


def as_views(series: pl.Series) -> pa.ChunkedArray:
    return pa.table(series.to_frame())["s"]


def data_addresses(column: pa.ChunkedArray) -> set[int]:
    return {buffer.address for chunk in column.chunks for buffer in chunk.buffers()[2:] if buffer is not None}


def test_text_that_lies_in_a_row_is_plain_over_the_same_memory() -> None:
    column = as_views(long_text())
    plain = plain_where_in_a_row(column)
    assert column.type == pa.string_view()
    assert plain.type == pa.string()
    assert data_addresses(plain) <= data_addresses(column)
    plain.validate(full=True)
    assert plain.to_pylist() == long_text().to_list()


def test_slice_of_text_in_a_row_is_plain_with_its_own_rows() -> None:
    column = as_views(long_text()).slice(10_000, 20_000)
    plain = plain_where_in_a_row(column)
    plain.validate(full=True)
    assert plain.type == pa.string()
    assert plain.to_pylist() == long_text().to_list()[10_000:30_000]


@pytest.mark.parametrize(
    "series",
    [
        long_text().sort(descending=True),
        long_text().gather_every(2),
        pl.Series("s", ["short"] * ROWS),
        pl.Series("s", ["a line of a log with", "short"] * ROWS),
        pl.Series("s", ["a line of a log with a null", None] * ROWS),
        pl.Series("s", [None] * ROWS, dtype=pl.String),
        pl.Series("s", [], dtype=pl.String),
    ],
    ids=["turned round", "every other", "inline", "mixed", "nulls", "all null", "empty"],
)
def test_text_that_does_not_lie_in_a_row_stays_views(series: pl.Series) -> None:
    column = as_views(series)
    assert plain_where_in_a_row(column) is column


def test_bytes_in_a_row_are_plain_bytes() -> None:
    column = as_views(long_text().cast(pl.Binary))
    plain = plain_where_in_a_row(column)
    assert (column.type, plain.type) == (pa.binary_view(), pa.binary())
    assert plain.to_pylist() == [text.encode() for text in long_text().to_list()]


@settings(max_examples=cases(60), deadline=None)
@given(
    values=st.lists(st.text(min_size=11, max_size=20), min_size=1, max_size=40),
    order=st.randoms(use_true_random=False),
    shuffled=st.booleans(),
    start=st.integers(0, 10),
)
def test_any_views_keep_their_values(values: list[str], order: object, shuffled: bool, start: int) -> None:
    taken = list(range(len(values)))
    if shuffled:
        order.shuffle(taken)  # type: ignore[attr-defined]
    frame = pl.DataFrame({"s": values})[taken]
    column = pa.table(pl.concat([frame, frame], rechunk=False))["s"].slice(start)
    least, views._LEAST_ROWS = views._LEAST_ROWS, 1
    try:
        plain = plain_where_in_a_row(column)
    finally:
        views._LEAST_ROWS = least
    plain.validate(full=True)
    assert plain.to_pylist() == column.to_pylist()


def test_mem_table_of_a_polars_frame_yields_plain_text_without_a_cast() -> None:
    frame = long_text(10 * ROWS).to_frame()
    table = hr.MemTable(frame)
    plan = table.scan(hr.ScanRequest(table.schema(), ("s",)))
    assert plan.schema.field("s").type == pa.string()
    batches = list(plan.execute(0))
    assert pa.Table.from_batches(batches).column("s").to_pylist() == frame["s"].to_list()
    own = data_addresses(pa.table(frame)["s"])
    shared = [batch.num_rows for batch in batches if batch.column("s").buffers()[2].address in own]
    assert sum(shared) > 9 * ROWS  # the first buffers are small, and are put together
