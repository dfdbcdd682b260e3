"""How many partitions a scan gets and which files go into which; pure, runs in the driver at planning."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from headrace.plan import SortKey

PARTITION_BYTES = 64 << 20
"""How many bytes of files a task is given: seconds of work, and small enough to spread and to retry."""

_OPEN_COST_BYTES = 1 << 20  # opening a file costs about as much as reading this from one
_LEAST_BYTES = 4 << 20  # a task for less than this costs more than it saves
_ALWAYS_ALLOWED_KEYS = 200  # as many partitions as a shuffle would have (spark.sql.shuffle.partitions)
_LARGEST_KEY = 4  # a task with more than so many partitions' bytes makes the others wait


def packed(sizes: Sequence[int], partition_bytes: int = PARTITION_BYTES) -> list[list[int]]:
    """Indexes of ``sizes`` (bytes) in groups of about equal weight, each group in ascending order.

    As many groups as ``partition_bytes`` asks for; at least one per core of this machine while each is then worth
    a task. Largest first into the lightest group: none weighs much more than the average or the largest file.
    """
    weights = [size + _OPEN_COST_BYTES for size in sizes]
    total = sum(weights)
    wanted = max(_ceil(total, partition_bytes), min(os.cpu_count() or 1, _ceil(total, _LEAST_BYTES)))
    groups: list[list[int]] = [[] for _ in range(min(len(sizes), wanted))]
    heap = [(0, number) for number in range(len(groups))]
    for index in sorted(range(len(sizes)), key=lambda i: -weights[i]):
        weight, number = heap[0]
        groups[number].append(index)
        heapq.heapreplace(heap, (weight + weights[index], number))
    return [sorted(group) for group in groups]


def split_bytes(total: int, partition_bytes: int = PARTITION_BYTES) -> int:
    """How large a part of a large file should be: at most a partition, less if all cores can then share the work."""
    return max(1, min(partition_bytes, max(_LEAST_BYTES, _ceil(total, os.cpu_count() or 1))))


def can_be_key(type_: pa.DataType) -> bool:
    """Whether Python and Spark agree which values of this type are equal. They do not agree on NaN."""
    return not pa.types.is_floating(type_)


def checked_order(sorted_by: Iterable[SortKey], schema: pa.Schema) -> tuple[SortKey, ...]:
    """The keys by which files are said to be sorted. Raises TypeError for others, ValueError for no columns."""
    if isinstance(sorted_by, str) or not isinstance(sorted_by, Iterable):
        raise TypeError("sorted_by takes a list of sort keys: [SortKey('ts')]")
    keys = tuple(sorted_by)
    for key in keys:
        if not isinstance(key, SortKey):
            raise TypeError(f"sorted_by takes SortKeys, not {key!r}: write SortKey({str(key)!r})")
        if key.column not in schema.names:
            raise ValueError(f"the files are said to be sorted by {key.column!r}, which is no column of them")
    return keys


def grouped(
    keys: Sequence[tuple[Any, ...]], sizes: Sequence[int], partition_bytes: int = PARTITION_BYTES, *, force: bool
) -> dict[tuple[Any, ...], list[int]] | None:
    """Indexes by key, one partition for each key; None where ``packed`` makes better tasks.

    ``packed`` is better where there is only one key, where there are many more keys than there would be partitions
    (each task would be tiny), and where one key has far more bytes than a partition should have (one task would run
    alone at the end). ``force`` groups whatever the sizes.
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, key in enumerate(keys):
        groups.setdefault(key, []).append(index)
    if force:
        return groups
    weights = [sum(sizes[index] for index in group) for group in groups.values()]
    allowed = max(_ALWAYS_ALLOWED_KEYS, 2 * _ceil(sum(weights), partition_bytes))
    sensible = 1 < len(groups) <= allowed and max(weights) <= _LARGEST_KEY * partition_bytes
    return groups if sensible else None


def _ceil(amount: int, per: int) -> int:
    return max(1, -(-amount // per))
