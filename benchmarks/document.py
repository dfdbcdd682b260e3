"""A run as plain data: what is written as JSON, and all that tables and pictures are made from."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.bench import Settings
from benchmarks.harness import Figure, Result

Document = dict[str, Any]
RIVALS = ("pyspark", "pyarrow", "duckdb", "datafusion")


@dataclass(frozen=True)
class Bar:
    """A bar and how it went. ``at_most``: less is better."""

    case: str
    against: str
    value: float
    bar: float
    unit: str
    at_most: bool
    reached: bool


def empty(settings: Settings) -> Document:
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    return {
        "machine": {**machine, **{name: version(name) for name in RIVALS}},
        "settings": asdict(settings),
        "complete": False,
        "cases": [],
        "figures": [],
        "failures": [],
    }


def case_entry(result: Result) -> dict[str, Any]:
    """One measured case."""
    case = result.case
    contenders = []
    for place, timing in enumerate(result.timings):
        name = timing.contender
        entry: dict[str, Any] = {
            "contender": name,
            "limit": timing.limit,
            "best": timing.best,
            "median": timing.median,
            "cpu": timing.best_cpu,
            "seconds": list(timing.seconds),
            "cpu_seconds": list(timing.cpu_seconds),
        }
        if place > 0:
            ratio, cpu_ratio = result.ratio(name), result.cpu_ratio(name)
            bar, cpu_bar = case.bars.get(name), case.cpu_bars.get(name)
            entry |= {"ratio": ratio, "median_ratio": result.median_ratio(name), "cpu_ratio": cpu_ratio}
            if bar is not None:
                entry |= {"bar": bar, "reached": ratio >= bar}
            if cpu_bar is not None:
                entry |= {"cpu_bar": cpu_bar, "cpu_reached": cpu_ratio <= cpu_bar}
        contenders.append(entry)
    return {
        "case": case.name,
        "rows": case.rows,
        "curve": case.curve,
        "x": case.x,
        "either": case.either,
        "contenders": contenders,
    }


def figure_entry(figure: Figure) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": figure.name, "value": figure.value, "unit": figure.unit}
    return entry if figure.bar is None else entry | {"bar": figure.bar, "reached": figure.reached}


def bars(document: Document) -> list[Bar]:
    """Every bar of the run; alternatives count as one."""
    found: list[Bar] = []
    for case in document["cases"]:
        own = [
            Bar(case["case"], entry["contender"], entry["ratio"], entry["bar"], "x", False, entry["reached"])
            for entry in case["contenders"]
            if "bar" in entry
        ]
        if case["either"] and own:
            own = [max(own, key=lambda bar: (bar.reached, bar.value / bar.bar))]
        found += own
        found += [
            Bar(
                case["case"],
                f"CPU of {entry['contender']}",
                entry["cpu_ratio"],
                entry["cpu_bar"],
                "x",
                True,
                entry["cpu_reached"],
            )
            for entry in case["contenders"]
            if "cpu_bar" in entry
        ]
    found += [
        Bar(figure["name"], "", figure["value"], figure["bar"], figure["unit"], True, figure["reached"])
        for figure in document["figures"]
        if "bar" in figure
    ]
    return found


def points(document: Document, curve: str) -> Iterator[tuple[float, Sequence[dict[str, Any]]]]:
    """The points of a curve in their order: x and the contenders there."""
    found = [case for case in document["cases"] if case["curve"] == curve]
    return ((case["x"], case["contenders"]) for case in sorted(found, key=lambda case: case["x"]))


def save(document: Document, path: Path) -> None:
    """Whole or not at all: an interruption leaves what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".json.part")
    beside.write_text(json.dumps(document, indent=1) + "\n")
    beside.replace(path)


def load(path: Path) -> Document:
    document: Document = json.loads(path.read_text())
    return document
