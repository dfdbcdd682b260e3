"""DatasetFile, DatasetMemory: fragments of a pyarrow dataset as plain data, sizes known; runs in the driver."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.arrow.conversion import table_in_types
from headrace.tables.dataset.footers import is_parquet
from headrace.tables.dataset.int96 import reading_instants
from headrace.tables.dataset.plan import MemoryPiece, Piece

if TYPE_CHECKING:
    import pyarrow.dataset as ds


@dataclass(frozen=True)
class DatasetFile:
    """One file, and the values of its partition columns by name."""

    identity: tuple[str, str]
    keys: dict[str, Any]
    whole: Piece

    @property
    def size(self) -> int:
        return self.whole.size

    def pieces(self, largest: int) -> Iterator[Piece]:
        """The file, or if it is Parquet and larger, ranges of its bytes: see ``Piece.span``.

        Which row groups are in a range stands in the footer, and planning opens no file.
        """
        count = -(-self.size // largest) if is_parquet(self.whole.format) else 1
        if count <= 1:
            yield self.whole
            return
        for i in range(count):
            span = self.size * i // count, self.size * (i + 1) // count
            yield dataclasses.replace(self.whole, span=span)


@dataclass(frozen=True)
class DatasetMemory:
    """A fragment whose rows are in memory already."""

    rows: pa.Table
    identity: tuple[str, str]
    keys: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def size(self) -> int:
        return int(self.rows.nbytes)

    @property
    def whole(self) -> MemoryPiece:
        return MemoryPiece(self.rows)

    def pieces(self, largest: int) -> Iterator[MemoryPiece]:
        """The rows in parts of about ``largest`` bytes, in order; slices, nothing is copied."""
        rows = self.rows.num_rows
        count = min(rows, -(-self.size // largest))
        for i in range(count):
            start, stop = rows * i // count, rows * (i + 1) // count
            yield MemoryPiece(self.rows.slice(start, stop - start))


IN_MEMORY = ("", "in memory")


def in_memory(fragment: ds.Fragment) -> bool:
    """Whether its rows are in memory: pyarrow has no class of its own for such a fragment."""
    import pyarrow.dataset as ds

    return type(fragment) is ds.Fragment


def identity(fragment: ds.Fragment) -> tuple[str, str]:
    """What tells fragments apart when their dataset lists them again; no filter leaves out one in memory."""
    if in_memory(fragment):
        return IN_MEMORY
    return fragment.path, str(fragment.partition_expression)


def dataset_memory(fragments: list[ds.Fragment], schema: pa.Schema) -> list[DatasetMemory]:
    """The fragments that are in memory, in the types of ``schema``. They have no partition of their own."""
    tables = [fragment.to_table() for fragment in fragments if in_memory(fragment)]
    return [DatasetMemory(table_in_types(table, schema), IN_MEMORY) for table in tables]


def dataset_files(fragments: list[ds.Fragment]) -> list[DatasetFile]:
    """The fragments with their sizes, which costs a look into the file system for each.

    Equal formats, filesystems and partitions become one object each, so that a plan pickles them once. Raises
    TypeError for a fragment that is not a file.
    """
    import pyarrow.dataset as ds

    formats: list[Any] = []
    filesystems: list[Any] = []
    partitions: dict[str, tuple[bytes, dict[str, Any]]] = {}
    files = []
    of_files = [fragment for fragment in fragments if not in_memory(fragment)]
    for fragment, row_groups in zip(of_files, _row_groups(of_files), strict=True):
        if not isinstance(fragment, ds.FileFragment) or fragment.filesystem is None:
            raise TypeError(
                f"DatasetTable reads datasets of files and of tables in memory, not a {type(fragment).__name__} of "
                "an open file or stream"
            )
        name = identity(fragment)
        if name[1] not in partitions:
            expression = fragment.partition_expression
            partitions[name[1]] = pickle.dumps(expression), ds.get_partition_keys(expression)
        partition, keys = partitions[name[1]]
        piece = Piece(
            fragment.path,
            _shared(reading_instants(fragment.format), formats),
            _shared(fragment.filesystem, filesystems),
            partition,
            row_groups,
            keys=keys,
        )
        files.append(DatasetFile(name, keys, piece))
    return _with_sizes(files, filesystems)


def _row_groups(fragments: Sequence[ds.Fragment]) -> list[tuple[int, ...] | None]:
    """The row groups to which Parquet fragments were narrowed, None for all.

    What a fragment is pickled as tells whether its file was opened, without opening it. One that was narrowed to no
    row group is pickled as a whole file: so the first file is opened in any case, and all are where one was narrowed.
    """
    import pyarrow.dataset as ds

    parquet = [fragment for fragment in fragments if isinstance(fragment, ds.ParquetFileFragment)]
    opened = [fragment for i, fragment in enumerate(parquet) if i == 0 or fragment.__reduce__()[1][3] is not None]
    if not any(map(_is_narrowed, opened)):
        return [None] * len(fragments)
    return [
        tuple(group.id for group in fragment.row_groups) if isinstance(fragment, ds.ParquetFileFragment) else None
        for fragment in fragments
    ]


def _is_narrowed(fragment: ds.ParquetFileFragment) -> bool:
    try:
        return bool(fragment.num_row_groups < fragment.metadata.num_row_groups)
    except (OSError, pa.ArrowException):
        return False  # whoever reads the file names it


def _shared(value: Any, earlier: list[Any]) -> Any:
    """The first of ``earlier`` that is equal, else ``value`` itself, which joins them."""
    for other in earlier:
        if type(other) is type(value) and other.equals(value):
            return other
    earlier.append(value)
    return value


def _with_sizes(files: list[DatasetFile], filesystems: list[Any]) -> list[DatasetFile]:
    """Asks each filesystem for all of its files at once. A file that is gone has no size; reading it says so."""
    sizes: dict[int, int] = {}
    for filesystem in filesystems:
        indexes = [i for i, file in enumerate(files) if file.whole.filesystem is filesystem]
        infos = filesystem.get_file_info([files[i].whole.path for i in indexes])
        sizes.update((i, info.size or 0) for i, info in zip(indexes, infos, strict=True))
    return [
        dataclasses.replace(file, whole=dataclasses.replace(file.whole, size=sizes[i])) for i, file in enumerate(files)
    ]
