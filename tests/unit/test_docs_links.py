"""What the documents point to exists: relative links, their anchors, and paths named in backticks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import errors
from places import ROOT

DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "benchmarks/**/*.md",
        "examples/**/*.md",
        "connector/**/*.md",
        "tests/**/*.md",
    )
    for path in ROOT.glob(pattern)
)

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
NAMED_PATH = re.compile(r"`((?:src|tests|docs|examples|benchmarks|connector)/[^`\s*<>{}]*)`")
CODE_BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def text_of(document: str) -> str:
    """The document without its blocks of code, which are run by other tests."""
    return CODE_BLOCK.sub("", (ROOT / document).read_text())


def anchors(path: Path) -> set[str]:
    """The anchors that the headings of a document get: in lower case, punctuation dropped, blanks as dashes."""
    headings = re.findall(r"^#+ +(.+)$", CODE_BLOCK.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(document: str) -> Iterator[str]:
    for target in LINK.findall(text_of(document)):
        if re.match(r"[a-z]+:", target):
            continue  # another site: not looked up
        path, _, anchor = target.partition("#")
        found = (ROOT / document).parent / path if path else ROOT / document
        if not found.exists() or (anchor and anchor not in anchors(found)):
            yield target


def missing_paths(document: str) -> Iterator[str]:
    return (path for path in NAMED_PATH.findall(text_of(document)) if not (ROOT / path).exists())


def test_documents_are_found() -> None:
    assert {"README.md", "CONTRIBUTING.md", "docs/tutorial.md", "docs/decisions/0001-connector.md"} <= set(DOCUMENTS)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_document_relative_links_lead_somewhere(document: str) -> None:
    assert list(broken_links(document)) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_document_paths_in_backticks_exist(document: str) -> None:
    assert list(missing_paths(document)) == []


def test_checks_of_links_and_paths_see_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "a.md").write_text(
        "# A first\n[b](b.md) [c](#a-first) [d](#no) [site](https://example.org/x) `src/x.py` `tests/`\n"
        "```python\n[not](a_link)\n```\n"
    )
    (tmp_path / "tests").mkdir()
    assert list(broken_links("a.md")) == ["b.md", "#no"]
    assert list(missing_paths("a.md")) == ["src/x.py"]


def test_errors_page_names_every_error_and_no_other() -> None:
    known = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    named = set(re.findall(r"`(?:hr\.)?(\w+(?:Error|Timeout))`", text_of("docs/errors.md")))
    assert named == known


def test_front_page_leads_to_every_page_for_users() -> None:
    """All of the site's navigation but the reference, which has an index of its own, and the pages for developers."""
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].partition("  - For developers:\n")[0]
    pages = set(re.findall(r"([\w/-]+\.md)$", navigation, re.MULTILINE)) - {"index.md"}
    assert len(pages) > 20
    linked = {target.partition("#")[0] for target in LINK.findall(text_of("docs/index.md"))}
    assert {page for page in pages if not page.startswith("reference/")} - linked == set()
