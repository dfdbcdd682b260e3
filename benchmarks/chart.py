"""A run as a picture, from its JSON alone: ``python -m benchmarks.chart docs/benchmarks/full.json``."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from benchmarks import svg
from benchmarks.document import Document, load, points
from benchmarks.svg import Canvas

PLOT = 540
LABEL_SIZE = 11
ROW = 20
HEAD = 34
GAP = 30
SHOWN_IN_FULL = ("pull: four columns", "push: four columns", "results: whole result")
CURVES = {"rows": "M rows/s", "partitions": "partitions/s"}
CURVE_HEIGHT = 190


def draw(document: Document) -> str:
    """The whole picture as SVG."""
    ratios = _ratios_shown(document)
    in_full = [case for case in document["cases"] if case["case"] in SHOWN_IN_FULL]
    names = [_label(case, entry) for case, entry in ratios]
    names += [entry["contender"] for case in in_full for entry in case["contenders"]]
    label = max((svg.text_width(name, LABEL_SIZE) for name in names), default=0.0) + 10
    canvas = Canvas(math.ceil(label) + PLOT)
    y = _ratios(canvas, 10.0, label, ratios)
    for case in in_full:
        y = _seconds(canvas, y, label, case)
    y = _curves(canvas, y, document)
    return canvas.render(y)


def _ratios_shown(document: Document) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Cases and rivals that get a bar: those with a limit to reach; where a case has none, its first rival."""
    return [
        (case, entry)
        for case in document["cases"]
        if not case["case"].lower().startswith(("tpch: q", "tpcds: q"))
        for entry in _compared(case)
    ]


def _label(case: dict[str, Any], entry: dict[str, Any]) -> str:
    return f"{case['case']} · {entry['contender']}"


def _ratios(canvas: Canvas, top: float, label: float, rows: list[tuple[dict[str, Any], dict[str, Any]]]) -> float:
    """A bar for each ratio: right of 1 Headrace is faster. A tick stands where the goal of the case is, its "bar"."""
    if not rows:
        return top
    canvas.text(0, top + 14, "How many times as long as Headrace it takes", size=15, bold=True)
    _legend(canvas, top)
    top += HEAD
    values = [value for _, entry in rows for value in (entry["ratio"], entry.get("bar", 1.0)) if value > 0]
    place = svg.log_scale(min(0.5, *values), max(2.0, *values), label, canvas.width - 60)
    bottom = top + len(rows) * ROW
    for power in range(math.floor(math.log10(min(0.5, *values))), math.ceil(math.log10(max(2.0, *values))) + 1):
        if min(0.5, *values) <= 10**power <= max(2.0, *values):
            x = place(10**power)
            canvas.line([(x, top - 4), (x, bottom)], svg.GRID)
            canvas.text(x, bottom + 14, f"{10**power:g}x", anchor="middle", size=11)
    for number, (case, entry) in enumerate(rows):
        y = top + number * ROW
        missed = _is_missed(case, entry)
        colour = svg.BAD if missed else svg.GOOD if "bar" in entry else svg.OTHER
        colour = svg.LIMIT if entry["limit"] and not missed else colour
        left, right = sorted((place(1.0), place(entry["ratio"])))
        canvas.text(label - 8, y + 13, _label(case, entry), anchor="end", size=LABEL_SIZE)
        canvas.bar(left, y + 3, right - left, ROW - 7, colour, hollow=entry["limit"])
        if "bar" in entry:
            x = place(entry["bar"])
            canvas.line([(x, y), (x, y + ROW - 1)], svg.TEXT, 2.0)
        canvas.text(max(right, place(entry.get("bar", 0.001))) + 5, y + 13, f"{entry['ratio']:.2g}x", size=11)
    return bottom + GAP


def _legend(canvas: Canvas, top: float) -> None:
    x = canvas.width - 485.0
    for text, colour, hollow in (
        ("goal reached", svg.GOOD, False),
        ("goal missed", svg.BAD, False),
        ("no goal", svg.OTHER, False),
        ("a limit", svg.LIMIT, True),
    ):
        canvas.bar(x, top + 5, 12, 9, colour, hollow=hollow)
        canvas.text(x + 17, top + 14, text, size=11)
        x += 100.0
    canvas.line([(x, top + 2), (x, top + 17)], svg.TEXT, 2.0)
    canvas.text(x + 5, top + 14, "the goal", size=11)


def _is_missed(case: dict[str, Any], entry: dict[str, Any]) -> bool:
    alternatives = case["contenders"] if case["either"] else [entry]
    return entry.get("reached") is False and not any(other.get("reached") for other in alternatives)


def _compared(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The rivals with a bar; where there is none, the first one."""
    rivals = case["contenders"][1:]
    return [entry for entry in rivals if "bar" in entry] or rivals[:1]


def _seconds(canvas: Canvas, top: float, label: float, case: dict[str, Any]) -> float:
    """Everybody's seconds in one case. Limits, which do only a part of the work, are hollow."""
    rows = f", {case['rows'] / 1e6:g} M rows" if case["rows"] else ""
    canvas.text(0, top + 14, f"{case['case']}{rows}: seconds", size=15, bold=True)
    top += HEAD
    place = svg.linear_scale(max(entry["best"] for entry in case["contenders"]), label, canvas.width - 60)
    for number, entry in enumerate(case["contenders"]):
        y = top + number * ROW
        colour = svg.OWN if number == 0 else svg.LIMIT if entry["limit"] else svg.OTHER
        canvas.text(label - 8, y + 13, entry["contender"], anchor="end", size=LABEL_SIZE)
        canvas.bar(label, y + 3, place(entry["best"]) - label, ROW - 7, colour, hollow=entry["limit"])
        canvas.text(place(entry["best"]) + 5, y + 13, f"{entry['best']:.3f}", size=11)
    return top + len(case["contenders"]) * ROW + GAP


def _curves(canvas: Canvas, top: float, document: Document) -> float:
    """What is done in a second as the work grows: flat is linear cost."""
    drawn = [(curve, unit) for curve, unit in CURVES.items() if list(points(document, curve))]
    width = (canvas.width - 40) / 2
    for number, (curve, unit) in enumerate(drawn):
        _curve(canvas, number * (width + 40), top, width, document, curve, unit)
    return top + (CURVE_HEIGHT + HEAD + GAP if drawn else 0)


def _curve(canvas: Canvas, left: float, top: float, width: float, document: Document, curve: str, unit: str) -> None:
    scale = 1e6 if curve == "rows" else 1.0
    lines: dict[str, list[tuple[float, float]]] = {}
    for x, contenders in points(document, curve):
        for entry in contenders:
            lines.setdefault(entry["contender"], []).append((x, x / entry["best"] / scale))
    canvas.text(left, top + 14, f"Growth: {unit} by {curve}, logarithmic", size=15, bold=True)
    everything = [point for line in lines.values() for point in line]
    xs, ys = [x for x, _ in everything], [y for _, y in everything]
    place_x = svg.log_scale(min(xs), max(max(xs), min(xs) * 1.01), left + 45, left + width - 100)
    bottom = top + HEAD + CURVE_HEIGHT - 40
    place_y = svg.log_scale(min(ys) / 2, max(ys) * 1.4, bottom, top + HEAD)
    canvas.line([(left, bottom), (left + width, bottom)], svg.GRID)
    for x in sorted(set(xs)):
        canvas.text(place_x(x), bottom + 16, f"{x:,.0f}", anchor="middle", size=11)
    for number, (name, line) in enumerate(lines.items()):
        colour = svg.OWN if number == 0 else svg.OTHER
        placed = [(place_x(x), place_y(y)) for x, y in line]
        canvas.line(placed, colour, 2.0)
        for (x, y), (_, value) in zip(placed, line, strict=True):
            canvas.dot(x, y, colour)
            canvas.text(x, y - 8 if number == 0 else y + 17, f"{value:.3g}", anchor="middle", size=11)
        canvas.text(placed[-1][0] + 10, placed[-1][1] + 4, name, size=11, colour=colour)


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        path.with_suffix(".svg").write_text(draw(load(path)))


if __name__ == "__main__":
    main()
