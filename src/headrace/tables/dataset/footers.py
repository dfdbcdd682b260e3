"""What Parquet footers tell: rows and bytes per row for estimates, and which row groups a range of bytes holds."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.arrow.types import value_bytes
from headrace.expr.nodes import Expr
from headrace.plan import Statistics
from headrace.tables.dataset.int96 import int96_paths, with_instants
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
class _Footer:
    """The footer of one file, the columns that are in it, and the row groups that the dataset has of it."""

    metadata: Any
    physical: pa.Schema
    groups: tuple[int, ...]

    @classmethod
    def of(cls, fragment: ds.ParquetFileFragment) -> _Footer:
        return cls(fragment.metadata, fragment.physical_schema, tuple(group.id for group in fragment.row_groups))

    @property
    def rows(self) -> int:
        if len(self.groups) == self.metadata.num_row_groups:
            return int(self.metadata.num_rows)
        return sum(self.metadata.row_group(i).num_rows for i in self.groups)

    @property
    def int96(self) -> set[tuple[str, ...]]:
        return int96_paths(self.metadata, self.physical)

    @functools.cached_property
    def ends(self) -> list[Any]:
        """The first and the last row group, in which sorted rows have their ends; one if there is one."""
        return [self.metadata.row_group(i) for i in sorted({self.groups[0], self.groups[-1]})]

    def stores(self, name: str, type_: pa.DataType) -> bool:
        """Whether the file has it in this type, which is not a nested one."""
        indices = self.physical.get_all_field_indices(name)
        return len(indices) == 1 and self.physical.field(indices[0]).type == type_ and not pa.types.is_nested(type_)

    def leaves(self, name: str) -> list[int]:
        """Where the values of a column are: in several places if it is a nested one."""
        if self.metadata.num_columns == len(self.physical):  # none is nested, so they are where the fields are
            return list(self.physical.get_all_field_indices(name))
        return self._leaves.get(name, [])

    @functools.cached_property
    def _leaves(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for i in range(self.metadata.num_columns):
            found.setdefault(self.metadata.schema.column(i).path.partition(".")[0], []).append(i)
        return found


class Footers:
    """What the footers of a few files tell: rows per byte of file, the width of each column and facts of its values.

    ``rows_per_byte`` is None where that is not known; ``size``: bytes of a footer. ``schema`` is the dataset's, with
    instants for the timestamps that these files store as INT96. A column is looked for when it is
    asked for: there may be thousands, and a query reads few.
    """

    def __init__(
        self,
        rows_per_byte: float | None,
        schema: pa.Schema,
        files: Sequence[_Footer] = (),
        *,
        size: float = 0.0,
    ) -> None:
        self.rows_per_byte = rows_per_byte
        self.schema = with_instants(schema, {path for file in files for path in file.int96})
        self._files = [file for file in files if file.groups]
        self._group_rows = sum(file.ends[0].num_rows for file in self._files)
        self._size = size
        self._widths: dict[str, float] = {}
        self._facts: dict[str, ColumnFacts | None] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled knows all columns and has no footer, which may be large."""
        for name in self.schema.names:
            self.width(name)
            self.facts(name)
        return {**self.__dict__, "_files": []}

    @classmethod
    def sampled(cls, fragments: Sequence[ds.Fragment], sizes: Sequence[int], schema: pa.Schema) -> Footers:
        """Reads the footers of up to eight files, spread over ``fragments``; of none unless all are Parquet.

        A file that cannot be read is passed over: this is for estimates, and the query will name the file.
        """
        if not all(is_parquet(fragment.format) for fragment in fragments):
            return cls(None, schema)
        step = max(1, -(-len(fragments) // _SAMPLED_FILES))
        files: list[_Footer] = []
        size = 0
        for fragment, file_size in list(zip(fragments, sizes, strict=True))[::step]:
            try:
                files.append(_Footer.of(fragment))
            except (OSError, pa.ArrowException):
                continue
            size += file_size
        if not size:
            return cls(None, schema)
        rows = sum(file.rows for file in files)
        footer_bytes = sum(file.metadata.serialized_size for file in files)
        return cls(rows / size, schema, files, size=footer_bytes / len(files))

    def width(self, name: str) -> float:
        """The bytes that a column takes in each row; 0 where no file has it."""
        if name not in self._widths:
            chunks = [file.ends[0].column(leaf) for file in self._files for leaf in file.leaves(name)]
            self._widths[name] = sum(chunk.total_uncompressed_size for chunk in chunks) / max(1, self._group_rows)
        return self._widths[name]

    def facts(self, name: str) -> ColumnFacts | None:
        """What is known of a column's values; None unless all files have it in the table's type, with statistics."""
        if name not in self._facts:
            self._facts[name] = self._looked_into(name)
        return self._facts[name]

    def _looked_into(self, name: str) -> ColumnFacts | None:
        type_ = self.schema.field(name).type
        found: list[ColumnFacts] = []
        for file in self._files:
            leaves = file.leaves(name)
            if len(leaves) != 1 or not file.stores(name, type_):
                return None
            chunks = [group.column(leaves[0]) for group in file.ends]
            if not _is_ranged(chunks[0].statistics):
                return None
            found += map(ColumnFacts.of_chunk, chunks)
        return functools.reduce(ColumnFacts.and_, found) if found else None

    def facts_for(self, filters: Iterable[Expr]) -> dict[str, ColumnFacts]:
        """Of the columns that the filters name, as far as something is known."""
        names = {name for expr in filters for name in expr.columns() if name in self.schema.names}
        return {name: facts for name in names if (facts := self.facts(name)) is not None}

    def estimate(self, schema: pa.Schema, file_bytes: float) -> Statistics:
        """Of ``file_bytes`` of such files, when the columns of ``schema`` are read."""
        if self.rows_per_byte is None:
            return Statistics(None, round(file_bytes))
        rows = round(self.rows_per_byte * file_bytes)
        # What is encoded takes less room in the file than in memory, where a value has at least its own width.
        width = sum(max(self.width(field.name), _least_bytes(field.type)) for field in schema)
        return Statistics(rows, round(rows * width))

    def in_a_task(self) -> int:
        """How many of them one task should read."""
        return max(1, min(_MOST_OF_A_TASK, int(_MOST_BYTES_OF_A_TASK / max(1.0, self._size))))

    def has_few_values(self, column: str) -> bool:
        """Whether a column of text or bytes takes so little room that it must be a dictionary and short indices."""
        return 0 < self.width(column) < _DICTIONARY_BYTES


def _is_ranged(statistics: Any) -> bool:
    """Whether it tells nulls, least and greatest value; the latter are not there where all values are null."""
    return statistics is not None and bool(
        statistics.has_null_count and (statistics.has_min_max or not statistics.num_values)
    )


def _least_bytes(type_: pa.DataType) -> float:
    width = value_bytes(type_)
    return 4.0 if width is None else width
