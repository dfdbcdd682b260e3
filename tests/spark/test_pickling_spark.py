"""Plans and providers that live in a notebook or hold a live object, through Spark."""

from __future__ import annotations

import importlib
import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from plan_module import MODULE
from producing import NUMBERS, FunctionTable, ten_rows


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


def test_module_that_is_changed_and_loaded_again_takes_effect_in_the_next_query(
    ctx: hr.SessionContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "edited_module.py"
    path.write_text(MODULE)
    module = importlib.import_module("edited_module")

    class EditedTable(hr.TableProvider):
        def schema(self) -> pa.Schema:
            return module.SCHEMA

        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            plan: hr.ExecutionPlan = module.Plan()
            return plan

    ctx.register_table("edited", EditedTable())
    for change in ("42", "42 + 1", "42 + 1 + 1"):
        path.write_text(MODULE.replace("ANSWER = 42", f"ANSWER = {change}"))
        importlib.reload(module)
        assert ctx.collect("SELECT a FROM edited").to_pydict() == {"a": [eval(change)]}


def test_plan_that_carries_20_megabytes_works_on_executors(ctx: hr.SessionContext) -> None:
    """Jackson, which reads Python's answers, stops at strings of 20 million characters unless told otherwise."""
    carried = os.urandom(20 << 20)

    def first_and_last(_partition: int) -> Any:
        yield pa.record_batch([pa.array([len(carried), carried[-1]], pa.int64())], schema=NUMBERS)

    ctx.register_table("large", FunctionTable(first_and_last))
    assert ctx.collect("SELECT a FROM large").to_pydict() == {"a": [20 << 20, carried[-1]]}
