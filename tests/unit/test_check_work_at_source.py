"""The kit's check of Headrace's own stage: silent over rows that are right, and loud over every planted fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headrace as hr
from checking import check_provider, errors
from headrace.execute.stage.filtering import RowFilter
from headrace.execute.stage.first_rows import FirstRows
from headrace.execute.stage.grouping import Groups
from headrace.execute.stage.rows import StageRows
from headrace.execute.stage.work import StageWork
from headrace.negotiate.negotiation import Negotiation
from headrace.testing import Promise
from random_predicates import random_table
from recording import inexact, table_of

DATA = random_table(Random(5), 40).select(["id", "i", "d", "s", "t"])


def test_check_plain_provider_the_stage_is_tried_and_keeps_its_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[StageWork] = []
    planned = Negotiation._plan

    def recorded(self: Negotiation, *args: Any, **named: Any) -> Any:
        scan = planned(self, *args, **named)
        done.extend([scan.work] if scan.work is not None else [])
        return scan

    monkeypatch.setattr(Negotiation, "_plan", recorded)
    report = check_provider(table_of(DATA, 3, answer=inexact))
    assert report.outcome(Promise.WORK_AT_SOURCE) == "kept", str(report)
    assert [one for one in done if one.filters]
    assert [one for one in done if one.aggregation is not None]
    assert [one for one in done if one.order]


def losing_the_last_row(self: RowFilter, batch: pa.RecordBatch) -> StageRows:
    found = PASSING(self, batch)
    return found.at(pa.array(range(found.count - 1), pa.int64())) if found.count > 1 else found


def keeping_every_row(self: RowFilter, batch: pa.RecordBatch) -> StageRows:
    return StageRows(batch)


def twice_each_group(self: Groups) -> Iterator[pa.RecordBatch]:
    for batch in FINISH_GROUPS(self):
        yield batch
        yield batch


def without_nulls(self: FirstRows, rows: StageRows) -> Iterator[pa.RecordBatch]:
    keys = rows.wire_column(self._order[0].column)
    return ADD_FIRST(self, rows.where(pc.is_valid(keys)))


PASSING, FINISH_GROUPS, ADD_FIRST = RowFilter.passing, Groups.finish, FirstRows.add


@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [
        (RowFilter, "passing", losing_the_last_row),
        (RowFilter, "passing", keeping_every_row),
        (Groups, "finish", twice_each_group),
        (FirstRows, "add", without_nulls),
    ],
    ids=["a row is lost", "nothing is filtered", "groups come twice", "nulls are lost"],
)
def test_check_fault_in_the_stage_is_found(
    owner: type, name: str, fault: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, fault)
    report = check_provider(table_of(DATA, 2))
    assert report.outcome(Promise.WORK_AT_SOURCE) == "broken", str(report)
    assert {finding.promise for finding in errors(report)} == {Promise.WORK_AT_SOURCE}


class Reusing(hr.TableProvider):
    """Its batches all have the same memory, which holds the last one's rows."""

    def schema(self) -> pa.Schema:
        return pa.schema([("a", pa.int64())])

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return ReusingPlan()


class ReusingPlan(hr.ExecutionPlan):
    schema = pa.schema([("a", pa.int64())])

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        values = np.zeros(5, np.int64)
        array = pa.Array.from_buffers(pa.int64(), 5, [None, pa.py_buffer(values)])
        for start in range(0, 20, 5):
            values[:] = range(start, start + 5)
            yield pa.record_batch([array], schema=self.schema)


def test_check_provider_that_changes_batches_it_gave_away_is_found() -> None:
    report = check_provider(Reusing())
    assert report.outcome(Promise.WORK_AT_SOURCE) == "broken", str(report)
