"""Checks of a StreamProvider: offsets, read limits, ranges, commit; without Spark, in the test's process."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pyarrow as pa

from headrace.arrow.rows import counted
from headrace.arrow.rows import shown as shown_rows
from headrace.arrow.types import wire_schema
from headrace.errors import OffsetLostError
from headrace.expr.nodes import Expr
from headrace.negotiate.asking import ProviderRaised
from headrace.stream import Offset, ReadLimit, StreamProvider, has_batch_scan
from headrace.testing.filters import check_filters
from headrace.testing.offsets import Offsets, limit_text, same, shown
from headrace.testing.probe import USER_ERRORS, CheckStopped, Probe, Reading, error_text
from headrace.testing.projections import check_projections
from headrace.testing.report import OF_STREAMS, Findings, Promise, Severity
from headrace.testing.rows import difference
from headrace.testing.scans import check_execute_again, check_pickling
from headrace.testing.truth import Truth

_STEPS = 5
_MANY_STEPS = 20
_FAR_MORE = 10
"""A limit is met approximately: rows of one moment stay together, a file is read whole."""


class StreamCheck:
    """One stream under test: from its initial offset to where it is now. ``begin`` first."""

    def __init__(
        self, stream: StreamProvider, schema: pa.Schema, findings: Findings, max_rows: int, *, at_least_once: bool
    ) -> None:
        self._stream = stream
        self._name = type(stream).__name__
        self._schema = schema
        self._findings = findings
        self._at_least_once = at_least_once
        self._offsets = Offsets(stream, findings)
        self._max_rows = max_rows
        self.scans = 0
        self.start: Offset = None
        self.end: Offset = None
        for promise in OF_STREAMS:
            findings.offer(promise)

    def begin(self) -> Probe:
        """Finds both ends; the probe of the range between them."""
        self.start = self._offsets.initial()
        self.end = self._offsets.now(self.start)
        return self._probe(self.start, self.end)

    def check(self, filters: Sequence[Expr], rng: Random, samples: int, rows_of_table: int | None) -> None:
        """``rows_of_table``: how many rows a batch scan had, where there is one."""
        if same(self.start, self.end):
            self._note_empty(rows_of_table)
            return
        whole = self._read(self.start, self.end)
        self._check_range(whole, filters, rng, samples)
        steps = self._check_limits(whole)
        self._check_sum(whole, steps)
        self._check_commit(whole, steps)

    def _note_empty(self, rows_of_table: int | None) -> None:
        message = f"{self._name}.latest_offset gave the initial offset, {shown(self.start)}: no range could be read"
        self._findings.add(Promise.RANGES, message, Severity.NOTE)
        if rows_of_table:
            message += (
                f", although a batch scan has {counted(rows_of_table, 'row')}. Unless the stream is meant to begin at "
                "its end, it stands still for ever"
            )
            self._findings.add(Promise.READ_LIMITS, message, Severity.WARNING)

    def _check_range(self, whole: Reading, filters: Sequence[Expr], rng: Random, samples: int) -> None:
        """The range as a table: read again, planned again, pickled; for a table with a batch scan, columns and filters
        too, which were checked for this very range where there is no such scan."""
        probe, truth = self._probe(self.start, self.end), Truth(whole)
        with contextlib.suppress(CheckStopped):
            again = self._read(self.start, self.end)
            truth.compare(probe, again, Promise.RANGES, f"the range {self._text(self.start, self.end)} has other rows")
        if has_batch_scan(self._stream):
            with contextlib.suppress(CheckStopped):
                check_execute_again(probe, whole)
                check_pickling(probe, whole.scan, whole)
                check_projections(probe, truth, rng)
                check_filters(probe, truth, filters, rng, samples)

    def _check_limits(self, whole: Reading) -> list[Offset]:
        """Small steps, and those of about a fifth by rows and by bytes, all up to ``until``. Returns those by rows."""
        steps = [self.start, self.end]
        rows, size = whole.table.num_rows, whole.table.nbytes
        few = max(1, rows // _MANY_STEPS)
        for limit in (
            ReadLimit(max_rows=few, until=self.end),
            ReadLimit(max_bytes=max(1, size // _STEPS), until=self.end),
            ReadLimit(max_rows=max(1, rows // _STEPS), until=self.end),
        ):
            with contextlib.suppress(CheckStopped):
                walked = self._offsets.walk(self.start, self.end, limit)
                if limit.max_rows == few:
                    self._check_size(walked, few, rows)
                if limit.max_rows is not None:
                    steps = walked
        with contextlib.suppress(CheckStopped):
            if len(steps) > 2:
                self._check_until(steps[1])
        return steps

    def _check_size(self, steps: list[Offset], most: int, rows: int) -> None:
        if len(steps) == 2 and rows > _FAR_MORE * most:
            message = (
                f"{self._name}.latest_offset({shown(self.start)}, ReadLimit(max_rows={most})) let pass all of "
                f"{counted(rows, 'row')}: unless these belong together, a large backlog comes in one micro-batch"
            )
            self._findings.add(Promise.READ_LIMITS, message, Severity.WARNING)

    def _check_until(self, until: Offset) -> None:
        limit = ReadLimit(until=until)
        found = self._offsets.latest(self.start, limit, Promise.READ_LIMITS)
        if not same(found, until):
            message = (
                f"{self._name}.latest_offset({shown(self.start)}, {limit_text(limit)}) gave {shown(found)}; there is "
                "data up to until, which is where it has to stop: a query with availableNow ends there"
            )
            self._findings.add(Promise.READ_LIMITS, message)

    def _check_sum(self, whole: Reading, steps: list[Offset]) -> None:
        """The rows of all steps are those of the whole range."""
        with contextlib.suppress(CheckStopped):
            parts = [self._read(start, end) for start, end in pairwise(steps)]
            if not whole.complete or not all(part.complete for part in parts):
                message = "the range has more than max_rows rows: whether ranges add up could not be told"
                self._findings.add(Promise.RANGES, message, Severity.NOTE)
                return
            table = pa.concat_tables([part.table for part in parts])
            differs = difference(whole.table, table)
            ends = ", ".join(map(shown, steps[:4])) + (", ..." if len(steps) > 4 else "")
            if differs.missing:
                rows = shown_rows(whole.table, differs.missing)
                text = f"none has {counted(len(differs.missing), 'row')} of the whole range: {rows}"
                self._findings.add(Promise.RANGES, f"ranges side by side ({ends}) do not add up: {text}")
            if differs.extra and not self._at_least_once:
                rows = shown_rows(table, differs.extra)
                text = f"{counted(len(differs.extra), 'row')} too many: {rows}; a range has its end, not its start"
                self._findings.add(Promise.RANGES, f"ranges side by side ({ends}) do not add up: {text}")

    def _check_commit(self, whole: Reading, steps: list[Offset]) -> None:
        """Twice, late and out of order; what comes after what was committed is all there."""
        middle = steps[len(steps) // 2] if len(steps) > 2 else self.start
        with contextlib.suppress(CheckStopped):
            expected = self._read(middle, self.end, Promise.STREAM_COMMIT)
            for offset in (steps[1] if len(steps) > 2 else self.start, middle, middle, self.start):
                self._commit(offset)
            found = self._read(middle, self.end, Promise.STREAM_COMMIT)
            if expected.complete and (differs := difference(expected.table, found.table)):
                where = self._text(middle, self.end)
                self._findings.add(
                    Promise.STREAM_COMMIT, f"after commit({shown(middle)}) the range {where} has other rows: {differs}"
                )
            if not same(middle, self.start):
                self._check_committed(whole, middle)

    def _check_committed(self, whole: Reading, middle: Offset) -> None:
        """What was committed may be gone, but then it is said: a checkpoint that was copied may ask for it."""
        probe = self._probe(self.start, self.end)
        rows: list[pa.RecordBatch] = []
        try:
            scan = probe.negotiate().plan_between(self.start, self.end)
            for partition in range(scan.partitioning.n):
                with contextlib.closing(probe.stream(scan, partition)) as stream:
                    rows += stream
        except (ProviderRaised, *USER_ERRORS) as raised:
            error = raised.__cause__ if isinstance(raised, ProviderRaised) and raised.__cause__ else raised
            if not isinstance(error, OffsetLostError):
                message = f"a range that was committed raised {error_text(error)}, expected its rows or OffsetLostError"
                self._findings.add(Promise.STREAM_COMMIT, message)
            return
        found = pa.Table.from_batches(rows, wire_schema(self._schema))
        if whole.complete and (differs := difference(whole.table, found)):
            message = (
                f"after commit({shown(middle)}) the range {self._text(self.start, self.end)} has other rows, and no "
                f"OffsetLostError is raised: {differs}"
            )
            self._findings.add(Promise.STREAM_COMMIT, message)

    def _probe(self, start: Offset, end: Offset) -> Probe:
        return Probe(self._stream, self._schema, self._findings, self._max_rows, (start, end))

    def _read(self, start: Offset, end: Offset, blame: Promise = Promise.RANGES) -> Reading:
        """All columns of a range, from a plan of its own. What goes wrong is a finding, and raises CheckStopped."""
        probe = self._probe(start, end)
        self.scans += 1
        return probe.read(probe.plan(blame), blame)

    def _commit(self, offset: Offset) -> None:
        try:
            self._stream.commit(offset)
        except USER_ERRORS as error:
            message = f"{self._name}.commit({shown(offset)}) raised {error_text(error)}"
            self._findings.add(Promise.STREAM_COMMIT, message)
            raise CheckStopped from error

    def _text(self, start: Offset, end: Offset) -> str:
        return f"from {shown(start)} to {shown(end)}"
