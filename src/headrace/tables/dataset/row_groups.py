"""RowGroupPruning: which row groups of a Parquet file may hold a row that passes; made in the driver, for executors.

pyarrow skips row groups too, but none that has a null in a column that is filtered, and none by the start of a text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.expr.nodes import Expr
from headrace.pruning.container_stats import ColumnStats, ContainerStats
from headrace.pruning.predicate import PruningPredicate
from headrace.tables.dataset.chunks import column_position, has_exact_bounds, is_text, least_and_greatest

if TYPE_CHECKING:
    import pyarrow.dataset as ds


class RowGroupPruning:
    """Filters as a question to footers. It pickles small: of a long list only the values, not their expressions."""

    def __init__(self, predicate: PruningPredicate, types: dict[str, pa.DataType]) -> None:
        self._predicate = predicate
        self._types = types

    @classmethod
    def of(cls, filters: Sequence[Expr], schema: pa.Schema) -> RowGroupPruning | None:
        """None where the filters say nothing of a column whose statistics can be relied on."""
        if not filters:
            return None
        predicate = PruningPredicate(filters, schema)
        types = {name: schema.field(name).type for name in sorted(predicate.columns) if name in schema.names}
        usable = {name: type_ for name, type_ in types.items() if _has_bounds(type_)}
        return cls(predicate, usable) if usable else None

    def narrowed(self, fragment: ds.ParquetFileFragment, keys: Collection[str]) -> ds.ParquetFileFragment:
        """The fragment without the row groups in which no row passes; ``keys`` are columns that the path sets.

        Reads the footer unless the fragment has it, which then goes with what is returned.
        """
        every = [group.id for group in fragment.row_groups]
        kept = self.kept(fragment.metadata, fragment.physical_schema, every, keys)
        return fragment if len(kept) == len(every) else fragment.subset(row_group_ids=kept)

    def kept(self, metadata: Any, physical: pa.Schema, groups: Sequence[int], keys: Collection[str] = ()) -> list[int]:
        """Those of the row groups that may hold a row that passes."""
        places = {
            name: position
            for name, type_ in self._types.items()
            if name not in keys and (position := column_position(metadata, physical, name, type_)) is not None
        }
        if not places:
            return list(groups)
        answers = self._predicate.keep([_stats(metadata.row_group(i), places) for i in groups])
        return [i for i, may_match in zip(groups, answers, strict=True) if may_match]


def _has_bounds(type_: pa.DataType) -> bool:
    return has_exact_bounds(type_) or is_text(type_) or pa.types.is_float32(type_) or pa.types.is_float64(type_)


def _stats(group: Any, places: dict[str, int]) -> ContainerStats:
    columns = {}
    for name, position in places.items():
        statistics = group.column(position).statistics
        if statistics is not None:
            low, high = least_and_greatest(statistics)
            nulls = statistics.null_count if statistics.has_null_count else None
            # pyarrow does not show whether a text was cut, and whether what was cut off was made up for.
            columns[name] = ColumnStats(low, high, nulls, truncated=True)
    return ContainerStats(columns, group.num_rows)
