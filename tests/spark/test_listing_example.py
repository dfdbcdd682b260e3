"""The example of a format of one's own: it gives the result it shows, skips files, and is as short as it says."""

from __future__ import annotations

import importlib

import pytest

import headrace as hr
from places import EXAMPLES


def test_own_format_query_reads_two_of_a_hundred_files(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    answer = importlib.import_module("own_format").main(ctx)
    assert answer == {"n": 300, "most": 7299**0.5}
    assert "2 of 100 files" in capfd.readouterr().out


def test_own_format_code_has_fewer_than_60_lines() -> None:
    lines = (EXAMPLES / "own_format.py").read_text().split('"""', 2)[2].splitlines()
    assert sum(bool(line.strip()) for line in lines) < 60
