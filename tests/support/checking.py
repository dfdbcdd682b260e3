"""check_provider as the tests of it call it, and what they look at; for the tests."""

from __future__ import annotations

import functools

import pyarrow as pa

import headrace.testing
from headrace.testing import Finding, Report, Severity

NUMBERED = pa.table({"a": pa.array([3, 1, None, 2]), "s": ["x", None, "é", ""]})
check_provider = functools.partial(headrace.testing.check_provider, planning_budget_s=60)  # one that is not in the way


def errors(report: Report) -> list[Finding]:
    return list(report.of(Severity.ERROR))
