"""Report: what a check found, promise by promise, for people and for pytest; runs in the test's process."""

from __future__ import annotations

import dataclasses
import enum
import textwrap
from collections import Counter
from dataclasses import dataclass

from headrace.arrow.rows import counted

_MOST_FINDINGS = 3
_WIDTH = 120


class Promise(enum.StrEnum):
    """One thing that Headrace and Spark rely on; the contract of providers and their plans."""

    SCHEMA = "schema"
    """``schema()`` gives a schema that Spark has types for, the same one each time."""
    PLANNING = "planning"
    """``supports_filters_pushdown`` and ``scan`` are quick, do no I/O, run on any thread and give a valid plan."""
    EXECUTE = "execute"
    """Every partition can be produced, again and again, with the same rows."""
    BATCHES = "batches"
    """Batches have the plan's schema, which is the request's or the table's; no nulls where none are declared."""
    FRESH_SCANS = "fresh scans"
    """Scans do not disturb each other: a second one has all rows too."""
    PROJECTION = "projection"
    """The requested columns come, in the requested order, with the same values."""
    FILTERS = "filters"
    """EXACT returns exactly the rows that match, INEXACT drops none of them; one answer per filter."""
    LIMIT = "limit"
    """With a limit come at least that many rows, if there are so many, and they match the filters."""
    TOP_N = "top-n"
    """EXACT returns the first rows in the order, INEXACT at least those; an offset leaves out so many."""
    AGGREGATES = "aggregates"
    """COMPLETE returns each group once, with the right values; PARTIAL gives what merges to the right values."""
    JOINS = "joins"
    """The rows of a join that is taken over are those that Spark would join."""
    WORK_AT_SOURCE = "work at the source"
    """What Headrace does in Arrow with the rows, where the provider does not, is what Spark would make of them."""
    RUNTIME_FILTERS = "runtime filters"
    """Planned again with filters that a query learnt, no row is lost that passes them, and no partition is new."""
    PARTITIONING = "partitioning"
    """The stated KeyPartitioning or HashPartitioning holds for the rows."""
    ORDERING = "ordering"
    """Every partition is sorted as stated."""
    STATISTICS = "statistics"
    """Estimates are of the right order of magnitude."""
    PICKLING = "pickling"
    """A plan for the executors can be pickled, and gives the same rows afterwards."""
    EARLY_STOP = "early stop"
    """Reading can stop after a batch, and start again."""
    OFFSETS = "offsets"
    """Of a stream: offsets are JSON and not null, the initial one stays the same, and they only grow."""
    READ_LIMITS = "read limits"
    """Of a stream: ``latest_offset`` goes on while there are rows, in steps of about the limit, not past ``until``."""
    RANGES = "ranges"
    """Of a stream: the same range has the same rows, and ranges side by side have the rows of the whole, each once."""
    STREAM_COMMIT = "stream commit"
    """Of a stream: ``commit`` may come late and repeatedly, and drops nothing that is not committed."""
    WRITING = "writing"
    """What was written is read back, beside all that was there; a stream that was cut is no end."""
    COMMIT = "commit"
    """Nothing is seen before ``commit``, all of it afterwards; to commit again changes nothing."""
    ABORT = "abort"
    """``abort``, and a write that nobody ends, leave nothing; to abort after a commit removes nothing."""
    ATTEMPTS = "attempts"
    """Only the attempts whose messages are committed count: two of one task give its rows once."""
    WRITE_MODES = "write modes"
    """Each mode that is stated, and a deletion that is, leaves and removes exactly what it says."""
    EPOCHS = "epochs"
    """What a streaming query commits again is there once, also through a plan that was made anew."""


WRITE_PROMISES = (
    *(Promise.WRITING, Promise.COMMIT, Promise.ABORT, Promise.ATTEMPTS, Promise.WRITE_MODES, Promise.EPOCHS),
)
"""What ``check_writer`` checks."""
READ_PROMISES = tuple(promise for promise in Promise if promise not in WRITE_PROMISES)
"""What ``check_provider`` checks."""


OF_STREAMS = (Promise.OFFSETS, Promise.READ_LIMITS, Promise.RANGES, Promise.STREAM_COMMIT)
"""Promises that only a StreamProvider makes."""

_OFFERED = {
    *(Promise.FILTERS, Promise.TOP_N, Promise.AGGREGATES, Promise.JOINS, Promise.RUNTIME_FILTERS),
    *(Promise.PARTITIONING, Promise.ORDERING, Promise.STATISTICS, Promise.PICKLING, Promise.LIMIT),
    *OF_STREAMS,
}
"""Promises that a provider may make or not. It makes the others by being one."""


class Severity(enum.StrEnum):
    """ERROR: the promise is broken. WARNING: allowed, but costs. NOTE: what to know about the check itself.
    UNCHECKED: something else is broken, and nothing can be said about this promise before it is fixed."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    UNCHECKED = "unchecked"


@dataclass(frozen=True)
class Finding:
    """One thing that was found about one promise."""

    promise: Promise
    severity: Severity
    message: str


class BrokenPromise(AssertionError):
    """A provider broke at least one promise; ``report`` has the findings."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


@dataclass(frozen=True)
class Report:
    """The outcome of a check. ``str(report)`` is for reading; ``ok`` means that no promise was broken.

    ``promises`` are those that the report is about, ``scans`` how many scans were planned, ``rows`` how many rows
    the whole table gave (or as many as were read of it). ``not_offered`` are promises that the provider does not make.
    """

    provider: str
    findings: tuple[Finding, ...]
    promises: tuple[Promise, ...] = READ_PROMISES
    scans: int = 0
    rows: int = 0
    not_offered: frozenset[Promise] = frozenset()

    @property
    def ok(self) -> bool:
        """Whether no promise was found to be broken. Warnings and notes do not count."""
        return not self.of(Severity.ERROR)

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(finding for finding in self.findings if finding.severity is severity)

    def about(self, promise: Promise) -> Report:
        """The part of this report that is about one promise."""
        findings = tuple(finding for finding in self.findings if finding.promise is promise)
        return dataclasses.replace(self, findings=findings, promises=(promise,))

    def outcome(self, promise: Promise) -> str:
        """``broken``, ``unchecked``, ``not offered`` or ``kept``."""
        severities = {finding.severity for finding in self.findings if finding.promise is promise}
        if Severity.ERROR in severities:
            return "broken"
        if Severity.UNCHECKED in severities:
            return "unchecked"
        return "not offered" if promise in self.not_offered else "kept"

    def raise_if_failed(self) -> None:
        """Raises BrokenPromise, an AssertionError with the whole report as its text, unless ``ok``."""
        __tracebackhide__ = True
        if not self.ok:
            raise BrokenPromise(self)

    def summary(self) -> str:
        """One line."""
        counts = Counter(map(self.outcome, self.promises))
        words = [(counts[outcome], outcome) for outcome in _OUTCOMES if counts[outcome]]
        parts = [f"{count} {outcome}" for count, outcome in words]
        parts[0] = f"{counted(words[0][0], 'promise')} {words[0][1]}"
        if warnings := len(self.of(Severity.WARNING)):
            parts.append(counted(warnings, "warning"))
        return f"{self.provider}: {', '.join(parts)} ({counted(self.scans, 'scan')}, {counted(self.rows, 'row')})"

    def __str__(self) -> str:
        """What is broken with the errors, then the other promises in a few lines, then warnings and notes."""
        by_outcome = {outcome: [one for one in self.promises if self.outcome(one) == outcome] for outcome in _OUTCOMES}
        lines = [self.summary()]
        for promise in by_outcome.pop("broken"):
            lines.append(f"  {'broken':<11}  {promise}")
            for finding in self.about(promise).findings:
                lines += _indented(f"{finding.severity}: {finding.message}")
        for outcome, promises in by_outcome.items():
            names = textwrap.wrap(", ".join(promises), _WIDTH - 15, break_on_hyphens=False)
            lines += [f"  {outcome if not i else '':<11}  {text}" for i, text in enumerate(names)]
        for message in dict.fromkeys(finding.message for finding in self.of(Severity.UNCHECKED)):
            lines += _indented(f"unchecked: {message}")
        for severity in (Severity.WARNING, Severity.NOTE):
            for finding in self.of(severity):
                if self.outcome(finding.promise) != "broken":
                    lines += _indented(f"{severity}: {finding.promise}: {finding.message}")
        return "\n".join(lines)


_OUTCOMES = ("broken", "kept", "not offered", "unchecked")


def _indented(text: str) -> list[str]:
    first, *others = text.splitlines()
    return [f"      {first}", *(f"        {line}" for line in others)]


class Findings:
    """Collects findings: each once, and only the first few errors of a promise, with the number of the others."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}
        self._left_out: Counter[Promise] = Counter()
        self._offered: set[Promise] = set()

    def offer(self, promise: Promise) -> None:
        """The provider makes this promise, which it might not."""
        self._offered.add(promise)

    def not_offered(self) -> frozenset[Promise]:
        return frozenset(_OFFERED - self._offered)

    def add(self, promise: Promise, message: str, severity: Severity = Severity.ERROR) -> None:
        finding = Finding(promise, severity, message)
        if finding in self._found:
            return
        if severity is Severity.ERROR and self._errors(promise) >= _MOST_FINDINGS:
            self._left_out[promise] += 1
            return
        self._found[finding] = None

    def is_broken(self, *promises: Promise) -> bool:
        return any(self._errors(promise) for promise in promises)

    def all(self) -> tuple[Finding, ...]:
        more = [
            Finding(promise, Severity.NOTE, f"{counted(count, 'more error')} like these")
            for promise, count in self._left_out.items()
        ]
        return (*self._found, *more)

    def _errors(self, promise: Promise) -> int:
        return sum(found.promise is promise and found.severity is Severity.ERROR for found in self._found)
