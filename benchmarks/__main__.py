"""``python -m benchmarks``: Headrace and its rivals in turn; prints one table, writes JSON and a picture."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import headrace as hr
from benchmarks import report
from benchmarks.bench import Bench, Settings
from benchmarks.run import run

OUTPUT = Path(__file__).parent.parent / "docs" / "benchmarks"


def main() -> int:
    """Missed bars do not make it fail: a benchmark is not a test. A wrong answer does."""
    arguments = _arguments()
    settings = (Settings.whole() if arguments.full else Settings.quick()).with_(arguments.rows, arguments.rounds)
    target = OUTPUT / f"{arguments.record or 'latest'}.json"
    with quiet_jvm():
        ctx = hr.SessionContext(master="local[2]", config={"spark.driver.memory": "8g", "spark.log.level": "OFF"})
    with ctx, Bench(ctx, settings) as bench:
        document = run(bench, target, arguments.only)
    console = report.console()
    console.print(report.whole(document))
    console.print(f"written: {os.path.relpath(target)}, {os.path.relpath(target.with_suffix('.svg'))}")
    return 1 if document["failures"] else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="full size and more rounds: about an hour")
    parser.add_argument("--rows", type=int, help="rows of the pull and push cases (10 M, full: 20 M)")
    parser.add_argument("--rounds", type=int, help="measured rounds of each case (2, full: 5)")
    parser.add_argument("--only", default="", help="run the cases, or the group, whose name contains this")
    parser.add_argument("--record", metavar="NAME", help="write docs/benchmarks/NAME.json and .svg instead of latest")
    return parser.parse_args()


@contextlib.contextmanager
def quiet_jvm() -> Iterator[None]:
    """A JVM started in here writes its errors to a file: rivals' workers print tracebacks when they are stopped."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.NamedTemporaryFile(prefix="headrace-bench-", suffix=".log") as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


if __name__ == "__main__":
    sys.exit(main())
