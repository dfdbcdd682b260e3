"""docs/pictures/explain.svg: what ``ctx.explain`` says of the tutorial's table, as a terminal shows it.

``python -m tools.explain_picture`` runs the tutorial and draws the picture; a test compares the two.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "pictures" / "explain.svg"
QUERY = "SELECT day, sum(size) FROM events WHERE day >= DATE '2024-01-10' AND level = 'ERROR' GROUP BY day"
FONT, LINE, PADDING = 13.0, 19.0, 18.0
BACKGROUND, TEXT, FAINT = "#1b2330", "#d5dce6", "#8b98a9"
COLOURS = {
    "EXACT": "#4cc9a8",
    "HEADRACE": "#4cc9a8",
    "INEXACT": "#e9c46a",
    "UNSUPPORTED": "#f08a5d",
    "PARTIAL": "#e9c46a",
}


def explanation(tutorial: dict[str, Any]) -> str:
    """The tutorial's last good table, explained; given the names that the tutorial left behind."""
    ctx = tutorial["ctx"]
    ctx.register_table("events", tutorial["DailyEvents"](), replace=True)
    return str(ctx.explain(QUERY))


def draw(text: str) -> str:
    """The text as SVG, on a background of its own: it looks the same in light and dark."""
    lines = [f">>> print(ctx.explain({QUERY!r}))", *text.rstrip("\n").splitlines()]
    width = max(map(len, lines)) * FONT * 0.605 + 2 * PADDING
    height = len(lines) * LINE + 2 * PADDING - 4
    shapes = [
        f'<text x="{PADDING}" y="{PADDING + number * LINE + 12:.0f}" fill="{FAINT if number == 0 else TEXT}" '
        f'xml:space="preserve">{_coloured(line)}</text>'
        for number, line in enumerate(lines)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-size="{FONT:.0f}" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace">\n'
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>\n' + "\n".join(shapes) + "\n</svg>\n"
    )


def _coloured(line: str) -> str:
    def tint(found: re.Match[str]) -> str:
        return f'<tspan fill="{COLOURS[found[0]]}" font-weight="600">{found[0]}</tspan>'

    return re.sub("|".join(rf"\b{word}\b" for word in COLOURS), tint, escape(line))


def main() -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text()
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        exec(block, names)
    PICTURE.write_text(draw(explanation(names)))
    names["ctx"].close()


if __name__ == "__main__":
    main()
