"""Tables without a name: how many are held, for the tests that say: those that are used."""

from __future__ import annotations

import gc
import time
from typing import Any

import headrace as hr


def held(ctx: hr.SessionContext) -> int:
    return len(ctx._attached.planner.catalogs.held)  # type: ignore[attr-defined]


def held_at_rest(ctx: hr.SessionContext, expected: int = 0, jvm: Any = None) -> int:
    """How many are held when all that can be collected has been; ``jvm``: of a server on this machine."""
    jvm = jvm or ctx.spark.sparkContext._jvm
    for _ in range(20):
        gc.collect()
        jvm.java.lang.System.gc()
        time.sleep(0.1)  # the JVM's cleaner runs on a thread of its own, and there is nothing to await
        if held(ctx) <= expected:
            break
    return held(ctx)


def assert_nothing_held_after(ctx: hr.SessionContext, tables: int, queried: int) -> None:
    """Makes ``tables`` of them, of which every ``queried``-th is also queried."""
    for i in range(tables):
        frame = ctx.read_table({"a": [i]})
        if i % queried == 0:
            assert frame.where(f"a = {i}").count() == 1
    del frame
    assert held_at_rest(ctx) == 0
    assert len(ctx._attached.planner.scans) <= 10  # type: ignore[attr-defined]
