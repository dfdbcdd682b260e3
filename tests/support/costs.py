"""``pytest --costs``: what each file and test took of the processors, itself and the processes that it started.

Durations say little of a test that waits, and less on a machine that is busy with something else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from benchmarks.clock import CpuTimes, cpu_times

_BEFORE = pytest.StashKey[CpuTimes]()
_NAME = "cpu_s"
_SHOWN = 40


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", action="store_true", help="show the processor time of files and tests")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if item.config.getoption("costs"):
        item.stash[_BEFORE] = cpu_times()
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """A test's properties travel to the process that reports, with its last report."""
    if call.when == "teardown" and _BEFORE in item.stash:
        item.user_properties.append((_NAME, cpu_times().since(item.stash[_BEFORE])))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = (report for reports in terminalreporter.stats.values() for report in reports)
    found = {
        report.nodeid: dict(report.user_properties)[_NAME]
        for report in reports
        if getattr(report, "when", "") == "teardown" and _NAME in dict(report.user_properties)
    }
    if found:
        terminalreporter.section("processor time")
        for line in lines(found):
            terminalreporter.write_line(line)


def lines(seconds: Mapping[str, float]) -> Iterator[str]:
    """The files, then the costliest tests, in seconds; the costliest first."""
    files: Counter[str] = Counter()
    for test, cost in seconds.items():
        files[test.partition("::")[0]] += cost  # type: ignore[assignment]
    yield f"{sum(seconds.values()):8.1f}  in all"
    for costs in (files.most_common(), Counter(seconds).most_common(_SHOWN)):
        yield from (f"{cost:8.1f}  {name}" for name, cost in costs)
