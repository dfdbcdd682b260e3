"""How much of the tests a run tries; a plugin of pytest.

``make test`` runs the tests for every day, ``make rest`` those that it left out, ``make soak`` all. A test over a
grid says which of its cases ``make test`` runs, by patterns of their ids::

    @pytest.mark.daily("adaptive-*", "*-no rows")   # these, of what parametrize and fixtures make
    @pytest.mark.daily(every=4)                     # every fourth, the first included, where ids say nothing
    @pytest.mark.daily                              # none

and ``make rest`` runs the others. ``pytest`` by itself runs both. Random cases are counted by ``cases`` and ``share``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

import pytest

Item = TypeVar("Item")
SHARE = 3
_soak = False


def cases(full: int) -> int:
    """``full`` with ``--soak``, else a third of it, at least one."""
    return full if _soak else max(1, full // SHARE)


def share(everything: Sequence[Item]) -> Sequence[Item]:
    """All of them with ``--soak``, else every third, the first included: for cases that cost seconds each."""
    return everything if _soak else everything[::SHARE]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="try every random case, not a share of them")
    parser.addoption("--part", choices=("daily", "rest"), help="what make test runs, or what it leaves out")


def pytest_configure(config: pytest.Config) -> None:
    """Before the test modules are imported: they ask for their counts in decorators."""
    global _soak
    _soak = config.getoption("soak")
    config.addinivalue_line("markers", "daily(*ids, every=n): the cases that make test runs; make rest runs the others")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if part := config.getoption("part"):
        if useless := useless_patterns(items):
            raise pytest.UsageError("\n".join(useless))
        chosen = daily(items)
        others = [item for item in items if (item in chosen) != (part == "daily")]
        items[:] = [item for item in items if (item in chosen) == (part == "daily")]
        config.hook.pytest_deselected(items=others)


def daily(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """The cases for every day. Of a mark on the module and one on the test, the test's counts."""
    chosen: set[pytest.Item] = set()
    seen: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        mark = item.get_closest_marker("daily")
        every = mark.kwargs.get("every") if mark is not None else 1
        by_number = every is not None and seen[test] % every == 0
        if by_number or any(fnmatchcase(_case(item), pattern) for pattern in (mark.args if mark is not None else ())):
            chosen.add(item)
        seen[test] += 1
    return chosen


def _case(item: pytest.Item) -> str:
    return item.callspec.id if hasattr(item, "callspec") else ""


def useless_patterns(items: Sequence[pytest.Item]) -> list[str]:
    """Patterns that fit no case of their test: an id has changed, and ``make test`` would lose what it ran."""
    cases_of: dict[str, list[str]] = {}
    patterns_of: dict[str, set[str]] = {}
    for item in items:
        name = item.nodeid.partition("[")[0]
        cases_of.setdefault(name, []).append(_case(item))
        marks = (
            mark for mark in item.own_markers if mark.name == "daily"
        )  # those of the module are for some of its tests
        patterns_of.setdefault(name, set()).update(pattern for mark in marks for pattern in mark.args)
    return [
        f"{name}: no case fits {pattern!r}"
        for name, patterns in patterns_of.items()
        for pattern in sorted(patterns)
        if not any(fnmatchcase(case, pattern) for case in cases_of[name])
    ]
