"""Code in the documents is narrow enough for the site's column, on GitHub and PyPI as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from places import ROOT

COLUMNS = 88  # tests/process/test_site_in_browser.py sees whether these fit
PAGES = [path.relative_to(ROOT).as_posix() for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]]


def wide_lines(text: str) -> Iterator[str]:
    is_code = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif is_code and len(line) > COLUMNS:
            yield line


@pytest.mark.parametrize("page", PAGES)
def test_document_code_has_no_line_that_is_too_long(page: str) -> None:
    assert list(wide_lines((ROOT / page).read_text())) == []


def test_wide_lines_are_found_in_code_alone() -> None:
    wide = "x" * (COLUMNS + 1)
    assert list(wide_lines(f"{wide}\n```python\n{wide[1:]}\n{wide}\n```\n{wide}")) == [wide]
