"""Spark Connect: data without ceremony, and tables without a name that live as long as the client's plans."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pandas as pd
import polars as pl
import pytest

import headrace as hr
from producing import wait_until

pytestmark = pytest.mark.timeout(200)

ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


@pytest.fixture(params=["client", "server"])
def planned(request: pytest.FixtureRequest, spark: Any) -> Iterator[hr.SessionContext]:
    with hr.SessionContext(spark, planning=request.param) as context:
        yield context


def test_connect_data_is_registered_read_and_named_in_sql(planned: hr.SessionContext) -> None:
    for data in (pd.DataFrame(ROWS, index=[3, 4]), pl.DataFrame(ROWS), ROWS):
        planned.register_table("t", data, replace=True)
        assert planned.sql("SELECT * FROM t").count() == 2
        assert [row.id for row in planned.read_table(data).where("id > 1").collect()] == [2]
        query = "SELECT {data[name]} FROM {data} WHERE id < :n AND name = {s}"
        assert planned.collect(query, {"n": 2}, data=data, s="a").to_pylist() == [{"name": "a"}]
    assert planned.table_names() == ["t"]


def test_connect_result_without_columns_keeps_its_rows(planned: hr.SessionContext) -> None:
    assert planned.collect(planned.read_table(ROWS).select()).num_rows == 2


def test_connect_frames_made_of_a_table_without_a_name_work_after_it_is_gone(planned: hr.SessionContext) -> None:
    derived = planned.read_table(ROWS).where("id > 1")
    of_sql = planned.sql("SELECT max(id) AS m FROM {data}", data=ROWS).where("m > 0")
    frame = planned.read_table(ROWS)
    of_frame = planned.sql("SELECT min(id) AS m FROM {frame}", frame=frame)
    del frame
    for _ in range(2):
        gc.collect()
        planned.read_table(ROWS)  # drops what was forgotten
        assert [row.id for row in derived.collect()] == [2]
        assert planned.collect(of_sql).to_pylist() == [{"m": 2}]
        assert [row.m for row in of_frame.collect()] == [1]


def test_connect_table_without_a_name_is_forgotten_with_the_last_plan(ctx: hr.SessionContext) -> None:
    held: Any = ctx._attached.planner.catalogs.held  # type: ignore[attr-defined]
    frame = ctx.read_table(ROWS)
    (table_id,) = set(held._held)
    derived = frame.where("id > 1")
    del frame
    gc.collect()
    len(held)
    assert held.find_id(table_id) is not None
    counts = held._held[table_id][1]
    del derived
    gc.collect()
    wait_until(
        lambda: len(held) >= 0 and held._held.get(table_id, (None, 0))[1] < counts, what="the plan's hold to end"
    )


def test_connect_table_planned_beside_the_server_is_dropped_there(spark: Any) -> None:
    with hr.SessionContext(spark, planning="server") as context:
        shown = f"SHOW TABLES IN {context.catalog}"
        for _ in range(3):
            context.read_table(ROWS)
        gc.collect()
        frame = context.read_table(ROWS)
        assert len(spark.sql(shown).collect()) == 1
        assert frame.count() == 2


def test_connect_names_agree_after_a_view_was_dropped(planned: hr.SessionContext) -> None:
    for name in ("t", "u"):
        planned.register_table(name, ROWS)
    planned.spark.sql("DROP VIEW t").collect()
    assert planned.table_names() == ["u"]
    assert not planned.table_exists("t")
    planned.register_table("t", ROWS)
    assert planned.sql("SELECT * FROM t").count() == 2


def test_connect_table_is_not_forgotten_because_the_server_cannot_ask_for_it(spark: Any) -> None:
    with hr.SessionContext(spark) as context:
        context.register_table("t", ROWS)
        endpoint: Any = context._attached.endpoint
        endpoint.close()
        with pytest.raises(hr.TransportError, match="cannot reach the Python process"):
            context.table_exists("t")
        assert context._registry.find("t") is not None
