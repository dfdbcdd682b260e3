"""Whether stated partitioning, ordering and statistics hold for the rows of a scan; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.arrow.rows import NAN_KEY, column_keys, counted, row_keys, shown
from headrace.errors import PlanError
from headrace.execute.ordering import can_be_ordered, first_disorder, order_text
from headrace.negotiate.keys import key_array
from headrace.plan import HashPartitioning, KeyPartitioning, SortKey
from headrace.testing.probe import Probe, Reading, scan_text
from headrace.testing.report import Promise, Severity

_FAR_OFF = 10
_SMALL_BYTES = 1 << 20


def check_layout(probe: Probe, reading: Reading) -> None:
    """What the scan's plan states of its partitions, as far as the scan reads the columns concerned."""
    partitioning = reading.scan.partitioning
    names = reading.scan.request.projection
    if isinstance(partitioning, KeyPartitioning):
        _check_distinct_keys(probe, reading, partitioning)
        if set(partitioning.columns) <= set(names):
            _check_keys(probe, reading, partitioning)
    elif isinstance(partitioning, HashPartitioning) and set(partitioning.columns) <= set(names):
        _check_hash(probe, reading, partitioning)
    if reading.scan.ordering:
        for partition, part in enumerate(reading.partitions):
            _check_order(probe, reading, partition, part)


def check_statistics(probe: Probe, reading: Reading) -> None:
    """Estimates more than ten times off make Spark choose badly: a warning."""
    plan = reading.scan.plan
    stated = plan.statistics() or probe.table.provider.statistics()
    if stated is None:
        return
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


def _check_distinct_keys(probe: Probe, reading: Reading, partitioning: KeyPartitioning) -> None:
    seen: dict[Any, int] = {}
    for partition, key in enumerate(partitioning.keys):
        wire_key = _wire_key(probe, partitioning, key)
        first = seen.setdefault(wire_key, partition)
        if first != partition and wire_key is not None:
            probe.findings.add(
                Promise.PARTITIONING,
                f"partitions {first} and {partition} are stated to have the same key {key!r}; each must hold exactly "
                f"the rows of its key{scan_text(reading.scan)}",
            )


def _check_keys(probe: Probe, reading: Reading, partitioning: KeyPartitioning) -> None:
    columns = list(partitioning.columns)
    for partition, part in enumerate(reading.partitions):
        expected = _wire_key(probe, partitioning, partitioning.keys[partition])
        wrong = [row for row, key in enumerate(row_keys(part.select(columns))) if key != expected]
        if wrong:
            probe.findings.add(
                Promise.PARTITIONING,
                f"partition {partition} is stated to hold the rows with "
                f"{_pairs(columns, partitioning.keys[partition])}, but has {counted(len(wrong), 'other row')}: "
                f"{shown(part, wrong)}{scan_text(reading.scan)}",
            )


def _check_hash(probe: Probe, reading: Reading, partitioning: HashPartitioning) -> None:
    columns = list(partitioning.columns)
    seen: dict[Any, int] = {}
    for partition, part in enumerate(reading.partitions):
        keys = part.select(columns)
        for row, key in enumerate(row_keys(keys)):
            first = seen.setdefault(key, partition)
            if first != partition:
                probe.findings.add(
                    Promise.PARTITIONING,
                    f"partitioning by hash of ({', '.join(columns)}) is stated, but equal rows are in partitions "
                    f"{first} and {partition}: {shown(keys, [row])}{scan_text(reading.scan)}",
                )
                return


def _check_order(probe: Probe, reading: Reading, partition: int, part: pa.Table) -> None:
    ordering = []
    for key in reading.scan.ordering:
        type_ = part[key.column].type
        if not can_be_ordered(type_):
            message = f"the order by {key.column!r} was not checked: it has the type {type_}"
            probe.findings.add(Promise.ORDERING, message, Severity.NOTE)
            break
        ordering.append(key)
    row = first_disorder(part, ordering)
    if row is not None:
        columns = part.select([key.column for key in reading.scan.ordering])
        text = ", ".join(map(order_text, reading.scan.ordering))
        probe.findings.add(
            Promise.ORDERING,
            f"partition {partition} is stated to be sorted by {text}, but {shown(columns, [row])} comes "
            f"before {shown(columns, [row + 1])} (rows {row} and {row + 1}){scan_text(reading.scan)}",
        )


def order_ranks(column: pa.ChunkedArray, key: SortKey) -> dict[Any, float]:
    """Numbers in the order of the values, as Spark sorts: NaN is the largest, strings go by their bytes."""
    values = column_keys(column)
    present = {value for value in values if value is not None}
    in_order = sorted(present - {NAN_KEY}) + [NAN_KEY] * (NAN_KEY in present)
    sign = -1 if key.descending else 1
    rank: dict[Any, float] = {value: sign * position for position, value in enumerate(in_order)}
    rank[None] = -float("inf") if key.nulls_first else float("inf")
    return rank


def _wire_key(probe: Probe, partitioning: KeyPartitioning, key: tuple[Any, ...]) -> Any:
    """A stated key in the form of ``row_keys``; None, which equals no row's, after a finding about it."""
    try:
        arrays = [key_array(probe.table, name, [value]) for name, value in zip(partitioning.columns, key, strict=True)]
    except PlanError as error:
        probe.findings.add(Promise.PARTITIONING, str(error))
        return None
    return row_keys(pa.table(arrays, names=list(partitioning.columns)))[0]


def _pairs(columns: Sequence[str], key: tuple[Any, ...]) -> str:
    return ", ".join(f"{column}={value!r}" for column, value in zip(columns, key, strict=True))
