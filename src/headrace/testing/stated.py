"""Checks what a provider answered and stated about a scan on the scan's own rows, as ``verify`` does; pure."""

from __future__ import annotations

from dataclasses import replace

from headrace.arrow.rows import counted, row_keys
from headrace.errors import PlanError
from headrace.negotiate.verifying import promises_of
from headrace.plan import HashPartitioning, KeyPartitioning
from headrace.promises.checks import PartitionCheck, Promises
from headrace.promises.ordering import can_be_ordered
from headrace.provider import Pushdown
from headrace.testing.probe import Probe, Reading, scan_text
from headrace.testing.report import Promise, Severity

_FAR_OFF = 10
_SMALL_BYTES = 1 << 20


def check_stated(probe: Probe, reading: Reading) -> set[Promise]:
    """EXACT filters and top-n, partitioning and ordering, as far as the scan reads their columns.

    Returns the promises that these rows break.
    """
    scan = reading.scan
    exact_top_n = scan.top_n is not None and scan.top_n.answer is Pushdown.EXACT
    exact = [one.requested for one in scan.filters if one.requested is not None and one.answer is Pushdown.EXACT]
    if isinstance(scan.partitioning, (KeyPartitioning, HashPartitioning)):
        probe.findings.offer(Promise.PARTITIONING)
    if scan.ordering:
        probe.findings.offer(Promise.ORDERING)
        _note_unordered(probe, reading)
    try:
        table = replace(scan.table, verify="all")
        shown = replace(scan.request, schema=scan.schema)  # without a column by which rows were only counted
        promises = promises_of(table, shown, exact, scan.partitioning, scan.ordering, exact_top_n=exact_top_n)
    except PlanError as error:
        probe.findings.add(Promise.PARTITIONING, str(error))
        return {Promise.PARTITIONING}
    if promises is None:
        return set()
    broken = _same_key_twice(probe, promises, reading)
    for partition, part in enumerate(reading.partitions):
        check = PartitionCheck(promises, partition)
        rows = part.slice(0, scan.request.limit) if exact_top_n else part
        for batch in rows.combine_chunks().to_batches():
            for violation in check.violations(batch):
                promise = Promise(violation.promise)
                if promise not in broken:  # one example tells enough of a scan
                    alone = promise is Promise.FILTERS and len(scan.request.filters) == 1
                    probe.findings.add(promise, f"{violation.text}{scan_text(scan, filters=not alone)}")
                    broken.add(promise)
    return broken


def _note_unordered(probe: Probe, reading: Reading) -> None:
    for key in reading.scan.ordering:
        type_ = reading.table[key.column].type
        if not can_be_ordered(type_):
            message = f"the order by {key.column!r} was not checked: it has the type {type_}"
            probe.findings.add(Promise.ORDERING, message, Severity.NOTE)


def _same_key_twice(probe: Probe, promises: Promises, reading: Reading) -> set[Promise]:
    seen: dict[object, int] = {}
    for partition, key in enumerate([] if promises.keys is None else row_keys(promises.keys)):
        first = seen.setdefault(key, partition)
        if first != partition:
            text = f"states that partitions {first} and {partition} have the same key {key!r}: a key has one partition"
            probe.findings.add(Promise.PARTITIONING, f"{text}{scan_text(reading.scan)}")
            return {Promise.PARTITIONING}
    return set()


def check_statistics(probe: Probe, reading: Reading) -> None:
    """Estimates more than ten times off make Spark choose badly: a warning."""
    plan = reading.scan.plan
    stated = plan.statistics() or probe.table.provider.statistics()
    if stated is None:
        return
    probe.findings.offer(Promise.STATISTICS)
    if not reading.complete:
        message = f"not checked: the table has more than max_rows={probe.max_rows:,} rows"
        probe.findings.add(Promise.STATISTICS, message, Severity.NOTE)
        return
    rows, size = reading.table.num_rows, reading.table.nbytes
    if stated.num_rows is not None and _far_off(stated.num_rows, rows):
        message = f"num_rows={stated.num_rows:,} is stated, but a scan returned {counted(rows, 'row')}"
        probe.findings.add(Promise.STATISTICS, message, Severity.WARNING)
    large = max(stated.size_in_bytes or 0, size) > _SMALL_BYTES
    if stated.size_in_bytes is not None and large and _far_off(stated.size_in_bytes, size):
        message = f"size_in_bytes={stated.size_in_bytes:,} is stated, but the rows take {size:,} bytes as Arrow"
        probe.findings.add(Promise.STATISTICS, message, Severity.WARNING)


def _far_off(stated: int, found: int) -> bool:
    return max(stated, found, 1) > _FAR_OFF * max(1, min(stated, found))
