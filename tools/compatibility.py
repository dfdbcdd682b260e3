"""docs/compatibility.md, made of the matrix's results (docs/compatibility.json) and the declared differences."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "compatibility.json"
DOCUMENT = ROOT / "docs" / "compatibility.md"

_INTRODUCTION = """# Compatibility

One wheel and one jar serve PySpark 4.0, 4.1, 4.2 and 4.3. `pip install headrace` leaves the PySpark that you have as
it is; `pip install 'headrace[spark]'` brings one where there is none. PySpark 3.5 is refused when `headrace.spark` is
imported, and a version newer than these is used with a warning.

"all" are the tests of `tests/spark` and, from 2026-11-17 on, those of Spark Connect; the "core" is session,
negotiation, filters, partitioning, streaming, results and early stop; where a row names files of `tests/spark`, these
alone were run. Java 21 is the runtime that `headrace[java]` brings.

*This page is made by `make matrix`, which installs the wheel beside each Spark and runs the tests on it. Do not edit.*
"""

_PLATFORMS = """
## Platforms

What the platforms run, from their vendors' pages of autumn 2026, and the row above that is nearest to it. **Headrace
was not tried on any of them.** A platform's Spark differs from Apache's, and may not let you add a jar
([what to do then](howto/without-jar.md)).

| platform | Spark | Python | Java | nearest row |
|---|---|---|---|---|
| Databricks Runtime 17.3 LTS | 4.0 | 3.12 | 17 | 4.0, 3.12, 17 |
| Databricks Runtime 18 LTS, 19 | 4.1, 4.2 | | | 4.1 or 4.2, 3.11, 17 |
| Databricks, serverless | Spark Connect only, no jars | | | [`hr.as_data_source`](howto/without-jar.md) |
| Amazon EMR, release spark-8.0 | 4.0.2 | | | 4.0, 3.11, 17 |
| AWS Glue 6.0 | 4.1.1 | 3.13 | | 4.1, 3.13, 17 |
| AWS Glue 5.1 and older | 3.5 | | | none: Headrace needs Spark 4.0 |
| Microsoft Fabric Runtime 2.0 | 4.1.1 | 3.13 | 21 | 4.1, 3.13, 21 |
| Google Cloud, serverless Spark runtime 3.0 | 4.0 | 3.12 | 21 | 4.0, 3.12, 21 |
| Google Cloud Dataproc 3.0 | 4.0 | | | 4.0, 3.11, 17 |

An empty cell was not looked up. Tell us what you see there.
"""

_DIFFERENCES = """
## What an older Spark lacks

Optimizations, types and conveniences that Spark itself got later: rows have to be the same on every version, and the
tests compare them. What `ctx.explain` says is true for the version that you run.

| what | since | before that |
|---|---|---|
"""


@dataclass(frozen=True)
class Cell:
    """``tests`` is "all", "core", or names of test files."""

    spark: str
    python: str
    jdk: str
    tests: str

    def is_beside(self, other: Cell) -> bool:
        """Whether both are of one Spark, Python and JDK, with whichever tests."""
        return (self.spark, self.python, self.jdk) == (other.spark, other.python, other.jdk)

    def __str__(self) -> str:
        return f"Spark {self.spark}, Python {self.python}, JDK {self.jdk}, tests: {self.tests}"


@dataclass(frozen=True)
class Result:
    """What one cell gave. ``failed`` has the names of the tests; ``missing`` says why nothing ran."""

    date: str
    passed: int = 0
    skipped: int = 0
    failed: tuple[str, ...] = ()
    missing: str | None = None

    def text(self) -> str:
        if self.missing is not None:
            return f"not run: {self.missing}" if self.missing else "not run yet"
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed{skipped}" + (f", **{len(self.failed)} failed**" if self.failed else "")


def record(cell: Cell, result: Result, planned: Sequence[Cell]) -> None:
    """Put one cell's result beside the others and write the document anew."""
    known = {other: found for other, found in load().items() if found.missing is None or not other.is_beside(cell)}
    results = {**known, cell: result}
    entries = [{**asdict(cell), **asdict(result)} for cell, result in sorted(results.items(), key=_order)]
    RESULTS.write_text(json.dumps(entries, indent=1) + "\n")
    DOCUMENT.write_text(document(load(), planned))


def load() -> dict[Cell, Result]:
    entries = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    results = {}
    for entry in entries:
        cell = Cell(*(entry.pop(name) for name in ("spark", "python", "jdk", "tests")))
        results[cell] = Result(**{**entry, "failed": tuple(entry["failed"])})
    return results


def document(results: Mapping[Cell, Result], planned: Sequence[Cell]) -> str:
    """The whole page. A planned cell for which no tests at all have a result is listed as not run."""
    lines = ["\n## What was run\n", "| Spark | Python | JDK | tests | result | date |", "|---|---|---|---|---|---|"]
    open_cells = [cell for cell in planned if not any(cell.is_beside(other) for other in results)]
    rows = {**{cell: Result("", missing="") for cell in open_cells}, **results}
    for cell, result in sorted(rows.items(), key=_order):
        lines.append(f"| {cell.spark} | {cell.python} | {cell.jdk} | {cell.tests} | {result.text()} | {result.date} |")
    lines += _failures(results)
    differences = "".join(
        f"| {difference.what} | {'.'.join(map(str, difference.since))} | {difference.before} |\n"
        for difference in _declared()
    )
    return _INTRODUCTION + "\n".join(lines) + "\n" + _PLATFORMS + _DIFFERENCES + differences


def _failures(results: Mapping[Cell, Result]) -> Iterable[str]:
    failing = {cell: result for cell, result in results.items() if result.failed}
    if not failing:
        return
    yield "\nFailed:\n"
    for cell, result in sorted(failing.items(), key=_order):
        for name in result.failed:
            yield f"- {cell}: `{name}`"


def _order(item: tuple[Cell, Result]) -> tuple[list[list[int]], str]:
    cell = item[0]
    return [list(map(int, part.split("."))) for part in (cell.jdk, cell.python, cell.spark)], cell.tests


def _declared() -> list[Any]:
    """The differences that the tests know, newest first."""
    found = runpy.run_path(str(ROOT / "tests" / "support" / "versions.py"))["DIFFERENCES"]
    return sorted(found.values(), key=lambda difference: difference.since, reverse=True)
