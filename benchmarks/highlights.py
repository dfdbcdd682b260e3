"""The eight comparisons that matter as a picture, from recorded figures: ``python -m benchmarks.highlights``."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from benchmarks import svg
from benchmarks.document import load
from benchmarks.svg import Canvas

FOLDER = Path(__file__).parent.parent / "docs" / "benchmarks"
PICTURE = FOLDER / "highlights.svg"
WIDTH = 820
ROW = 38


class Shown(NamedTuple):
    """A case of a recorded run, its rival, and how a reader would call them."""

    record: str
    case: str
    rival: str
    title: str
    against: str


SHOWN = (
    Shown("full", "pull: 2 of 100 columns", "Python Data Source", "2 of 100 columns", "Spark's Python Data Source"),
    Shown(
        "full",
        "pull: LIMIT 10, slow pages of 10,000 rows",
        "Python Data Source",
        "LIMIT 10 from a slow source",
        "Spark's Python Data Source",
    ),
    Shown("full", "pull: four columns", "Python Data Source", "4 columns, 20 M rows", "Spark's Python Data Source"),
    Shown(
        "work",
        "work: GROUP BY a string of 1,000 values",
        "Spark, data in JVM memory",
        "GROUP BY a string, 20 M rows",
        "Spark over its own memory",
    ),
    Shown(
        "full",
        "push: from batches to the answer",
        "Parquet detour",
        "Pushed batches to the answer",
        "by way of a Parquet file",
    ),
    Shown(
        "full",
        "adbc: four columns of a PostgreSQL table",
        "pandas.read_sql, createDataFrame",
        "A PostgreSQL table",
        "pandas.read_sql, createDataFrame",
    ),
    Shown("results", "results: whole result", "toArrow", "A result of 5 M rows, as Arrow", "toArrow"),
    Shown(
        "full",
        "tpch: all 22 queries",
        "Spark's Parquet reader",
        "TPC-H, 22 queries over Parquet",
        "Spark's own Parquet reader",
    ),
)


def ratio(shown: Shown) -> float:
    """How many times as long as Headrace the rival took. Raises LookupError if it was not recorded."""
    for case in load(FOLDER / f"{shown.record}.json")["cases"]:
        for entry in case["contenders"]:
            if (case["case"], entry["contender"]) == (shown.case, shown.rival):
                return float(entry["ratio"])
    raise LookupError(f"{shown.record}.json has no {shown.case!r} against {shown.rival!r}")


def draw() -> str:
    """The picture as SVG."""
    ratios = [ratio(shown) for shown in SHOWN]
    label = max(max(svg.text_width(shown.title, 13), svg.text_width(shown.against, 11)) for shown in SHOWN) + 12
    canvas = Canvas(WIDTH)
    canvas.text(0, 18, "Seconds of the usual way, as a multiple of Headrace's", size=15, bold=True)
    top, bottom = 36.0, 36.0 + len(SHOWN) * ROW
    place = svg.log_scale(1.0, max(100.0, *ratios), label, WIDTH - 50)
    for mark in (1, 2, 5, 10, 20, 50, 100):
        canvas.line([(place(mark), top), (place(mark), bottom)], svg.GRID)
        canvas.text(place(mark), bottom + 15, f"{mark}x", anchor="middle", size=11)
    for number, (shown, value) in enumerate(zip(SHOWN, ratios, strict=True)):
        y = top + number * ROW
        canvas.text(label - 10, y + 16, shown.title, anchor="end", size=13, bold=True)
        canvas.text(label - 10, y + 30, shown.against, anchor="end", size=11)
        canvas.bar(label, y + 8, place(value) - label, ROW - 16, svg.GOOD)
        canvas.text(place(value) + 6, y + 24, f"{value:.2g}x", size=13, bold=True)
    return canvas.render(bottom + 24)


if __name__ == "__main__":
    PICTURE.write_text(draw())
