"""The demo's second act: what it shows is what happened."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

import headrace as hr
from headrace.cli import demo_push
from headrace.cli.demo import ACTS
from headrace.cli.demo_push import push

LIVE_ROW = re.compile(r"[\d.]+ s  (\w+) +\d+ +([\d.]+) +(\d+) rows written, (\w+)$", re.MULTILINE)
GAUGE = re.compile(r"(\d) of 4 wait · +[\d.]+ M rows read · writers blocked +([\d.]+) s in all")


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_push, "REDUCE_SECONDS", 1.0)


def test_push_off_a_terminal_shows_rows_fill_level_and_failure(ctx: hr.SessionContext) -> None:
    text = io.StringIO()
    push(ctx, Console(file=text, width=80))
    shown = text.getvalue()
    flat = " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80

    live = LIVE_ROW.findall(shown)
    assert len(live) == 12
    assert {station for station, *_ in live} <= set(demo_push.STATIONS)
    assert all(float(celsius) > 30 for _, celsius, _, _ in live)
    assert live[0][3] == "open"
    assert int(live[0][2]) < int(live[-1][2])  # the first was shown before the others were written
    assert "Bergen, Cork, Davos, Porto: ScanEndedError: the scan of the streaming table 'live' ended" in flat

    gauge = GAUGE.findall(shown)
    assert any(waiting != "0" for waiting, _ in gauge)
    assert float(gauge[-1][1]) > 0
    counts = re.search(r"([\d,]+) rows were written and ([\d,]+) counted; the stream (\w+)", shown)
    assert counts is not None
    assert counts[1] == counts[2] != "0"
    assert counts[3] == "finished"
    assert all(f"│ {station}" in shown for station in demo_push.STATIONS)

    assert re.search(r"\.exception_type +ConnectionResetError\n", shown)
    assert re.search(r"\.message +the line to Porto went dead\n", shown)
    assert "Bergen, Cork, Davos: SinkClosedError: the streaming table 'unlucky' has failed" in flat
    assert ctx.table_names() == []


def test_push_on_a_terminal_shows_the_fill_level_in_place(ctx: hr.SessionContext) -> None:
    text = io.StringIO()
    push(ctx, Console(file=text, width=90, force_terminal=True, color_system=None))
    shown = text.getvalue()
    assert len(GAUGE.findall(shown)) > 2
    assert "\x1b[2K" in shown  # the line is written over
    assert "rows were written and" in shown


def test_demo_acts_pull_comes_before_push() -> None:
    assert [act.__name__ for act in ACTS] == ["pull", "push"]
