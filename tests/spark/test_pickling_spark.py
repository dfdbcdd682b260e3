"""Plans and providers that live in a notebook or hold a live object, through Spark."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa

import headrace as hr
from plan_module import MODULE
from producing import FunctionTable, ten_rows


def test_plan_with_a_live_object_works_with_driver_placement(ctx: hr.SessionContext) -> None:
    lock = threading.Lock()

    def locked(partition: int) -> Any:
        with lock:
            yield from ten_rows(partition)

    ctx.register_table("live", FunctionTable(locked, placement=hr.Placement.DRIVER, partitions=2))
    assert ctx.collect("SELECT count(*) AS n FROM live").to_pydict() == {"n": [20]}


def test_provider_defined_in_a_cell_works(ctx: hr.SessionContext) -> None:
    """A notebook's cells are exec'd under the name __main__, of which there is no file."""
    cell: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(MODULE, "<cell 1>", "exec"), cell)

    class CellTable(hr.TableProvider):
        def schema(self) -> pa.Schema:
            schema: pa.Schema = cell["SCHEMA"]
            return schema

        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            plan: hr.ExecutionPlan = cell["Plan"]()
            return plan

    ctx.register_table("cell", CellTable())
    assert ctx.collect("SELECT a FROM cell").to_pydict() == {"a": [42]}
    exec(compile("ANSWER = 43", "<cell 2>", "exec"), cell)
    assert ctx.collect("SELECT a FROM cell").to_pydict() == {"a": [43]}
