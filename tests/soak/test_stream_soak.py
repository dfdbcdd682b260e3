"""Ten thousand micro-batches leave nothing behind: no plan, no ticket, no listener, no thread, no file."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace as hr
from stream_leaks import assert_batches_leave_nothing, assert_ranges_leave_nothing


@pytest.mark.timeout(7200)
def test_ten_thousand_micro_batches_leave_nothing_behind(ctx: hr.SessionContext, tmp_path: Path) -> None:
    assert_batches_leave_nothing(ctx, tmp_path, batches=10_000, timeout_s=7000)


@pytest.mark.timeout(1800)
def test_ten_thousand_ranges_leave_nothing_behind(ctx: hr.SessionContext, tmp_path: Path) -> None:
    assert_ranges_leave_nothing(ctx, tmp_path, ranges=10_000)
