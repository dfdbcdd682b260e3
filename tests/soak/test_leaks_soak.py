"""After a thousand short queries nothing is left behind: in Python, in the JVM, or between them."""

from __future__ import annotations

import pytest

import headrace as hr
from leaking import assert_nothing_left_behind


@pytest.mark.timeout(600)
def test_a_thousand_short_queries_leave_nothing_behind(ctx: hr.SessionContext) -> None:
    assert_nothing_left_behind(ctx, queries=1000)
