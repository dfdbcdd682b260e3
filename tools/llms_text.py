"""Writes ``llms.txt`` and ``llms-full.txt`` beside the site: its pages for language models. A hook of MkDocs.

``llms.txt`` lists the pages, each with its first sentence. ``llms-full.txt`` has the Markdown of all of them in order;
entries of the reference become signatures and docstrings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

SOURCES = Path(__file__).parents[1] / "src"
_ENTRY = re.compile(r"^::: (headrace[\w.]*)\n((?: {4}.*\n)*)", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_NOT_PROSE = re.compile(r"^(?:#|\||!\[|\[!|:::|<| {4}|- ).*$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")

_texts: dict[str, str] = {}
_navigation: list[Navigation] = []


def on_nav(nav: Navigation, **_: Any) -> None:
    """MkDocs: the pages are known, in their order."""
    _texts.clear()
    _navigation[:] = [nav]


def on_page_markdown(markdown: str, page: Page, **_: Any) -> None:
    """MkDocs: one page was read."""
    _texts[page.url] = markdown


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """MkDocs: the site is written."""
    (nav,) = _navigation
    site = Path(config.site_dir)
    (site / "llms.txt").write_text(outline(nav, config))
    (site / "llms-full.txt").write_text(whole_text(nav, _reference()))


def outline(nav: Navigation, config: MkDocsConfig) -> str:
    """The title, what the home page says first, and a list of pages in each section."""
    home = next(page for page in nav.pages if page.is_homepage)
    lines = [f"# {config.site_name}", "", f"> {_paragraph(_texts[home.url])}", ""]
    lines += ["All pages in one file: [llms-full.txt](llms-full.txt)"]
    section = None
    for page in nav.pages:
        if page.parent is not section:
            section = page.parent
            lines += ["", f"## {section.title}" if section else "## Pages", ""]
        elif page.is_homepage:
            lines += [""]
        lines.append(f"- [{page.title}]({page.url}): {first_sentence(_texts[page.url])}")
    return "\n".join(lines) + "\n"


def whole_text(nav: Navigation, reference: Mapping[str, Any]) -> str:
    """Every page, begun by its address."""
    return "\n\n".join(f"<!-- {page.url} -->\n\n{_expanded(_texts[page.url], reference)}" for page in nav.pages)


def first_sentence(markdown: str) -> str:
    """Of the first paragraph. Raises ValueError for a page that has none."""
    sentence = re.split(r"(?<=[.!?]) ", _paragraph(markdown), maxsplit=1)[0]
    return f"{sentence.rstrip('.:')}."


def _paragraph(markdown: str) -> str:
    prose = _NOT_PROSE.sub("", _CODE.sub("", markdown)).strip()
    if not prose:
        raise ValueError(f"this page says nothing in words: {markdown[:60]!r}")
    return _LINK.sub(r"\1", " ".join(prose.split("\n\n")[0].split()))


def _expanded(markdown: str, reference: Mapping[str, Any]) -> str:
    return _ENTRY.sub(
        lambda entry: "\n".join(_described(entry[1], reference[entry[1].partition(".")[2]])), markdown
    ).strip()


def _described(name: str, exported: Any) -> Iterator[str]:
    thing = exported.final_target if exported.is_alias else exported
    yield f"## {name}\n"
    yield from _signature_and_words(thing)
    for member in thing.members.values() if thing.is_class else ():
        if member.is_public and not member.is_alias and member.docstring and member.name != "__init__":
            yield f"### {name}.{member.name}\n"
            yield from _signature_and_words(member)


def _signature_and_words(thing: Any) -> Iterator[str]:
    if signature := thing.signature() if thing.is_function or thing.is_class else "":
        yield f"```python\n{signature}\n```\n"
    yield f"{thing.docstring.value if thing.docstring else ''}\n"


def _reference() -> Any:
    import griffe

    return griffe.load("headrace", search_paths=[SOURCES], resolve_aliases=True, resolve_external=False)
