"""Providers whose code forks, on Spark: the parent's rows alone, and a worker that serves the next query."""

from __future__ import annotations

import pytest

import headrace as hr
from forking import ROWS, ForkingPlan
from placements import placements
from producing import NUMBERS

pytestmark = pytest.mark.core


class ForkingTable(hr.TableProvider):
    def __init__(self, child: str, placement: hr.Placement) -> None:
        self._plan = ForkingPlan(child, placement)

    def schema(self) -> object:
        return NUMBERS

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return self._plan


@placements
@pytest.mark.parametrize("child", ["go on", "exit", "async", "multiprocessing"])
def test_table_whose_code_forks_gives_the_parents_rows_again_and_again(
    ctx: hr.SessionContext, placement: hr.Placement, child: str
) -> None:
    ctx.register_table("t", ForkingTable(child, placement))
    for _ in range(3):
        assert sorted(ctx.collect("SELECT a FROM t")["a"].to_pylist()) == sorted([*range(ROWS)] * 2)
