"""A stream that keeps every promise, and for each promise ones that differ in one thing and break it; for the tests."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import headrace as hr

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), ("name", pa.string())])


def rows_between(start: int, end: int) -> pa.Table:
    """Row n has number n; a third of the names is null."""
    numbers = range(start, end)
    return pa.table(
        [
            pa.array(numbers, pa.int64()),
            pa.array([None if n % 3 == 0 else f"row {n}" for n in numbers], pa.string()),
        ],
        schema=SCHEMA,
    )


class NumbersPlan(hr.ExecutionPlan):
    def __init__(self, start: int, end: int, request: hr.ScanRequest) -> None:
        self.schema = pa.schema([SCHEMA.field(name) for name in request.projection])
        self.filters = request.filters
        self.start, self.end = start, end

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        for batch in rows_between(self.start, self.end).combine_chunks().to_batches(max_chunksize=7):
            for expr in self.filters:
                batch = batch.filter(expr.evaluate(batch))
            yield batch.select(self.schema.names)


class Numbers(hr.StreamProvider):
    """``count`` rows. An offset is how many came before it."""

    def __init__(self, count: int = 40) -> None:
        self.count = count

    def schema(self) -> pa.Schema:
        return SCHEMA

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[hr.FilterPushdown]:
        return [hr.FilterPushdown.EXACT for _ in filters]

    def initial_offset(self) -> Any:
        return 0

    def latest_offset(self, start: Any, limit: hr.ReadLimit) -> Any:
        ends = [self.count]
        ends += [] if limit.until is None else [limit.until]
        ends += [] if limit.max_rows is None else [start + limit.max_rows]
        ends += [] if limit.max_bytes is None else [start + max(1, limit.max_bytes // 30)]
        return min(ends)

    def scan_between(self, start: Any, end: Any, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return NumbersPlan(start, end, request)


class NumbersInATable(Numbers):
    """Has a batch scan too."""

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return NumbersPlan(0, self.count, request)


class NamedOffsets(Numbers):
    """Offsets are objects, and their order is the provider's own business."""

    def initial_offset(self) -> Any:
        return {"page": 0, "row": 0}

    def latest_offset(self, start: Any, limit: hr.ReadLimit) -> Any:
        until = None if limit.until is None else _count(limit.until)
        end = super().latest_offset(_count(start), hr.ReadLimit(limit.max_rows, limit.max_bytes, until))
        return {"page": end // 10, "row": end % 10}

    def scan_between(self, start: Any, end: Any, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return super().scan_between(_count(start), _count(end), request)


class Capped(Numbers):
    """Goes at most 15 rows further, whatever it is asked for."""

    def latest_offset(self, start: Any, limit: hr.ReadLimit) -> Any:
        return min(start + 15, super().latest_offset(start, limit))


def _count(offset: Any) -> int:
    return int(offset["page"] * 10 + offset["row"])


class Forgetful(Numbers):
    """Drops what was committed, and says so."""

    def __init__(self) -> None:
        super().__init__()
        self.first = 0

    def commit(self, end: Any) -> None:
        self.first = max(self.first, end)

    def scan_between(self, start: Any, end: Any, request: hr.ScanRequest) -> hr.ExecutionPlan:
        if start < self.first:
            raise hr.OffsetLostError(f"rows before {self.first} are gone")
        return super().scan_between(start, end, request)


# Offsets


class NullOffset(Numbers):
    def initial_offset(self) -> Any:
        return None


class OffsetIsNoJson(Numbers):
    def initial_offset(self) -> Any:
        return datetime.datetime(2026, 1, 1)


class InitialOffsetMoves(Numbers):
    asked = 0

    def initial_offset(self) -> Any:
        self.asked += 1
        return self.asked


class InitialOffsetRaises(Numbers):
    def initial_offset(self) -> Any:
        raise ConnectionError("no broker")


class OffsetNeedsItsType(Numbers):
    """A tuple comes back from a checkpoint as a list."""

    def initial_offset(self) -> Any:
        return (0,)

    def latest_offset(self, start: Any, limit: hr.ReadLimit) -> Any:
        return start.__add__((super().latest_offset(start[-1], hr.ReadLimit()),))


class OffsetsGoBack(Numbers):
    def latest_offset(self, start: Any, limit: hr.ReadLimit) -> Any:
        return start - 1 if start > 20 else super().latest_offset(start, limit)


class OffsetsGoInACircle(NamedOffsets):
    def latest_offset(self, start: Any, limit: hr.ReadLimit) -> Any:
        end = super().latest_offset(start, limit)
        return {"page": 0, "row": 1} if end["page"] == 1 and limit.max_rows else end


class CappedInACircle(NamedOffsets):
    """After its second step it begins again."""

    def latest_offset(self, start: Any, limit: hr.ReadLimit) -> Any:
        return {"page": 0, "row": 0} if start["page"] > 1 else {"page": start["page"] + 1, "row": 0}


# Read limits


class StandsStill(Numbers):
    """A row that is larger than the limit never passes."""

    def latest_offset(self, start: Any, limit: hr.ReadLimit) -> Any:
        return start if limit.max_bytes is not None else super().latest_offset(start, limit)


class NeverBegins(NumbersInATable):
    def latest_offset(self, start: Any, limit: hr.ReadLimit) -> Any:
        return start


class IgnoresMaxRows(Numbers):
    def latest_offset(self, start: Any, limit: hr.ReadLimit) -> Any:
        return super().latest_offset(start, hr.ReadLimit(until=limit.until))


class PassesUntil(Numbers):
    def latest_offset(self, start: Any, limit: hr.ReadLimit) -> Any:
        return super().latest_offset(start, hr.ReadLimit(limit.max_rows, limit.max_bytes))


# Ranges


class EndsAreShared(Numbers):
    def scan_between(self, start: Any, end: Any, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return NumbersPlan(start, end + 1, request)


class LosesRowsBeyondItsCap(Capped):
    """Only a check of all that there is sees it."""

    def scan_between(self, start: Any, end: Any, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return NumbersPlan(start, end if start == 0 else min(end, 30), request)


class LosesTheFirstRow(Numbers):
    def scan_between(self, start: Any, end: Any, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return NumbersPlan(start + (1 if start else 0), end, request)


class RangesChange(NumbersInATable):
    planned = 0

    def scan_between(self, start: Any, end: Any, request: hr.ScanRequest) -> hr.ExecutionPlan:
        self.planned += 1
        return NumbersPlan(start, end - self.planned % 2, request)


class RangesGrow(Numbers):
    """Reads up to where the stream is now, not up to the end of the range."""

    def scan_between(self, start: Any, end: Any, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return NumbersPlan(start, self.count, request)


class RangeReadsAFile(Numbers):
    def scan_between(self, start: Any, end: Any, request: hr.ScanRequest) -> hr.ExecutionPlan:
        Path(__file__).read_text()
        return super().scan_between(start, end, request)


class RangeRaises(Numbers):
    def scan_between(self, start: Any, end: Any, request: hr.ScanRequest) -> hr.ExecutionPlan:
        if start:
            raise LookupError("no such offset")
        return super().scan_between(start, end, request)


class RangeForgetsFilters(NumbersInATable):
    def scan_between(self, start: Any, end: Any, request: hr.ScanRequest) -> hr.ExecutionPlan:
        plan = NumbersPlan(start, end, request)
        plan.filters = ()
        return plan


class RangePlansCannotTravel(NumbersInATable):
    def scan_between(self, start: Any, end: Any, request: hr.ScanRequest) -> hr.ExecutionPlan:
        plan = NumbersPlan(start, end, request)
        plan.lock = threading.Lock()  # type: ignore[attr-defined]
        return plan


# Commit


class CommitsOnce(Numbers):
    def __init__(self) -> None:
        super().__init__()
        self.committed: set[Any] = set()

    def commit(self, end: Any) -> None:
        if end in self.committed:
            raise ValueError(f"{end} was committed before")
        self.committed.add(end)


class CommitDropsTooMuch(Forgetful):
    def commit(self, end: Any) -> None:
        super().commit(end + 3)

    def scan_between(self, start: Any, end: Any, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return NumbersPlan(max(start, self.first), end, request)


class CommitDropsInSilence(Forgetful):
    def scan_between(self, start: Any, end: Any, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return NumbersPlan(max(start, self.first), max(end, self.first), request)


class GrowsMeanwhile(Numbers):
    """Honest: a row a moment."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = time.monotonic()

    def latest_offset(self, start: Any, limit: hr.ReadLimit) -> Any:
        self.count = 40 + int((time.monotonic() - self.begun) * 1000)
        return super().latest_offset(start, limit)
