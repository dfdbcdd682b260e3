"""Just enough SVG for the pictures: no background and middle tones, readable on light and on dark."""

from __future__ import annotations

import math
from collections.abc import Callable
from xml.sax.saxutils import escape

TEXT = "#757f8c"
GRID = "#8a94a055"
GOOD = "#2a9d8f"
BAD = "#e0713a"
OWN = "#3b82c4"
OTHER = "#9a7fc0"
LIMIT = "#8a94a0"


def text_width(text: str, size: int) -> float:
    """Room that a text needs, in the widest of the fonts that a reader may have."""
    return len(text) * size * 0.62


def log_scale(least: float, most: float, left: float, right: float) -> Callable[[float], float]:
    low, high = math.log(least), math.log(most)

    def place(value: float) -> float:
        return left + (math.log(max(value, least)) - low) / (high - low) * (right - left)

    return place


def linear_scale(most: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: start + value / (most or 1.0) * (end - start)


class Canvas:
    """Collects shapes. Coordinates are pixels from the top left corner."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._shapes: list[str] = []

    def bar(self, x: float, y: float, width: float, height: float, colour: str, *, hollow: bool = False) -> None:
        fill = f'fill="none" stroke="{colour}" stroke-width="1.5"' if hollow else f'fill="{colour}"'
        self._shapes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{height:.1f}" rx="2" {fill}/>'
        )

    def line(self, points: list[tuple[float, float]], colour: str, width: float = 1.0, dash: str = "") -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._shapes.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}/>')

    def dot(self, x: float, y: float, colour: str) -> None:
        self._shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: str = "start",
        size: int = 12,
        colour: str = TEXT,
        bold: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self._shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"{weight}>'
            f"{escape(text)}</text>"
        )

    def render(self, height: float) -> str:
        body = "\n".join(self._shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {height:.0f}" width="{self.width}" '
            f'height="{height:.0f}" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">\n'
            f"{body}\n</svg>\n"
        )
