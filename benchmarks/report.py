"""A run on the terminal: a line for each case as it ends, then one table of everything."""

from __future__ import annotations

from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from benchmarks.document import Document, bars

LEAST_WIDTH = 175


def console(*, stderr: bool = False) -> Console:
    """Wide enough for the table where there is no terminal to fit into."""
    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal:
        made.width = max(made.width, LEAST_WIDTH)
    return made


def line(case: dict[str, Any]) -> str:
    """One case in one line."""
    own, *others = case["contenders"]
    parts = [f"{entry['contender']} {entry['ratio']:.2f}x{_mark(entry.get('reached'))}" for entry in others]
    return f"{case['case']}: {own['best']:.3f} s; " + ", ".join(parts)


def whole(document: Document) -> RenderableType:
    """The table of cases, the table of figures, what failed, and the summary."""
    parts: list[RenderableType] = []
    if document["cases"]:
        parts.append(_cases(document))
    if document["figures"]:
        parts.append(_figures(document))
    parts += [Text(f"FAILED {failure['case']}: {failure['error']}", "red") for failure in document["failures"]]
    parts.append(Text(summary(document)))
    return Group(*parts)


def summary(document: Document) -> str:
    found = bars(document)
    text = f"{sum(bar.reached for bar in found)} of {len(found)} bars reached"
    for bar in found:
        if not bar.reached:
            against = f", {bar.against}" if bar.against else ""
            sign = "at most" if bar.at_most else "at least"
            text += f"\n  MISSED {bar.case}{against}: {bar.value:.2f} {bar.unit}, bar: {sign} {bar.bar:.2f}"
    if not document["settings"]["full"]:
        text += "\nA quick run: the bars are those of the full size (make bench FULL=1)."
    return text


def _cases(document: Document) -> Table:
    table = Table()
    table.add_column("case", no_wrap=True)
    table.add_column("contender", no_wrap=True)
    for name in ("best s", "median s", "CPU s", "M rows/s", "ratio"):
        table.add_column(name, justify="right")
    table.add_column("bar")
    table.add_column("CPU ratio", justify="right")
    table.add_column("CPU bar")
    for case in document["cases"]:
        for place, entry in enumerate(case["contenders"]):
            table.add_row(
                case["case"] if place == 0 else "",
                entry["contender"] + (" (limit)" if entry["limit"] else ""),
                f"{entry['best']:.3f}",
                f"{entry['median']:.3f}",
                f"{entry['cpu']:.2f}",
                f"{case['rows'] / entry['best'] / 1e6:.1f}" if case["rows"] else "",
                f"{entry['ratio']:.2f}x" if place else "",
                _verdict(entry, "bar", "reached", either=case["either"]),
                f"{entry['cpu_ratio']:.2f}x" if place else "",
                _verdict(entry, "cpu_bar", "cpu_reached"),
            )
        table.add_section()
    table.caption = (
        "ratio: how many times as long as Headrace it takes. CPU ratio: how many times its CPU seconds Headrace uses."
    )
    return table


def _figures(document: Document) -> Table:
    table = Table("figure")
    table.add_column("value", justify="right")
    table.add_column("bar")
    for figure in document["figures"]:
        table.add_row(
            figure["name"], f"{figure['value']:.3g} {figure['unit']}", _verdict(figure, "bar", "reached", most=True)
        )
    return table


def _verdict(entry: dict[str, Any], bar: str, reached: str, *, either: bool = False, most: bool = False) -> Text:
    if bar not in entry:
        return Text("")
    most = most or bar == "cpu_bar"
    text = f"{'≤' if most else '≥'} {entry[bar]:.2f} "
    if entry[reached]:
        return Text(text + "reached", "green")
    return Text(text + "not (the other limit counts as well)", "yellow") if either else Text(text + "MISSED", "red")


def _mark(reached: bool | None) -> str:
    return " (MISSED)" if reached is False else ""
