"""Data without ceremony: register_table and read_table of what a user holds, and names in SQL text."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.errors import ParseException
from pyspark.sql.functions import col

import headrace as hr

ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
DATA: dict[str, Any] = {
    "arrow": pa.Table.from_pylist(ROWS),
    "pandas": pd.DataFrame(ROWS, index=[7, 9]),
    "polars": pl.DataFrame(ROWS),
    "duckdb": duckdb.sql("SELECT * FROM (VALUES (1::BIGINT, 'a'), (2, NULL)) AS t(id, name)"),
    "rows": ROWS,
    "columns": {"id": [1, 2], "name": ["a", None]},
    "dataset": ds.dataset(pa.Table.from_pylist(ROWS)),
    "provider": hr.SimpleTable("id BIGINT, name STRING", lambda: [pa.RecordBatch.from_pylist(ROWS)]),
}


@pytest.mark.parametrize("kind", DATA)
def test_data_of_each_kind_is_registered_read_and_named_in_sql(ctx: hr.SessionContext, kind: str) -> None:
    data = DATA[kind]
    ctx.register_table("t", data)
    assert [row.asDict() for row in ctx.sql("SELECT * FROM t ORDER BY id").collect()] == ROWS
    assert [row.asDict() for row in ctx.read_table(data).orderBy("id").collect()] == ROWS
    assert ctx.collect("SELECT name FROM {data} WHERE id = {n}", data=data, n=2).to_pylist() == [{"name": None}]
    assert ctx.table_names() == ["t"]


def test_sql_takes_values_frames_columns_and_parameters_as_pyspark_does(ctx: hr.SessionContext) -> None:
    numbers = ctx.spark.range(5)
    query = (
        "SELECT {numbers[id]}, {data[name]} FROM {numbers} JOIN {data} USING (id) WHERE {c} >= :least AND name = {s}"
    )
    frame = ctx.sql(query, {"least": 1}, numbers=numbers, data=ROWS, c=col("id"), s="a")
    assert [tuple(row) for row in frame.collect()] == [(1, "a")]
    assert ctx.sql("SELECT * FROM {data} WHERE id > ?", [1], data=ROWS).count() == 1
    same = ctx.sql("SELECT count(*) AS n FROM {a} JOIN {b} USING (id)", a=ROWS, b=ROWS)
    assert same.collect()[0].n == 2
    assert not [view.name for view in ctx.spark.catalog.listTables() if view.name.startswith("_pyspark")]


def test_collect_stream_and_explain_take_parameters_and_names(ctx: hr.SessionContext) -> None:
    query = "SELECT id FROM {data} WHERE id > :least"
    assert ctx.collect(query, {"least": 1}, data=ROWS).to_pylist() == [{"id": 2}]
    assert ctx.execute_stream(query, {"least": 1}, data=ROWS).read_all().to_pylist() == [{"id": 2}]
    assert "scan 1: MemTable" in ctx.explain(query, {"least": 1}, data=ROWS)
    for run in (ctx.collect, ctx.execute_stream, ctx.explain):
        with pytest.raises(TypeError, match="args and names belong to a query as SQL text"):
            run(ctx.spark.range(3), {"least": 1})
        with pytest.raises(TypeError, match="args and names belong to a query as SQL text"):
            run(ctx.spark.range(3), data=ROWS)


def test_sql_name_that_was_not_given_is_told_with_those_that_were(ctx: hr.SessionContext) -> None:
    with pytest.raises(hr.HeadraceError, match=r"the query has \{orders\}, and the names given are order, n"):
        ctx.sql("SELECT {orders.id} FROM {order} WHERE id > {n}", order=ROWS, n=1)


NO_SQL = [object(), [1, 2], {1}, None, print, pd.NA, pd.NaT, np.datetime64("NaT"), b"a", np.array([1, 2])]
NO_SQL += [pd.Series([1, 2]), float("nan"), np.float32("inf"), Decimal("NaN"), (1, Decimal("2.5")), (1, None)]


@pytest.mark.parametrize("value", NO_SQL, ids=lambda value: type(value).__name__)
def test_sql_name_of_what_is_neither_a_value_nor_data_is_refused(ctx: hr.SessionContext, value: object) -> None:
    with pytest.raises(hr.RegistrationError, match=r"\{x\} in a query takes a value.*args="):
        ctx.sql("SELECT {x}", x=value)
    with pytest.raises(hr.RegistrationError, match=r"\{x\[0\]\} in a query"):
        ctx.sql("SELECT {x[0]}", x=(value,))


def test_sql_name_may_be_any_value_that_has_a_text(ctx: hr.SessionContext) -> None:
    query = "SELECT {n} IN {many} AS n, DATE'{day}' AS day, '{id}' AS id, {price} AS price, '{any!r}' AS any"
    day, number = datetime.date(2026, 1, 2), uuid.uuid4()
    row = ctx.sql(query, n=2, many=(1, 2), day=day, id=number, price=Decimal("1.50"), any=[1]).collect()[0]
    assert tuple(row) == (True, day, str(number), Decimal("1.50"), "[1]")


def test_sql_name_of_numpy_is_a_python_value(ctx: hr.SessionContext) -> None:
    query = "SELECT {n} IN {many} AS n, {first[0]} AS first, {text} AS text, {yes} AS yes, DATE'{day}' AS day"
    many = np.array([1, 2])
    names = {"n": np.int64(2), "many": tuple(many), "first": many, "text": np.str_("it's"), "yes": np.bool_(True)}
    row = ctx.sql(query, **names, day=np.datetime64("2026-01-02")).collect()[0]
    assert tuple(row) == (True, 1, "it's", True, datetime.date(2026, 1, 2))


@pytest.mark.parametrize("day", [datetime.date(2026, 1, 2), pd.Timestamp("2026-01-02"), np.datetime64("2026-01-02")])
def test_sql_name_of_a_date_outside_of_quotes_is_refused(ctx: hr.SessionContext, day: object) -> None:
    with pytest.raises(hr.RegistrationError, match=r"without quotes.*write DATE'\{day\}'"):
        ctx.sql("SELECT 'it' AS a, {day} AS b", day=day)  # which would be 2023, the difference
    assert ctx.sql("SELECT 'on {day}' AS text", day=day).collect()[0].text.startswith("on 2026-01-02")


def test_query_that_is_no_query_says_how_to_make_one(ctx: hr.SessionContext) -> None:
    with pytest.raises(TypeError, match=r"not DataFrame; ctx\.read_table"):
        ctx.collect(DATA["pandas"])
    with pytest.raises(hr.RegistrationError, match=r"\{t\} in a query .* pass frame\.collect\(\)"):
        ctx.sql("SELECT * FROM {t}", t=pl.LazyFrame(ROWS))
    with pytest.raises(hr.RegistrationError, match=r"\{t\} in a query .*pass an instance, MemTable\(\.\.\.\)"):
        ctx.sql("SELECT * FROM {t}", t=hr.MemTable)


def test_sql_without_names_leaves_braces_alone(ctx: hr.SessionContext) -> None:
    assert ctx.sql("SELECT '{x}' AS text").collect()[0].text == "{x}"
    with pytest.raises(ParseException):
        ctx.sql("SELECT * FROM {data}")


@pytest.mark.parametrize("once", [lambda: iter(ROWS), lambda: pa.Table.from_pylist(ROWS).to_reader()])
def test_stream_that_is_read_once_is_refused_with_the_table_to_use(ctx: hr.SessionContext, once: Any) -> None:
    words = r"it can be read once.*hr\.MemTable\(.*hr\.SimpleTable"
    with pytest.raises(hr.RegistrationError, match=rf"register_table\('t', ...\) takes .*{words}"):
        ctx.register_table("t", once())
    with pytest.raises(hr.RegistrationError, match=rf"read_table takes .*{words}"):
        ctx.read_table(once())
    with pytest.raises(hr.RegistrationError, match=rf"\{{data\}} in a query takes .*{words}"):
        ctx.sql("SELECT * FROM {data}", data=once())
    assert ctx.table_names() == []


def test_read_table_what_it_is_given_is_checked_as_at_registration(ctx: hr.SessionContext) -> None:
    with pytest.raises(hr.RegistrationError, match="read_table takes a TableProvider or data, not int"):
        ctx.read_table(3)
    with pytest.raises(hr.UnsupportedTypeError, match="weird"):
        ctx.read_table(pa.table({"weird": pa.nulls(1, pa.month_day_nano_interval())}))
    with pytest.raises(hr.RegistrationError, match="'a' and 'A' of table 'MemTable' differ in case only"):
        ctx.read_table({"a": [1], "A": [2]})
    assert len(ctx._attached.planner.catalogs.held) == 0  # type: ignore[attr-defined]


def test_read_table_columns_are_used_by_name_and_joined(ctx: hr.SessionContext) -> None:
    left, right = ctx.read_table(ROWS), ctx.read_table({"id": [2, 3], "x": [0.5, 1.5]})
    joined = left.join(right, left["id"] == right["id"]).select(left.id, right.x)
    assert [tuple(row) for row in joined.collect()] == [(2, 0.5)]
    assert left.select("id").explain is not None
    assert left.union(left).count() == 4


def test_streaming_table_takes_a_schema_as_text_and_rows(ctx: hr.SessionContext) -> None:
    with ctx.register_streaming_table("s", "id INT NOT NULL, name STRING") as sink:
        sink.write(pd.DataFrame(ROWS[::-1])[["name", "id"]])
        sink.write([{"id": 3}])
    assert ctx.collect("SELECT * FROM s ORDER BY id").to_pylist() == [*ROWS, {"id": 3, "name": None}]
    with pytest.raises(hr.RegistrationError, match="the schema of 'x' cannot be read: at character 4"):
        ctx.register_streaming_table("x", "id BIGNT")
    with pytest.raises(hr.RegistrationError, match=r"the schema of 'x' must be a pyarrow\.Schema, DDL text"):
        ctx.register_streaming_table("x", 5)  # type: ignore[arg-type]
