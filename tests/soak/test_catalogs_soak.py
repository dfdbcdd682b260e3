"""A thousand analyses of catalogs' tables and table functions leave nothing behind."""

from __future__ import annotations

import pytest

import headrace as hr
from catalogs import Shop, assert_analyses_leave_nothing


@pytest.mark.timeout(900)
def test_a_thousand_analyses_leave_nothing_behind(ctx: hr.SessionContext) -> None:
    ctx.register_catalog("crm", Shop())
    try:
        assert_analyses_leave_nothing(ctx, 500)
    finally:
        ctx.deregister_catalog("crm")
