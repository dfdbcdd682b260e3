"""What a language model is told of each page in llms.txt; test_site.py sees that the built site has all of them."""

from __future__ import annotations

import re

import pytest
from tools.llms_text import first_sentence

from places import ROOT

PAGES = re.findall(r"([\w/-]+)\.md$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)


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
