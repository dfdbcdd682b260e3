"""check_provider: every promise of a provider, verified without Spark; runs in the test's process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from random import Random
from typing import NoReturn

import pyarrow as pa

from headrace.arguments import checked
from headrace.arrow.types import wire_schema
from headrace.errors import HeadraceError
from headrace.execute.live import LiveTable
from headrace.expr.nodes import Expr
from headrace.negotiate.planned import PlannedScan
from headrace.provider import TableProvider, declared_schema
from headrace.stream import StreamProvider, has_batch_scan, why_no_stream
from headrace.tables.choose import not_a_provider
from headrace.testing.aggregates import check_aggregates
from headrace.testing.filters import check_filters, check_limits
from headrace.testing.joins import check_joins
from headrace.testing.probe import USER_ERRORS, CheckStopped, Probe, error_text, on_other_thread
from headrace.testing.projections import check_projections
from headrace.testing.report import OF_STREAMS, READ_PROMISES, Findings, Promise, Report, Severity
from headrace.testing.runtime_filters import check_runtime_filters
from headrace.testing.scans import check_early_stop, check_execute_again, check_fresh_scans, check_pickling
from headrace.testing.stated import check_stated, check_statistics
from headrace.testing.streams import StreamCheck
from headrace.testing.top_n import check_top_n
from headrace.testing.truth import Truth
from headrace.testing.watch import watched
from headrace.testing.work_at_source import check_work_at_source


@checked("filters", "samples", "seed", "max_rows", "planning_budget_s", "at_least_once")
def check_provider(
    provider: TableProvider,
    *,
    filters: Sequence[Expr] = (),
    samples: int = 3,
    seed: int = 0,
    max_rows: int = 100_000,
    planning_budget_s: float = 1.0,
    at_least_once: bool = False,
) -> Report:
    """Verify what a provider promises (see ``Promise``), by scanning it many times without Spark.

    The provider is asked as Headrace asks it, and its batches are read as they are read for Spark. Filters are
    made from the table's own values; what comes back is held against ``Expr.evaluate``. The more kinds of values,
    nulls and partitions the table has, the more is seen: give it a small table with awkward rows in it.

    ``filters``: filters of your own, asked about each alone and all together.
    ``samples``: how many values a column's filters are tried with; more take longer.
    ``seed``: of the generated filters; the same seed makes the same ones for the same rows.
    ``max_rows``: no scan is read further; the report says which checks were cut short by that.
    ``planning_budget_s``: the longest that planning one scan may take.
    ``at_least_once``: of a stream, the same row may come in two ranges.

    A StreamProvider is read from its initial offset to where it is now, in many ranges, and some of it is committed: do
    not check one whose ``commit`` drops rows that are needed. One without a batch scan is checked by its ranges.

    I/O during planning is seen where Python does it on the calling thread; libraries that read files or sockets in
    C++ show only in the time. Raises TypeError for something that is not a provider, and for a push table (which can
    be read once), ValueError for a filter that is not a predicate over the table. What the provider does wrong is in
    the report.
    """
    if not isinstance(provider, TableProvider):
        raise TypeError(f"check_provider takes a TableProvider, not {not_a_provider(provider)}")
    if isinstance(provider, LiveTable):
        raise TypeError("check_provider scans a table many times, and a push table can be scanned once")
    if samples < 1 or max_rows < 1:
        raise ValueError("samples and max_rows must be at least 1")
    check = _Check(provider, tuple(filters), samples, seed, max_rows, planning_budget_s, at_least_once)
    checked: set[Promise] = set()
    with contextlib.suppress(CheckStopped):
        for promises in check.stages():
            checked.update(promises)
    return check.report(checked)


class _Check:
    def __init__(
        self,
        provider: TableProvider,
        filters: tuple[Expr, ...],
        samples: int,
        seed: int,
        max_rows: int,
        planning_budget_s: float,
        at_least_once: bool,
    ) -> None:
        self.provider = provider
        self.filters = filters
        self.samples = samples
        self.rng = Random(seed)
        self.max_rows = max_rows
        self.planning_budget_s = planning_budget_s
        self.at_least_once = at_least_once
        self.findings = Findings()
        self.probe: Probe | None = None
        self.truth: Truth | None = None
        self.stream: StreamCheck | None = None

    def stages(self) -> Iterator[tuple[Promise, ...]]:
        """One check after the other, each after those that it builds upon; yields what has been checked."""
        schema = self._schema()
        self._check_given(schema)
        yield (Promise.SCHEMA,)
        self.probe = probe = self._probe(schema)
        scan = self._plan(probe)
        yield (Promise.PLANNING,)
        self.truth = truth = Truth(probe.read(scan, Promise.EXECUTE))
        yield (Promise.BATCHES,)
        check_execute_again(probe, truth.reading)
        yield (Promise.EXECUTE,)
        check_fresh_scans(probe, truth)
        yield (Promise.FRESH_SCANS,)
        check_pickling(probe, scan, truth.reading)
        check_early_stop(probe, truth)
        check_stated(probe, truth.reading)
        check_statistics(probe, truth.reading)
        check_projections(probe, truth, self.rng)
        yield (Promise.EARLY_STOP, Promise.STATISTICS, Promise.PROJECTION)
        all_exact = check_filters(probe, truth, self.filters, self.rng, self.samples)
        yield (Promise.FILTERS, Promise.PICKLING)
        if has_batch_scan(self.provider):  # to a stream Spark offers columns and filters, and no more
            check_limits(probe, truth, all_exact, self.rng, self.samples)
            check_top_n(probe, truth, all_exact, self.rng, self.samples)
            check_aggregates(probe, truth, all_exact, self.rng, self.samples)
            check_joins(probe, truth, all_exact, self.rng, self.samples)
            check_runtime_filters(probe, truth, scan, self.rng, self.samples)
        sound = not any(self.findings.is_broken(promise) for promise in Promise)
        if sound and has_batch_scan(self.provider):  # else the same fault would be told twice
            check_work_at_source(probe, truth, self.rng, self.samples)
        self._check_slowest_planning(probe)
        yield (Promise.LIMIT, Promise.TOP_N, Promise.AGGREGATES, Promise.JOINS, Promise.RUNTIME_FILTERS)
        yield (Promise.WORK_AT_SOURCE,) if sound else ()
        yield (Promise.PARTITIONING, Promise.ORDERING)
        if self.stream is not None:
            self.stream.check(
                self.filters, self.rng, self.samples, truth.count if has_batch_scan(self.provider) else None
            )
        yield (Promise.OFFSETS, Promise.READ_LIMITS, Promise.RANGES, Promise.STREAM_COMMIT)

    def _probe(self, schema: pa.Schema) -> Probe:
        """Of the provider, or of all that a stream without a batch scan has now."""
        if isinstance(self.provider, StreamProvider) and why_no_stream(self.provider) is None:
            self.stream = StreamCheck(
                self.provider, schema, self.findings, self.max_rows, at_least_once=self.at_least_once
            )
            of_stream = self.stream.begin()
            if not has_batch_scan(self.provider):
                return of_stream
        return Probe(self.provider, schema, self.findings, self.max_rows)

    def report(self, checked: set[Promise]) -> Report:
        promises = tuple(one for one in READ_PROMISES if self.stream is not None or one not in OF_STREAMS)
        broken = ", ".join(promise for promise in promises if self.findings.is_broken(promise))
        for promise in promises:
            if promise not in checked and not self.findings.is_broken(promise):
                self.findings.add(promise, f"to be checked when this is fixed: {broken}", Severity.UNCHECKED)
        return Report(
            type(self.provider).__name__,
            self.findings.all(),
            promises,
            scans=(self.probe.scans if self.probe else 0) + (self.stream.scans if self.stream else 0),
            rows=self.truth.count if self.truth else 0,
            not_offered=self.findings.not_offered(),
        )

    def _schema(self) -> pa.Schema:
        name = f"{type(self.provider).__name__}.schema"
        schemas = []
        for _ in range(2):
            try:
                with watched() as observed:
                    schemas.append(declared_schema(self.provider))
            except USER_ERRORS as error:
                self._stop(Promise.SCHEMA, f"{name} raised {error_text(error)}", error)
            for act in dict.fromkeys(observed.acts):
                message = f"{name} {act}: it is called once, when the table is registered"
                self.findings.add(Promise.SCHEMA, message, Severity.NOTE)
        first, second = schemas
        if not isinstance(first, pa.Schema):
            self._stop(Promise.SCHEMA, f"{name} returned {type(first).__name__}, expected pyarrow.Schema")
        if not isinstance(second, pa.Schema) or not first.equals(second):
            self._stop(Promise.SCHEMA, f"{name} gave another schema when it was called again\n{first}\nthen\n{second}")
        try:
            wire_schema(first)
        except HeadraceError as error:
            self._stop(Promise.SCHEMA, f"{name}: {error}", error)
        return first

    def _check_given(self, schema: pa.Schema) -> None:
        empty = pa.RecordBatch.from_pylist([], wire_schema(schema))
        for expr in self.filters:
            try:
                expr.evaluate(empty)
            except NotImplementedError:  # the provider may know what Headrace does not; the report will say so
                pass
            except (KeyError, TypeError) as error:
                raise ValueError(f"filters=: {expr!r} is no predicate over this table: {error}") from error

    def _plan(self, probe: Probe) -> PlannedScan:
        scan = probe.plan(Promise.PLANNING)
        if probe.seconds[-1] > self.planning_budget_s:
            probe.plan(Promise.PLANNING)
            probe.plan(Promise.PLANNING)
        quickest = min(probe.seconds)
        if quickest > self.planning_budget_s:
            message = (
                f"{type(self.provider).__name__}.scan takes {quickest:.1f} s, more than planning_budget_s="
                f"{self.planning_budget_s:g}: the work belongs into execute"
            )
            self._stop(Promise.PLANNING, message)
        if not self.findings.is_broken(Promise.PLANNING):
            try:
                on_other_thread(lambda: probe.plan(Promise.PLANNING))
            except CheckStopped as stopped:
                message = "planning works on the calling thread only, but Spark plans on threads of its own"
                self._stop(Promise.PLANNING, message, stopped)
        if scan.partitioning.n == 0:
            message = "the plan of all rows has 0 partitions, so the table is empty; one partition is one task"
            self.findings.add(Promise.PARTITIONING, message, Severity.WARNING)
        return scan

    def _check_slowest_planning(self, probe: Probe) -> None:
        slowest = max(probe.seconds)
        if slowest > self.planning_budget_s:
            quickest = min(probe.seconds)
            message = f"of {probe.scans} scans one took {slowest:.1f} s to plan, the quickest {quickest:.3f} s"
            self.findings.add(Promise.PLANNING, message, Severity.WARNING)

    def _stop(self, promise: Promise, message: str, cause: BaseException | None = None) -> NoReturn:
        self.findings.add(promise, message)
        raise CheckStopped from cause
