"""DatasetAggregatePlan: counts, least and greatest values from Parquet footers, from rows where these do not tell.

Runs on executors: planning opens no file, so whether a footer tells is found out there, file by file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.plan import Aggregation, ExecutionPlan, Statistics, UnknownPartitioning
from headrace.tables.dataset.calendars import old_days
from headrace.tables.dataset.chunks import column_position, has_exact_bounds, is_text, least_and_greatest
from headrace.tables.dataset.footers import is_parquet
from headrace.tables.dataset.partial_aggregates import PartialAggregate, operand_columns, ranged_columns
from headrace.tables.dataset.plan import DatasetPlan, MemoryPiece, Piece, named

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_READ_AT_ONCE = 16  # footers, where each waits for a network
_NEVER_CUT = "parquet-cpp-arrow"
"""This writer leaves out a long string's bounds. Others cut them, and pyarrow does not show that they did."""


class DatasetAggregatePlan(ExecutionPlan):
    """One row of partial results for each partition. ``rows`` reads the same pieces, with the columns it needs; no
    filter is left to apply to them, so that footers may count them."""

    def __init__(self, aggregation: Aggregation, rows: DatasetPlan) -> None:
        self.schema = aggregation.schema
        self.placement = rows.placement
        # Without a row Spark's count would be null, so there is a partition even where no file is left.
        self.partitioning = UnknownPartitioning(max(1, rows.partitioning.n))
        self._aggregation = aggregation
        self._rows = rows
        self._complete = False

    def complete(self) -> DatasetAggregatePlan:
        """The same over all pieces, in one partition: its row is the result."""
        made = DatasetAggregatePlan(self._aggregation, self._rows)
        made._complete = True
        made.partitioning = UnknownPartitioning(1)
        return made

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        total = PartialAggregate(self._aggregation)
        partitions = range(self._rows.partitioning.n) if self._complete else [partition]
        pieces = [piece for one in partitions for piece in self._rows.pieces(one)]
        footers: list[Piece] = []
        untold: list[Piece | MemoryPiece] = []
        for piece in pieces:
            if isinstance(piece, Piece) and is_parquet(piece.format):
                footers.append(piece)
            else:
                untold.append(piece)
        told = _Told(self._aggregation, self._rows.dataset_schema)
        ranged = ranged_columns(self._aggregation)
        for piece, fragment in zip(footers, _with_footers(footers), strict=True):
            old = old_days(fragment, piece.path, piece.filesystem, ranged)
            if old or not told.add(fragment, piece.keys):
                untold.append(piece)
        total.add_known(told.rows, told.nulls, told.extremes)
        for piece in untold:
            for batch in self._rows.piece_batches(piece):
                total.add_batch(batch)
        yield total.row()

    def describe(self) -> str:
        return f"footers of {self._rows.describe()}"

    def statistics(self) -> Statistics:
        return Statistics(self.partitioning.n)


def _with_footers(pieces: Sequence[Piece]) -> Iterator[ds.ParquetFileFragment]:
    """The pieces as fragments whose footers have been read, in order: many at a time unless all files are local.

    Raises OSError and ArrowException, with the file in their text.
    """
    import pyarrow.fs

    def with_footer(piece: Piece) -> ds.ParquetFileFragment:
        try:
            fragment = piece.fragment(with_keys=False)
            fragment.ensure_complete_metadata()
            return fragment
        except (OSError, pa.ArrowException) as error:
            raise named(error, piece.path) from error

    if all(isinstance(piece.filesystem, pyarrow.fs.LocalFileSystem) for piece in pieces):
        yield from map(with_footer, pieces)
        return
    pool = ThreadPoolExecutor(_READ_AT_ONCE, "headrace-footers")
    try:
        yield from pool.map(with_footer, pieces)
    finally:
        pool.shutdown(cancel_futures=True)


class _Told:
    """What footers tell of the rows of their files: how many, the nulls, least and greatest values."""

    def __init__(self, aggregation: Aggregation, schema: pa.Schema) -> None:
        self.rows = 0
        columns = operand_columns(aggregation)
        self.nulls = dict.fromkeys(columns, 0)
        self.extremes: dict[str, tuple[Any, Any]] = dict.fromkeys(columns, (None, None))
        self._ranged = ranged_columns(aggregation)
        self._types = {name: schema.field(name).type for name in columns}
        self._positions: tuple[Any, pa.Schema, dict[str, int | None]] | None = None

    def add(self, fragment: ds.ParquetFileFragment, keys: dict[str, Any]) -> bool:
        """Whether this file's footer leaves nothing open; of one that does, nothing is added."""
        metadata = fragment.metadata
        groups = [metadata.row_group(group.id) for group in fragment.row_groups]
        rows = sum(group.num_rows for group in groups)
        if not rows:  # then the partition's value is no row's
            return True
        positions = self._positions_in(metadata, fragment.physical_schema)
        nulls: dict[str, int] = {}
        extremes: dict[str, tuple[Any, Any]] = {}
        for name, type_ in self._types.items():
            if name in keys:
                value = keys[name]
                nulls[name], extremes[name] = (rows if value is None else 0), (value, value)
                continue
            at = positions[name]
            if at is None:
                return False
            columns = [group.column(at).statistics for group in groups if group.num_rows]
            if any(stats is None or not stats.has_null_count for stats in columns):
                return False
            nulls[name] = sum(stats.null_count for stats in columns)
            if name in self._ranged:
                found = _extremes(columns, type_, metadata.created_by or "")
                if found is None:
                    return False
                extremes[name] = found
        self.rows += rows
        for name, count in nulls.items():
            self.nulls[name] += count
        for name, (low, high) in extremes.items():
            self.extremes[name] = _wider(self.extremes[name], low, high)
        return True

    def _positions_in(self, metadata: Any, physical: pa.Schema) -> dict[str, int | None]:
        """As ``column_position`` tells them: most files store the same columns as the one before."""
        stored = metadata.schema
        last = self._positions
        if last is None or not (stored.equals(last[0]) and physical.equals(last[1])):
            found = {name: column_position(metadata, physical, name, type_) for name, type_ in self._types.items()}
            self._positions = last = stored, physical, found
        return last[2]


def _wider(extremes: tuple[Any, Any], low: Any, high: Any) -> tuple[Any, Any]:
    """The least and the greatest value of both; None stands for no value."""
    if low is None or extremes[0] is None:
        return extremes if low is None else (low, high)
    return min(extremes[0], low), max(extremes[1], high)


def _extremes(columns: Sequence[Any], type_: pa.DataType, writer: str) -> tuple[Any, Any] | None:
    """Least and greatest value, if the statistics have these very values."""
    if not has_exact_bounds(type_) and not (is_text(type_) and writer.startswith(_NEVER_CUT)):
        return None
    lows, highs = [], []
    for stats in columns:
        if not stats.has_min_max and not stats.num_values:
            continue  # all of them null
        low, high = least_and_greatest(stats)
        if low is None:
            return None
        lows.append(low)
        highs.append(high)
    return (min(lows), max(highs)) if lows else (None, None)
