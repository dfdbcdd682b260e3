"""DatasetFile: a fragment of a pyarrow dataset as plain data, its size and partition known; runs in the driver."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.tables.dataset.footers import is_parquet
from headrace.tables.dataset.plan import Piece

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


def identity(fragment: ds.Fragment) -> tuple[str, str]:
    """What tells fragments apart when their dataset lists them again."""
    return fragment.path, str(fragment.partition_expression)


def dataset_files(fragments: list[ds.Fragment]) -> list[DatasetFile]:
    """The fragments with their sizes, which costs a look into the file system for each.

    Equal formats, filesystems and partitions become one object each, so that a plan pickles them once. Raises
    TypeError for a fragment that is not a file.
    """
    import pyarrow.dataset as ds

    formats: list[Any] = []
    filesystems: list[Any] = []
    partitions: dict[str, tuple[Any, dict[str, Any]]] = {}
    files = []
    for fragment in fragments:
        if not isinstance(fragment, ds.FileFragment) or fragment.filesystem is None:
            raise TypeError(
                f"DatasetTable reads datasets of files, not a {type(fragment).__name__}; for data in memory there "
                "is MemTable"
            )
        name = identity(fragment)
        if name[1] not in partitions:
            expression = fragment.partition_expression
            partitions[name[1]] = expression, ds.get_partition_keys(expression)
        partition, keys = partitions[name[1]]
        piece = Piece(
            fragment.path,
            _shared(fragment.format, formats),
            _shared(fragment.filesystem, filesystems),
            partition,
            _row_groups(fragment),
        )
        files.append(DatasetFile(name, keys, piece))
    return _with_sizes(files, filesystems)


def _row_groups(fragment: ds.FileFragment) -> tuple[int, ...] | None:
    """The row groups to which a Parquet fragment was narrowed, None for all.

    Its own property opens the file if it was not; what it is pickled as does not.
    """
    import pyarrow.dataset as ds

    if not isinstance(fragment, ds.ParquetFileFragment):
        return None
    row_groups = fragment.__reduce__()[1][3]
    return None if row_groups is None else tuple(row_groups)


def _shared(value: Any, known: list[Any]) -> Any:
    """The first of ``known`` that is equal, else ``value`` itself, which is known from then on."""
    for other in known:
        if type(other) is type(value) and other.equals(value):
            return other
    known.append(value)
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
