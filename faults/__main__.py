"""``python -m faults``: run a campaign and say how every run ended."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path

from faults.campaign import outcomes
from faults.judge import Outcome
from faults.report import replaced, tables

_DOCUMENT = Path(__file__).parent.parent / "docs" / "reliability.md"


def main() -> int:
    """Status 1 if any run was wrong, hung, failed without a name or left something behind."""
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run, to repeat some of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="jobs whose name contains this: write, push, pull")
    parser.add_argument("--json", type=Path, help="write each outcome there, a line each")
    parser.add_argument("--record", action="store_true", help="put the tables into docs/reliability.md")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    found: list[Outcome] = []
    began = time.monotonic()
    runs = range(arguments.first, arguments.first + arguments.runs)
    for outcome in outcomes(arguments.seed, runs, _say, arguments.only):
        found.append(outcome)
        mark = "!!" if outcome.is_bad else "ok"
        print(
            f"{mark} {outcome.index:>4} {outcome.fault:<28} {outcome.job:<32} {outcome.verdict:<13} "
            f"{outcome.seconds:6.1f} s {outcome.producers_s:5.1f} s  {outcome.detail} {outcome.leaks}",
            flush=True,
        )
        if arguments.json is not None:
            with arguments.json.open("a") as lines:
                lines.write(json.dumps(outcome.as_dict()) + "\n")
    report = tables(found, arguments.seed)
    print(f"\n{report}\n\n{time.monotonic() - began:.0f} s")
    if arguments.record:
        _DOCUMENT.write_text(replaced(_DOCUMENT.read_text(), report))
    return 1 if any(outcome.is_bad for outcome in found) else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
