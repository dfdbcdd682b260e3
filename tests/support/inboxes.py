"""What tests put into an inbox for results, who sends it, and what comes out."""

from __future__ import annotations

import pyarrow as pa

from headrace.results.inbox import ResultInbox
from headrace.results.receiver import PartitionReceiver
from headrace.transport.claims import Claim

SCHEMA = pa.schema([("a", pa.int64())])
NONCE = 77


def batch(value: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([value], pa.int64())], schema=SCHEMA)


def values(inbox: ResultInbox) -> list[int]:
    """Everything up to the end."""
    found = []
    while (taken := inbox.take(timeout_s=60)) is not None:
        found += taken["a"].to_pylist()
    return found


def sender(inbox: ResultInbox, partition: int, attempt: int = 0) -> PartitionReceiver:
    return inbox.open(Claim(partition, attempt, 1, NONCE))
