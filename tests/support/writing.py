"""Writes without Spark: tables written to as Spark's tasks and driver do it, and read back; for the tests."""

from __future__ import annotations

import contextlib
import itertools
import pickle
from collections.abc import Sequence
from typing import Any

import cloudpickle
import pyarrow as pa

import headrace as hr
from headrace.arrow.types import wire_schema
from headrace.execute.partition_stream import PartitionStream
from headrace.execute.stopping import StopFlag
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.registry import RegisteredTable
from headrace.provider import declared_schema

_attempts = itertools.count(100)


def request_for(table: hr.WritableProvider, **fields: Any) -> hr.WriteRequest:
    return hr.WriteRequest(declared_schema(table), **fields)


def written(plan: hr.WritePlan, rows: pa.Table, partition: int = 0, *, epoch: int | None = None) -> hr.Message:
    """What one attempt of a task says of its rows; a plan for the executors is pickled, there and back."""
    if plan.placement is hr.Placement.EXECUTORS:
        plan = pickle.loads(cloudpickle.dumps(plan))
    task = hr.WriteTask(partition, next(_attempts), epoch)
    return plan.write(task, iter(rows.to_batches(max_chunksize=1000)))


def committed(table: hr.WritableProvider, *tasks: pa.Table, **fields: Any) -> Sequence[hr.Message]:
    """One write of the rows of these tasks, from insert to commit."""
    plan = table.insert(request_for(table, **fields))
    messages = [written(plan, rows, i, epoch=fields.get("epoch")) for i, rows in enumerate(tasks)]
    plan.commit(messages)
    return messages


def read_rows(table: hr.TableProvider) -> pa.Table:
    """All rows, as Spark would get them."""
    schema = declared_schema(table)
    scan = Negotiation(RegisteredTable("t", table, schema, wire_schema(schema))).plan()
    batches: list[pa.RecordBatch] = []
    for partition in range(scan.partitioning.n):
        with contextlib.closing(PartitionStream(scan.task(), partition, StopFlag())) as stream:
            batches += stream
    return pa.Table.from_batches(batches, wire_schema(schema))
