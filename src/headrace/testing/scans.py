"""Checks of scans as a whole: execute again, scan again, stop early, pickle; runs in the test's process."""

from __future__ import annotations

import contextlib
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pyarrow as pa

from headrace.arrow.data import is_rows, is_tuples
from headrace.arrow.rows import counted
from headrace.arrow.sources import batch_iterator, close_sources
from headrace.arrow.types import wire_schema
from headrace.errors import PlanError
from headrace.negotiate.pickling import pickled_task
from headrace.negotiate.planned import PlannedScan
from headrace.plan import Placement
from headrace.testing.probe import USER_ERRORS, CheckStopped, Probe, Reading, error_text
from headrace.testing.report import Promise, Severity
from headrace.testing.rows import difference
from headrace.testing.truth import Truth, note_cut_short

_THREADS = 4
_STOPPED_PARTITIONS = 3


def check_execute_again(probe: Probe, first: Reading) -> None:
    """Every partition once more. Placement DRIVER: on other threads, several at once, as Headrace does it."""
    scan = first.scan
    if not first.table.num_rows:
        message = "the table has no rows, so nothing could be seen of what depends on them"
        probe.findings.add(Promise.EXECUTE, message, Severity.NOTE)
    if not first.complete:
        note_cut_short(probe, Promise.EXECUTE, "no scan was read further, and this report is about what was read")
    numbers = range(scan.partitioning.n)
    most = [probe.max_rows if first.complete else part.num_rows for part in first.partitions]

    def again(partition: int) -> pa.Table:
        return probe.read_partition(scan, partition, Promise.EXECUTE, most[partition])[0]

    if scan.plan.placement is Placement.DRIVER:
        with ThreadPoolExecutor(_THREADS, "headrace-check") as threads:
            parts = list(threads.map(again, numbers))
    else:
        parts = [again(partition) for partition in numbers]
    for partition, part in enumerate(parts):
        differs = difference(first.partitions[partition], part)
        if differs and first.complete:
            message = f"partition {partition} gave other rows when it was executed again: {differs}"
            probe.findings.add(Promise.EXECUTE, message)
        elif differs:
            note_cut_short(probe, Promise.EXECUTE, f"whether partition {partition} repeats could not be told")
    _note_lists(probe, scan)
    if probe.findings.is_broken(Promise.EXECUTE):
        raise CheckStopped


def _note_lists(probe: Probe, scan: PlannedScan) -> None:
    if not scan.partitioning.n:
        return
    with probe.executing(scan, 0, Promise.EXECUTE):
        source = scan.plan.execute(0)
        close_sources(batch_iterator(source, f"{type(scan.plan).__name__}.execute"), source)
    if isinstance(source, (list, tuple)) and len(source) > 1:
        what = "rows" if is_rows(source) or is_tuples(source) else "batches"
        message = (
            f"{type(scan.plan).__name__}.execute returns a {type(source).__name__} of {len(source)} {what}, all "
            "made before Spark gets the first one; a generator would make them one by one"
        )
        probe.findings.add(Promise.EXECUTE, message, Severity.NOTE)


def check_fresh_scans(probe: Probe, truth: Truth) -> None:
    """Two scans at once, as in a self-join: one is read while the other has begun."""
    begun, other = probe.plan(Promise.FRESH_SCANS), probe.plan(Promise.FRESH_SCANS)
    if not truth.complete or not begun.partitioning.n:
        truth.compare(probe, probe.read(other, Promise.FRESH_SCANS), Promise.FRESH_SCANS, "a second scan differs")
    else:
        with (
            probe.executing(begun, 0, Promise.FRESH_SCANS),
            contextlib.closing(probe.stream(begun, 0)) as stream,
        ):
            batches = iter(stream)
            taken = list(islice(batches, 1))
            between = probe.read(other, Promise.FRESH_SCANS)
            while (batch := next(batches, None)) is not None and sum(map(len, taken)) <= probe.max_rows:
                taken.append(batch)
        begun_rows = [pa.Table.from_batches(taken, wire_schema(begun.schema))]
        begun_rows += [
            probe.read_partition(begun, partition, Promise.FRESH_SCANS, probe.max_rows)[0]
            for partition in range(1, begun.partitioning.n)
        ]
        truth.compare(probe, between, Promise.FRESH_SCANS, "a second scan has other rows than the first")
        finished = Reading(begun, tuple(begun_rows), True)
        message = "a scan has other rows when another scan is read at the same time"
        truth.compare(probe, finished, Promise.FRESH_SCANS, message)
    if probe.findings.is_broken(Promise.FRESH_SCANS):
        raise CheckStopped


def check_pickling(probe: Probe, scan: PlannedScan, expected: Reading | None) -> None:
    """The plan for the executors, there and back, and that it has the ``expected`` rows then."""
    if scan.plan.placement is Placement.DRIVER:
        return  # it is never pickled
    probe.findings.offer(Promise.PICKLING)
    try:
        data = pickled_task(probe.task(scan), by_value=False)
    except PlanError as error:
        probe.findings.add(Promise.PICKLING, str(error))
        return
    if expected is None:
        return
    try:
        task = pickle.loads(data)
    except USER_ERRORS as error:  # unpickling runs user code
        name = type(scan.plan).__name__
        probe.findings.add(Promise.PICKLING, f"{name} was pickled, but unpickling raised {error_text(error)}")
        return
    with contextlib.suppress(CheckStopped):
        reading = probe.read(scan, Promise.PICKLING, task)
        message = "the plan has other rows after it was pickled and unpickled"
        Truth(expected).compare(probe, reading, Promise.PICKLING, message)


def check_early_stop(probe: Probe, truth: Truth) -> None:
    """Close after one batch, and before the first; then everything can still be read."""
    scan = probe.plan(Promise.EARLY_STOP)
    name = f"{type(scan.plan).__name__}.execute"
    for partition in range(min(scan.partitioning.n, _STOPPED_PARTITIONS)):
        for batches in (1, 0):
            stream = probe.stream(scan, partition)
            try:
                reading = iter(stream)
                for _ in range(batches):
                    next(reading, None)
                stream.close()
            except USER_ERRORS as error:
                after = counted(batches, "batch", "batches")
                message = f"closing what {name}({partition}) returned after {after} raised {error_text(error)}"
                probe.findings.add(Promise.EARLY_STOP, message)
                return
    with contextlib.suppress(CheckStopped):
        reading_again = probe.read(scan, Promise.EARLY_STOP)
        message = "after reading was stopped early, a partition has other rows"
        truth.compare(probe, reading_again, Promise.EARLY_STOP, message)
