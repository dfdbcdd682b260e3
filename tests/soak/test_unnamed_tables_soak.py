"""Ten thousand tables without a name leave nothing behind."""

from __future__ import annotations

import pytest

import headrace as hr
from unnamed import assert_nothing_held_after


@pytest.mark.timeout(1800)
def test_ten_thousand_tables_without_a_name_leave_nothing_behind(ctx: hr.SessionContext) -> None:
    assert_nothing_held_after(ctx, 10_000, queried=50)
