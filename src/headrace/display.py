"""How Headrace's objects look in a notebook: small HTML tables and a fill level; pure, runs anywhere."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

_CELL = "text-align: left; padding: 0 1em 0 0; vertical-align: top"
_BAR = "display: inline-block; width: 10em; height: 0.8em; border: 1px solid currentColor; vertical-align: middle"


def html_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table under a title. All texts are escaped."""
    head = "".join(f"<th style='{_CELL}'>{html.escape(heading)}</th>" for heading in headings)
    body = "".join(
        f"<tr>{''.join(f'<td style={_CELL!r}>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<div><b>{html.escape(title)}</b><table><tr>{head}</tr>{body}</table></div>"


def html_lines(title: str, lines: Iterable[str], *, filled: float | None = None) -> str:
    """Lines under a title; ``filled`` (0 to 1) adds a bar. All texts are escaped."""
    bar = ""
    if filled is not None:
        share = round(100 * min(1.0, max(0.0, filled)))
        inner = f"display: block; height: 100%; width: {share}%; background: currentColor; opacity: 0.5"
        bar = f" <span style='{_BAR}'><span style='{inner}'></span></span>"
    text = "<br>".join(html.escape(line) for line in lines)
    return f"<div><b>{html.escape(title)}</b>{bar}<br>{text}</div>"


def html_text(text: str) -> str:
    """Text whose line breaks and blanks count."""
    return f"<pre>{html.escape(text)}</pre>"


def names_text(names: Sequence[str], most: int = 6) -> str:
    """``a, b, c``, cut where there are many."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
