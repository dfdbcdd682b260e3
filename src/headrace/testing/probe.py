"""Probe: asks a provider for scans as Headrace does, watched, and reads them as Spark would; no Spark needed."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from headrace.arrow.damage import DamageCheck
from headrace.arrow.types import wire_schema
from headrace.errors import PlanError, SchemaMismatchError
from headrace.execute.partition_stream import PartitionStream, ScanTask
from headrace.execute.stopping import StopFlag
from headrace.expr.nodes import Expr
from headrace.negotiate.asking import ProviderRaised
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.partitioning import ScanSettings
from headrace.negotiate.planned import PlannedScan
from headrace.negotiate.registry import RegisteredTable
from headrace.provider import TableProvider
from headrace.stream import Offset
from headrace.testing.report import Findings, Promise, Severity
from headrace.testing.user_lines import user_line
from headrace.testing.watch import watched

_MESSAGE_CHARS = 1500


USER_ERRORS = (Exception, SystemExit)
"""What user code may raise to be reported as a finding; only Ctrl-C ends the check itself."""


class CheckStopped(Exception):
    """A scan failed and was reported; what needs it cannot go on."""


@dataclass(frozen=True)
class Reading:
    """The rows of one scan, in wire types. ``complete``: they are all there is; else reading was cut short."""

    scan: PlannedScan
    partitions: tuple[pa.Table, ...]
    complete: bool

    @cached_property
    def table(self) -> pa.Table:
        batches = [batch for part in self.partitions for batch in part.to_batches()]
        return pa.Table.from_batches(batches, wire_schema(self.scan.schema)).combine_chunks()


class Probe:
    """One provider under test, and what was found about it."""

    def __init__(
        self,
        provider: TableProvider,
        schema: pa.Schema,
        findings: Findings,
        max_rows: int,
        between: tuple[Offset, Offset] | None = None,
    ) -> None:
        """``between``: the range of a stream that all scans read, instead of the table."""
        self._between = between
        self.table = RegisteredTable(type(provider).__name__, provider, schema, wire_schema(schema))
        self.findings = findings
        self.max_rows = max_rows
        self.seconds: list[float] = []

    @property
    def scans(self) -> int:
        """How many scans were planned."""
        return len(self.seconds)

    def negotiate(
        self,
        filters: Sequence[Expr] = (),
        columns: Iterable[pa.Field] | None = None,
        limit: int | None = None,
        settings: ScanSettings | None = None,
    ) -> Negotiation:
        """Offer a scan to the provider, all columns if none are given. Raises CheckStopped for answers of no use.

        Without ``settings`` Headrace does nothing of what the provider leaves undone.
        """
        negotiation = Negotiation(self.table)
        negotiation.settings = settings or negotiation.settings
        if filters:
            with self.reported(Promise.FILTERS, "supports_filters_pushdown"):
                negotiation.offer_filters(filters)
        if columns is not None:
            negotiation.offer_columns(pa.schema(columns))
        if limit is not None:
            negotiation.offer_limit(limit)
        return negotiation

    def plan(self, blame: Promise, negotiation: Negotiation | None = None) -> PlannedScan:
        """Plan what was negotiated, or a plain scan. What goes wrong is a finding about ``blame``, and raises
        CheckStopped."""
        negotiation = negotiation or self.negotiate()
        with self.reported(blame, "scan" if self._between is None else "scan_between"):
            return negotiation.plan() if self._between is None else negotiation.plan_between(*self._between)

    def stream(self, scan: PlannedScan, partition: int, task: ScanTask | None = None) -> PartitionStream:
        """One partition, as it is read for Spark; without the limit, so that all that comes is seen."""
        return PartitionStream(task or self.task(scan), partition, StopFlag())

    def task(self, scan: PlannedScan) -> ScanTask:
        return dataclasses.replace(scan.task(), limit=None)

    def read(self, scan: PlannedScan, blame: Promise, task: ScanTask | None = None) -> Reading:
        """Every partition, but no more than ``max_rows`` rows and then one batch of each further partition."""
        parts: list[pa.Table] = []
        complete, room = True, self.max_rows
        for partition in range(scan.partitioning.n):
            part, ended = self.read_partition(scan, partition, blame, room, task)
            parts.append(part)
            room = max(0, room - part.num_rows)
            complete = complete and ended
        return Reading(scan, tuple(parts), complete)

    def read_partition(
        self, scan: PlannedScan, partition: int, blame: Promise, most: int, task: ScanTask | None = None
    ) -> tuple[pa.Table, bool]:
        """The rows of one partition, ``most`` of them if there are more, and whether these are all.

        Reading stops after the batch that is one too many, as that is the only sign of more. Raises CheckStopped.
        """
        batches: list[pa.RecordBatch] = []
        count = 0
        with self.executing(scan, partition, blame):
            stream = self.stream(scan, partition, task)
            buffers = DamageCheck(stream.schema, read=stream.schema.names)
            with contextlib.closing(stream):
                for batch in stream:
                    if damage := buffers.damage(batch):
                        name = f"{stream.task.plan_name}.execute({partition})"
                        raise SchemaMismatchError(f"{name} yielded a broken batch: {damage}")
                    batches.append(batch)
                    count += batch.num_rows
                    if count > most:
                        break
        read = pa.Table.from_batches(batches, wire_schema(scan.schema))
        return (read, True) if count <= most else (read.slice(0, most), False)

    @contextlib.contextmanager
    def reported(self, blame: Promise, method: str) -> Iterator[None]:
        """Surrounds planning, which is watched: what the provider does wrong is reported, and raises CheckStopped."""
        name = f"{self.table.provider_name}.{method}"
        with watched() as observed:
            try:
                yield
            except ProviderRaised as raised:
                error = raised.__cause__
                assert error is not None
                if isinstance(error, KeyboardInterrupt):
                    raise error from None
                where = raised.failure.where.partition(" (returned")[0]
                self.findings.add(blame, f"{where} raised {error_text(error)}")
                raise CheckStopped from error
            except (PlanError, SchemaMismatchError) as error:
                self.findings.add(blame, clipped(f"{error}"))
                raise CheckStopped from error
        if method in ("scan", "scan_between"):
            self.seconds.append(observed.seconds)
        for act in dict.fromkeys(observed.acts):
            if "started a thread" in act:
                self.findings.add(Promise.PLANNING, f"{name} {act}", Severity.WARNING)
            else:
                self.findings.add(Promise.PLANNING, f"{name} {act}; planning does no I/O and does not wait")
        for executed in dict.fromkeys(observed.executed):
            self.findings.add(
                Promise.PLANNING, f"{name} ran {executed}: rows are produced when Spark reads, not before"
            )

    @contextlib.contextmanager
    def executing(self, scan: PlannedScan, partition: int, blame: Promise) -> Iterator[None]:
        """Surrounds calls of ``execute`` and reading: what they raise is a finding, and raises CheckStopped."""
        try:
            yield
        except CheckStopped:
            raise  # of another scan, within this one
        except SchemaMismatchError as error:
            first, newline, rest = str(error).partition("\n")
            promise = Promise.BATCHES if blame is Promise.EXECUTE else blame
            self.findings.add(promise, clipped(f"{first}{scan_text(scan)}{newline}{rest}"))
            raise CheckStopped from error
        except USER_ERRORS as error:
            name = f"{type(scan.plan).__name__}.execute({partition})"
            self.findings.add(blame, clipped(f"{name} raised {error_text(error)}{scan_text(scan)}"))
            raise CheckStopped from error


def on_other_thread(work: Any) -> None:
    """Run ``work`` on a thread of its own; what it raises is raised here."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # handed over below
            raised.append(error)

    thread = threading.Thread(target=run, name="headrace-check")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def scan_text(scan: PlannedScan, *, filters: bool = True) -> str:
    """In which scan, for the end of a message; empty for a plain one of all columns. ``filters``: name them too."""
    request = scan.request
    parts = []
    if not request.schema.equals(scan.table.schema):
        parts.append(f"of columns [{', '.join(request.projection)}]")
    if request.filters and filters:
        parts.append(f"with {_listed(request.filters)}")
    if request.limit is not None:
        parts.append(f"with limit {request.limit}")
    if request.runtime_filters:
        parts.append(f"with the runtime filters {_listed(request.runtime_filters)}")
    return f", in the scan {' '.join(parts)}" if parts else ""


def _listed(filters: Sequence[Expr]) -> str:
    return " and ".join(f"`{expr!r}`" for expr in filters)


def error_text(error: BaseException) -> str:
    """``ValueError: no (my_table.py:12)``; the place is a line of the user's code."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return f"{type(error).__name__}: {error}{user_line(reversed(frames))}"


def clipped(text: str) -> str:
    return text if len(text) <= _MESSAGE_CHARS else f"{text[:_MESSAGE_CHARS]}..."
