"""Runs the wanted cases one after the other and keeps what was measured on disk after each of them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import chart, document, report
from benchmarks.bench import Bench
from benchmarks.groups import GROUPS, Group
from benchmarks.harness import Case, Figure, Probe, Result, measure


def run(bench: Bench, target: Path, only: str = "", groups: Iterable[Group] = GROUPS) -> document.Document:
    """Measure, and return the run's document. A case that fails is noted in it and does not stop the others.

    JSON and picture are written after every case: an interrupted run ends with what it has.
    """
    settings = bench.settings
    made = document.empty(settings)
    console = report.console(stderr=True)
    built = [
        (group, [case for case in group.build(bench) if only in case.name or only in group.name])
        for group in groups
        if group.is_wanted(only, full=settings.full)
    ]

    def written() -> None:
        document.save(made, target)
        target.with_suffix(".svg").write_text(chart.draw(made))

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=sum(len(cases) for _, cases in built))
        try:
            for group, cases in built:
                results: list[Result] = []
                for case in cases:
                    bar.update(task, description=case.name)
                    _measured(bench, group, case, results, made, bar.console.print)
                    bar.advance(task)
                    written()
                if results:
                    summed, figures = group.after(results)
                    made["cases"] += [document.case_entry(result) for result in summed]
                    made["figures"] += [document.figure_entry(figure) for figure in figures]
            made["complete"] = True
        except KeyboardInterrupt:
            console.print("interrupted: what was measured is kept")
    written()
    return made


def _measured(
    bench: Bench,
    group: Group,
    case: Case | Probe,
    results: list[Result],
    made: document.Document,
    say: Callable[[str], None],
) -> None:
    settings = bench.settings
    rounds = settings.rounds if settings.full else min(settings.rounds, group.quick_rounds or settings.rounds)
    try:
        if isinstance(case, Probe):
            figures: list[Figure] = case.run()
            made["figures"] += [document.figure_entry(figure) for figure in figures]
            for figure in figures:
                say(f"{figure.name}: {figure.value:.3g} {figure.unit}")
        else:
            if not settings.warm_seconds:
                case = replace(case, warmups=0)
            result = measure(case, rounds, settings.warm_seconds if group.warm else 0.0)
            results.append(result)
            made["cases"].append(document.case_entry(result))
            say(report.line(made["cases"][-1]))
    except Exception as error:
        made["failures"].append({"case": case.name, "error": f"{type(error).__name__}: {error}"[:2000]})
        say(f"FAILED {case.name}\n{traceback.format_exc()}")
