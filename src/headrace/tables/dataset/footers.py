"""What Parquet footers tell: rows and bytes per row for estimates, and which row groups a range of bytes holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.arrow.types import value_bytes
from headrace.plan import Statistics
from headrace.tables.dataset.selectivity import ColumnFacts

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_SAMPLED_FILES = 8
_MOST_OF_A_TASK = 1000  # footers, or so many bytes of them: about 0.1 s of work, for which a second task does not pay
_MOST_BYTES_OF_A_TASK = 4 << 20
_DICTIONARY_BYTES = 2.5  # a value: indices of some 16 bits and a few values; plain text has 4 for its length alone


def is_parquet(format: ds.FileFormat) -> bool:
    return bool(format.default_extname == "parquet")


def row_groups_in(metadata: Any, span: tuple[int, int], file_size: int) -> list[int]:
    """The row groups whose middle is in ``span``, so that spans side by side have each row group once."""
    starts = [_start(metadata.row_group(i).column(0)) for i in range(metadata.num_row_groups)]
    ends = [*starts[1:], file_size]
    middles = [min(max((start + end) // 2, 0), file_size - 1) for start, end in zip(starts, ends, strict=True)]
    return [i for i, middle in enumerate(middles) if span[0] <= middle < span[1]]


def _start(column: Any) -> int:
    return int(column.dictionary_page_offset or column.data_page_offset)


@dataclass(frozen=True)
class Footers:
    """Rows per byte of file, and bytes per row of each column, in a few files; both None where that is not known.

    ``ranged``: the columns with statistics in all of them. ``size``: bytes of a footer. ``facts``: of the values.
    """

    rows_per_byte: float | None
    widths: dict[str, float]
    ranged: frozenset[str] = frozenset()
    size: float = 0.0
    facts: Mapping[str, ColumnFacts] = field(default_factory=dict)

    @classmethod
    def sampled(cls, fragments: Sequence[ds.Fragment], sizes: Sequence[int], schema: pa.Schema) -> Footers:
        """Reads the footers of up to eight files, spread over ``fragments``; of none unless all are Parquet.

        A column that a file stores in another type than ``schema`` has is not a ``ranged`` one, nor is a nested one.

        A file that cannot be read is passed over: this is for estimates, and the query will name the file.
        """
        if not all(is_parquet(fragment.format) for fragment in fragments):
            return cls(None, {})
        step = max(1, -(-len(fragments) // _SAMPLED_FILES))
        rows = size = group_rows = footers = footer_bytes = 0
        widths: dict[str, float] = {}
        unranged: set[str] = set()
        facts: dict[str, ColumnFacts] = {}
        for fragment, file_size in list(zip(fragments, sizes, strict=True))[::step]:
            try:
                metadata = fragment.metadata
            except (OSError, pa.ArrowException):
                continue
            stored = {field.name: field.type for field in fragment.physical_schema}
            unranged.update(field.name for field in schema if stored.get(field.name) != field.type)
            rows, size = rows + metadata.num_rows, size + file_size
            footers, footer_bytes = footers + 1, footer_bytes + metadata.serialized_size
            if metadata.num_row_groups:
                group = metadata.row_group(0)
                group_rows += group.num_rows
                # Sorted rows have their ends in the first and in the last.
                last = metadata.row_group(metadata.num_row_groups - 1) if metadata.num_row_groups > 1 else None
                for i in range(group.num_columns):
                    column = group.column(i)
                    name, _, nested = column.path_in_schema.partition(".")
                    widths[name] = widths.get(name, 0) + column.total_uncompressed_size
                    if nested or not _is_ranged(column.statistics):
                        unranged.add(name)
                    if name not in unranged:
                        found = ColumnFacts.of_chunk(column)
                        if last is not None:
                            found = found.and_(ColumnFacts.of_chunk(last.column(i)))
                        facts[name] = facts[name].and_(found) if name in facts else found
        if not size:
            return cls(None, {})
        per_row = {name: width / max(1, group_rows) for name, width in widths.items()}
        same_type = {name: found for name, found in facts.items() if name not in unranged}
        return cls(rows / size, per_row, frozenset(widths) - unranged, footer_bytes / footers, same_type)

    def estimate(self, schema: pa.Schema, file_bytes: float) -> Statistics:
        """Of ``file_bytes`` of such files, when the columns of ``schema`` are read."""
        if self.rows_per_byte is None:
            return Statistics(None, round(file_bytes))
        rows = round(self.rows_per_byte * file_bytes)
        # What is encoded takes less room in the file than in memory, where a value has at least its own width.
        width = sum(max(self.widths.get(field.name, 0.0), _least_bytes(field.type)) for field in schema)
        return Statistics(rows, round(rows * width))

    def in_a_task(self) -> int:
        """How many of them one task should read."""
        return max(1, min(_MOST_OF_A_TASK, int(_MOST_BYTES_OF_A_TASK / max(1.0, self.size))))

    def has_few_values(self, column: str) -> bool:
        """Whether a column of text or bytes takes so little room that it must be a dictionary and short indices."""
        return self.widths.get(column, _DICTIONARY_BYTES) < _DICTIONARY_BYTES


def _is_ranged(statistics: Any) -> bool:
    """Whether it tells nulls, least and greatest value; the latter are not there where all values are null."""
    return statistics is not None and bool(
        statistics.has_null_count and (statistics.has_min_max or not statistics.num_values)
    )


def _least_bytes(type_: pa.DataType) -> float:
    width = value_bytes(type_)
    return 4.0 if width is None else width
