"""``python -m benchmarks``: runs the cases, prints one table, writes docs/benchmarks/latest.json."""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path

from rich.console import Console
from rich.progress import Progress as Bar
from rich.table import Table

import headrace as hr
from benchmarks import adbc, data_source, pull, push, results
from benchmarks.harness import Result, measure

OUTPUT = Path(__file__).parent.parent / "docs" / "benchmarks"
console = Console()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="more rounds, and the memory test over 5 GB")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", default="", help="run the cases whose name contains this")
    arguments = parser.parse_args()
    rounds = arguments.rounds or (7 if arguments.full else 3)
    with hr.SessionContext(master="local[2]", config={"spark.driver.memory": "8g"}) as ctx:
        groups = {"pull": pull.cases, "push": push.cases, "results": results.cases, "data_source": data_source.cases}
        if arguments.full or arguments.only.startswith("adbc"):
            groups["adbc"] = adbc.cases  # starts a PostgreSQL
        cases = []
        for name, build in groups.items():
            if any(arguments.only in text for text in (name, f"{name}:")) or arguments.only.startswith(name):
                cases += build(ctx, 5_000_000 if name == "results" else arguments.rows)
        cases = [case for case in cases if arguments.only in case.name]
        measured = []
        with Bar(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("measuring", total=len(cases))
            for case in cases:
                bar.update(task, description=case.name)
                measured.append(measure(case, rounds))
                bar.advance(task)
        growth = push.memory_growth_mb(ctx) if arguments.full else None
    report(measured, growth)


def report(measured: list[Result], growth: float | None) -> None:
    table = Table("case", "contender", "best s", "median s", "CPU s", "ratio", "bar")
    rows = []
    for result in measured:
        for timing in result.timings:
            own = timing is result.timings[0]
            ratio = None if own else result.ratio(timing.contender)
            bar = result.case.bars.get(timing.contender)
            table.add_row(
                result.case.name if own else "",
                timing.contender,
                f"{timing.best:.3f}",
                f"{timing.median:.3f}",
                f"{timing.best_cpu:.2f}",
                "" if ratio is None else f"{ratio:.2f}x",
                "" if bar is None or ratio is None else f"{bar:.2f}x {'reached' if ratio >= bar else 'MISSED'}",
            )
            rows.append(
                {
                    "case": result.case.name,
                    "contender": timing.contender,
                    "seconds": timing.seconds,
                    "cpu_seconds": timing.cpu_seconds,
                    "ratio": ratio,
                    "bar": bar,
                }
            )
        table.add_section()
    console.print(table)
    if growth is not None:
        console.print(
            f"driver's Python grew by {growth:.0f} MB while 5 GB were pushed through capacity 4 (bar: 200 MB)"
        )
    OUTPUT.mkdir(parents=True, exist_ok=True)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "machine": platform.machine()}
    document = {"machine": machine, "memory_growth_mb": growth, "rows": rows}
    (OUTPUT / "latest.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
