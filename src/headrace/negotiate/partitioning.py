"""Whether a plan's partitioning is a valid one, and whether Spark may be told of it; driver Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.arrow.rows import counted
from headrace.arrow.types import wire_type
from headrace.errors import PlanError
from headrace.negotiate.registry import RegisteredTable
from headrace.plan import HashPartitioning, KeyPartitioning, Partitioning, UnknownPartitioning

BUCKETING = "spark.sql.sources.v2.bucketing"
"""What the names of Spark's settings about partitioned tables begin with."""


@dataclass(frozen=True)
class ScanSettings:
    """Settings of the session that decide what Spark may be told of a plan. The defaults are Spark's.

    ``filters_back_bytes``: Spark can put EXACT filters back above the scan, and broadcasts tables up to this size; 0
    where it does not. ``broadcast_bytes`` is that size, whether it puts them back or not. ``work_at_source``: Headrace
    may do in Arrow what the provider does not, ``ansi``: with the meaning that Spark has under ANSI. The others are
    about the partitioning.
    """

    bucketing: bool = True
    subset_of_keys: bool = False
    compatible_transforms: bool = False
    shuffle_one_side: bool = False
    filters_back_bytes: int = 0
    broadcast_bytes: int = 0
    work_at_source: bool = False
    ansi: bool = True


def check_partitioning(partitioning: Any, table: RegisteredTable, name: str) -> None:
    """Raises PlanError, naming the plan, for a partitioning that is none or that cannot be the table's."""
    if not isinstance(partitioning, (UnknownPartitioning, KeyPartitioning, HashPartitioning)):
        count = isinstance(partitioning, int) and not isinstance(partitioning, bool)
        partitions = counted(partitioning, "partition") if count else ""
        hint = f"; for {partitions} write hr.UnknownPartitioning({partitioning})" if count else ""
        raise PlanError(f"{name} has partitioning {partitioning!r}, expected a Partitioning{hint}")
    n = partitioning.n
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise PlanError(f"{name} promises {n!r} partitions, expected a number that is not negative")
    if isinstance(partitioning, UnknownPartitioning):
        return
    if not partitioning.columns:
        raise PlanError(f"{name} has a partitioning without columns: {partitioning!r}")
    for column in partitioning.columns:
        if column not in table.schema.names:
            raise PlanError(
                f"{name} is partitioned by {column!r}, which is not a column of the table "
                f"({', '.join(table.schema.names)})"
            )
    if isinstance(partitioning, KeyPartitioning):
        for key in partitioning.keys:
            if len(key) != len(partitioning.columns):
                raise PlanError(
                    f"{name} has the partition key {key!r} for the columns {partitioning.columns!r}: "
                    "each key needs one value per column"
                )


def why_unused(
    partitioning: Partitioning, read: pa.Schema, settings: ScanSettings, *, grouped: bool = False
) -> str | None:
    """Why Spark is not told of the partitioning; None when it is.

    ``read``: the table's columns that Spark gets; ``grouped``: only those that are groups.

    The settings are off by default. With each of them Spark does something that this partitioning cannot bear:
    evaluates the hash function, or compares single columns of its keys, or looks up binary keys by identity.
    """
    if isinstance(partitioning, UnknownPartitioning):
        return "the plan states none"
    if not settings.bucketing:
        return f"{BUCKETING}.enabled is off (the default of Spark 4.0)"
    hashed = isinstance(partitioning, HashPartitioning)
    several = len(partitioning.columns) > 1
    if hashed and several and settings.subset_of_keys:
        return f"a hash of several columns says nothing of one, and {BUCKETING}.allowKeysSubset... is on"
    for setting, is_on in (
        ("shuffle", settings.shuffle_one_side),
        ("allowCompatibleTransforms", settings.compatible_transforms),
    ):
        if hashed and is_on:
            return f"Spark cannot compute the provider's hash function, and {BUCKETING}.{setting}.enabled is on"
    missing = [column for column in partitioning.columns if column not in read.names]
    if missing:
        if grouped:
            return f"the partitioning column {missing[0]!r} is none of the groups"
        return f"the query does not read the partitioning column {missing[0]!r}"
    if settings.shuffle_one_side and any(
        pa.types.is_binary(wire_type(read.field(column).type, column)) for column in partitioning.columns
    ):
        return f"Spark cannot shuffle by binary keys, and {BUCKETING}.shuffle.enabled is on"
    if partitioning.n == 0:
        return "there are no partitions"
    if hashed and not hash_keys(partitioning.n, len(partitioning.columns)):
        return f"{partitioning.n} partitions are too few to report a hash of {len(partitioning.columns)} columns"
    return None


def hash_keys(partitions: int, columns: int) -> list[list[int]]:
    """A key with a number per column for each hash partition; empty where no safe ones exist.

    Spark reads a partitioning by several columns as one value per column, and where a query drops a column it
    compares the remaining values alone. So keys that differ in one place only are needed for each place: with the
    others alone they look the same, and Spark then shuffles instead of believing rows with equal remaining
    columns to be together (which gave 17 groups for 5).
    """
    if columns == 1 or partitions == 1:
        return [[partition] * columns for partition in range(partitions)]
    if partitions <= columns:
        return []
    keys = [[0] * columns for _ in range(partitions)]
    for partition in range(1, partitions):
        place, value = (partition - 1, 1) if partition <= columns else (0, partition)
        keys[partition][place] = value
    return keys


def check_narrowed(old: Partitioning, new: Partitioning, name: str) -> None:
    """A plan made again for runtime filters may only lose partitions. Raises PlanError."""
    if isinstance(old, KeyPartitioning):
        kept = isinstance(new, KeyPartitioning) and new.columns == old.columns and set(new.keys) <= set(old.keys)
    elif isinstance(old, HashPartitioning):
        kept = new == old
    else:
        kept = new.n <= old.n
    if not kept:
        raise PlanError(
            f"{name} was planned again for runtime filters and has the partitioning {new!r:.300}, which is not a part "
            f"of the first one, {old!r:.300}"
        )
