"""The documentation site: it builds without a broken link, needs no other host, and its reference has every name.

It is built by ``make rest``; every day sees its links (test_docs_links.py) and that the reference has every name.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import headrace as hr
from built_site import build_site
from headrace import testing
from places import ROOT

REFERENCE = ROOT / "docs" / "reference"
PAGES = re.findall(r"([\w/-]+)\.md$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
FETCHED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']([^"']+)|<link\b[^>]*\bhref=["']([^"']+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


@pytest.mark.daily
def test_site_pages_fetch_nothing_from_other_hosts(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    fetched = {address for page in pages for found in FETCHED.findall(page.read_text()) for address in found if address}
    assert any(address.endswith("favicon.svg") for address in fetched)
    assert [address for address in fetched if re.match(r"(?:[a-z]+:)?//", address)] == []


@pytest.mark.daily
def test_site_styles_fetch_nothing_from_other_hosts(site: Path) -> None:
    styles = list(site.rglob("*.css"))
    assert styles
    assert [style for style in styles if re.search(r"url\(['\"]?(?:https?:)?//|@import", style.read_text())] == []


def test_reference_has_every_public_name_once() -> None:
    entry = re.compile(r"^::: headrace\.((?:testing\.)?\w+)$", re.MULTILINE)
    shown = [name for page in REFERENCE.glob("*.md") for name in entry.findall(page.read_text())]
    public = [*hr.__all__, *(f"testing.{name}" for name in testing.__all__)]
    assert sorted(shown) == sorted(public)


def test_reference_index_has_the_names_of_each_page() -> None:
    row = re.compile(r"^\| \[.*?\]\((\w+\.md)\) \| (`[A-Za-z_]+`(?:, `[A-Za-z_]+`)*) \|$", re.MULTILINE)
    listed = {page: re.findall(r"`(\w+)`", names) for page, names in row.findall((REFERENCE / "index.md").read_text())}
    assert "tables.md" in listed
    for page, names in listed.items():
        assert names == re.findall(r"^::: headrace\.(\w+)$", (REFERENCE / page).read_text(), re.MULTILINE), page


@pytest.mark.daily
def test_reference_page_of_every_name_was_made(site: Path) -> None:
    pages = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    headings = set(re.findall(r'<h2 id="(headrace\.[\w.]+)"', pages))
    assert [name for name in hr.__all__ if f"headrace.{name}" not in headings] == []


@pytest.mark.daily
def test_reference_says_something_about_every_name(site: Path) -> None:
    """An entry is a heading, a signature, and then words: a docstring."""
    pages = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    entries = re.split(r'<h2 id="headrace\.', pages)[1:]
    silent = [entry.partition('"')[0] for entry in entries if "<p>" not in entry.partition("<h3")[0]]
    assert silent == []


def address(page: str) -> str:
    return f"{page.removesuffix('README')}index.html" if page.endswith("README") else f"{page}.html"


@pytest.mark.daily
def test_llms_text_lists_every_page_once_in_the_order_of_the_site(site: Path) -> None:
    text = (site / "llms.txt").read_text()
    assert text.startswith("# Headrace\n\n> Headrace ")
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): .+\.$", text, re.MULTILINE)
    assert listed == [address(page) for page in PAGES]
    assert [page for page in listed if not (site / page).exists()] == []


@pytest.mark.daily
def test_llms_full_text_has_the_markdown_of_every_page_in_order(site: Path) -> None:
    text = (site / "llms-full.txt").read_text()
    assert re.findall(r"^<!-- ([\w/.-]+\.html) -->$", text, re.MULTILINE) == [address(page) for page in PAGES]
    assert (ROOT / "docs" / "tutorial.md").read_text().strip() in text


@pytest.mark.daily
def test_llms_full_text_has_signature_and_words_of_every_public_name(site: Path) -> None:
    text = (site / "llms-full.txt").read_text()
    assert [name for name in hr.__all__ if f"\n## headrace.{name}\n" not in text] == []
    assert "MemTable(data: Any, partitions: int = 1" in text
    assert "### headrace.SessionContext.register_table\n" in text
    assert "\n::: headrace" not in text
