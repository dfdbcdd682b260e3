"""DatasetAggregatePlan: counts, least and greatest values from Parquet footers, from rows where these do not tell.

Runs on executors: planning opens no file, so whether a footer tells is found out there, file by file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.plan import Aggregation, ExecutionPlan, Statistics, UnknownPartitioning
from headrace.tables.dataset.footers import is_parquet
from headrace.tables.dataset.plan import DatasetPlan, MemoryPiece, Piece, named
from headrace.tables.partial_aggregates import PartialAggregate, operand_columns, ranged_columns

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_NEVER_CUT = "parquet-cpp-arrow"
"""This writer leaves out a long string's bounds. Others cut them, and pyarrow does not show that they did."""


class DatasetAggregatePlan(ExecutionPlan):
    """One row of partial results for each partition. ``rows`` reads the same pieces, with the columns it needs.

    ``decided``: no filter is left to apply to rows, so that footers may count them.
    """

    def __init__(self, aggregation: Aggregation, rows: DatasetPlan, *, decided: bool) -> None:
        self.schema = aggregation.schema
        self.placement = rows.placement
        # Without a row Spark's count would be null, so there is a partition even where no file is left.
        self.partitioning = UnknownPartitioning(max(1, rows.partitioning.n))
        self._aggregation = aggregation
        self._rows = rows
        self._decided = decided

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        total = PartialAggregate(self._aggregation)
        for piece in self._rows.pieces(partition):
            known = self._known(piece)
            if known is None:
                for batch in self._rows.piece_batches(piece):
                    total.add_batch(batch)
            else:
                total.add_known(known.rows, known.nulls, known.extremes)
        yield total.row()

    def describe(self) -> str:
        return f"{'footers' if self._decided else 'aggregates'} of {self._rows.describe()}"

    def statistics(self) -> Statistics:
        return Statistics(self.partitioning.n)

    def _known(self, piece: Piece | MemoryPiece) -> _Known | None:
        if not self._decided or isinstance(piece, MemoryPiece) or not is_parquet(piece.format):
            return None
        try:
            return _told_by_footer(piece.fragment(), self._aggregation, self._rows.dataset_schema, piece.keys)
        except (OSError, pa.ArrowException) as error:
            raise named(error, piece.path) from error


@dataclass(frozen=True)
class _Known:
    rows: int
    nulls: dict[str, int]
    extremes: dict[str, tuple[Any, Any]]


def _told_by_footer(
    fragment: ds.ParquetFileFragment, aggregation: Aggregation, schema: pa.Schema, keys: dict[str, Any]
) -> _Known | None:
    """What the footer of a file says; None where it leaves something open. Raises OSError, ArrowException."""
    metadata = fragment.metadata
    groups = [metadata.row_group(group.id) for group in fragment.row_groups]
    rows = sum(group.num_rows for group in groups)
    ranged = ranged_columns(aggregation)
    nulls: dict[str, int] = {}
    extremes: dict[str, tuple[Any, Any]] = {}
    for name in operand_columns(aggregation):
        if name in keys:
            value = keys[name]
            nulls[name], extremes[name] = (rows if value is None else 0), (value, value)
            continue
        at = _position(metadata, fragment.physical_schema, name, schema.field(name).type)
        if at is None:
            return None
        columns = [group.column(at).statistics for group in groups if group.num_rows]
        if any(known is None or not known.has_null_count for known in columns):
            return None
        nulls[name] = sum(known.null_count for known in columns)
        if name in ranged:
            found = _extremes(columns, schema.field(name).type, metadata.created_by or "")
            if found is None:
                return None
            extremes[name] = found
    return _Known(rows, nulls, extremes)


def _position(metadata: Any, physical: pa.Schema, name: str, type_: pa.DataType) -> int | None:
    """Where in the file a column is that needs no cast; None if it is not there, is nested, or has another type."""
    indices = physical.get_all_field_indices(name)
    if len(indices) != 1 or physical.field(indices[0]).type != type_:
        return None
    found = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path == name]
    return found[0] if len(found) == 1 else None


def has_exact_bounds(type_: pa.DataType) -> bool:
    """Whether every writer puts values of this type into the statistics as they are."""
    is_ = pa.types
    fixed = is_.is_boolean(type_) or is_.is_integer(type_) or is_.is_decimal(type_) or is_.is_date32(type_)
    return bool(fixed or (is_.is_timestamp(type_) and type_.unit != "ns"))


def _extremes(columns: Sequence[Any], type_: pa.DataType, writer: str) -> tuple[Any, Any] | None:
    """Least and greatest value, if the statistics have these very values."""
    is_ = pa.types
    text = is_.is_string(type_) or is_.is_large_string(type_) or is_.is_binary(type_) or is_.is_large_binary(type_)
    if not has_exact_bounds(type_) and not (text and writer.startswith(_NEVER_CUT)):
        return None
    lows, highs = [], []
    for known in columns:
        if not known.has_min_max:
            if known.num_values:
                return None
            continue  # all of them null
        try:
            lows.append(known.min)
            highs.append(known.max)
        except (OverflowError, ValueError):  # a moment that Python has none of
            return None
    return (min(lows), max(highs)) if lows else (None, None)
