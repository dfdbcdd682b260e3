"""After short queries nothing is left behind; tests/soak runs ten times as many."""

from __future__ import annotations

import threading

import headrace as hr
from leaking import assert_nothing_left_behind, at_rest
from producing import FunctionTable, ten_rows, wait_until


def test_a_hundred_short_queries_leave_nothing_behind(ctx: hr.SessionContext) -> None:
    assert_nothing_left_behind(ctx, queries=100)


def test_contexts_opened_and_closed_leave_nothing_behind(ctx: hr.SessionContext) -> None:
    def one() -> None:
        with hr.SessionContext(ctx.spark) as context:
            context.register_table("short_lived", FunctionTable(ten_rows, placement=hr.Placement.DRIVER))
            assert context.table("short_lived").count() == 10

    one()
    before = at_rest(ctx)
    for _ in range(10):
        one()
    wait_until(lambda: threading.active_count() <= before.python_threads + 1, what="endpoint threads to end")
    after = at_rest(ctx)
    assert after.python_files <= before.python_files + 4
    assert after.jvm_files <= before.jvm_files + 10
    assert after.arrow_bytes == 0
