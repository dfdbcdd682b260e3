"""Providers and plans that do one thing wrong, and how to see that no harm was done; for the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import headrace as hr
from producing import BOTH_PLACEMENTS, NUMBERS, FunctionPlan, FunctionTable, ten_rows


class BadProvider(hr.TableProvider):
    """Misbehaves in one method, which ``behaviour`` replaces."""

    def __init__(self, method: str, behaviour: Callable[..., Any]) -> None:
        self.method = method
        self.behaviour = behaviour

    def schema(self) -> pa.Schema:
        return self.behaviour() if self.method == "schema" else NUMBERS

    def supports_filters_pushdown(self, filters: Any) -> Any:
        if self.method == "supports_filters_pushdown":
            return self.behaviour(filters)
        return super().supports_filters_pushdown(filters)

    def scan(self, request: hr.ScanRequest) -> Any:
        if self.method == "scan":
            return self.behaviour(request)
        return FunctionPlan(NUMBERS, ten_rows, 1, hr.Placement.EXECUTORS)


def still_works(ctx: hr.SessionContext) -> None:
    for placement in BOTH_PLACEMENTS:
        name = f"after_{placement.name}"
        ctx.register_table(name, FunctionTable(ten_rows, partitions=2, placement=placement), replace=True)
        assert ctx.collect(f"SELECT count(*) AS n FROM {name}").to_pydict() == {"n": [20]}


def plan_with(**attributes: Any) -> Callable[[hr.ScanRequest], hr.ExecutionPlan]:
    def scan(_request: hr.ScanRequest) -> hr.ExecutionPlan:
        plan = FunctionPlan(NUMBERS, ten_rows, 1, hr.Placement.EXECUTORS)
        for name, value in attributes.items():
            setattr(plan, name, value)
        return plan

    return scan
