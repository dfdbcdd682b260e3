"""llms.txt and llms-full.txt: what a language model is told of a page, and that the built site has all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.llms_text import first_sentence

import headrace as hr
from built_site import build_site
from places import ROOT

PAGES = re.findall(r"([\w/-]+)\.md$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


def address(page: str) -> str:
    return f"{page.removesuffix('README')}index.html" if page.endswith("README") else f"{page}.html"


@pytest.mark.parametrize("page", PAGES)
def test_page_first_sentence_says_in_words_what_it_is_about(page: str) -> None:
    sentence = first_sentence((ROOT / "docs" / f"{page}.md").read_text())
    assert 20 < len(sentence) < 320
    assert not sentence.startswith(("|", "`make", "#"))


@pytest.mark.parametrize(
    ("markdown", "sentence"),
    [
        ("# A\n\nOne [link](x.md) here. Two.\n", "One link here."),
        ("# A\n\n```python\nx = 1\n```\n\n| a |\n|---|\n\n![p](p.svg)\n\nIt ends so:\n\n- b", "It ends so."),
    ],
)
def test_first_sentence_passes_over_code_tables_and_pictures(markdown: str, sentence: str) -> None:
    assert first_sentence(markdown) == sentence


def test_first_sentence_of_a_page_without_words_is_an_error() -> None:
    with pytest.raises(ValueError, match="says nothing in words"):
        first_sentence("# A\n\n```python\nx = 1\n```\n")


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
