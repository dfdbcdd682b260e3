"""A campaign's outcomes as the tables of docs/reliability.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from faults.judge import Outcome, Verdict

BEGIN, END = "<!-- campaign: begin -->", "<!-- campaign: end -->"


def tables(outcomes: Sequence[Outcome], seed: int) -> str:
    """Markdown: the sum of it, then a row per fault."""
    total = Counter(outcome.verdict for outcome in outcomes)
    leaks = sum(bool(outcome.leaks) for outcome in outcomes)
    lines = [
        f"{len(outcomes)} runs, seed {seed}: "
        + ", ".join(f"{total[verdict.value]} {verdict.value}" for verdict in Verdict)
        + f", {leaks} with something left behind.",
        "",
        "| fault | runs | right | named error | other | right after (median, worst) | error after (median, worst) "
        "| producers (worst) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for fault in dict.fromkeys(outcome.fault for outcome in sorted(outcomes, key=lambda o: o.index)):
        rows = [outcome for outcome in outcomes if outcome.fault == fault]
        count = Counter(outcome.verdict for outcome in rows)
        right, named = count[Verdict.RIGHT.value], count[Verdict.NAMED.value]
        producers = max(outcome.producers_s for outcome in rows)
        lines.append(
            f"| {fault} | {len(rows)} | {right} | {named} | {len(rows) - right - named} "
            f"| {_seconds(rows, right=True)} | {_seconds(rows, right=False)} | {producers:.1f} s |"
        )
    return "\n".join(lines)


def _seconds(outcomes: Sequence[Outcome], *, right: bool) -> str:
    """From the fault to the end of the query: the median and the worst of those that ended right, or with an error."""
    found = sorted(outcome.seconds for outcome in outcomes if (outcome.verdict == Verdict.RIGHT.value) is right)
    return f"{found[len(found) // 2]:.1f} s, {found[-1]:.1f} s" if found else ""


def replaced(document: str, text: str) -> str:
    """``document`` with ``text`` between its two marks. Raises ValueError where it has none."""
    before, found, rest = document.partition(BEGIN)
    _, closing, after = rest.partition(END)
    if not found or not closing:
        raise ValueError("the document has no place for the campaign's tables")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"
