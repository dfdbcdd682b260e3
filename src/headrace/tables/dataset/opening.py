"""From a path, a glob or a list to a pyarrow dataset, whose format file names tell; driver, when a table is made, or
after it was written to."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.tables.dataset.csv_writer import BLOCK_BYTES
from headrace.tables.dataset.record import Record, consistent
from headrace.tables.listing.paths import is_glob, listed_files

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

_FORMATS = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    ".csv": "csv",
    ".tsv": "tsv",
    ".orc": "orc",
    ".feather": "feather",
    **dict.fromkeys((".arrow", ".ipc"), "ipc"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
}
_COMPRESSED = {".gz", ".bz2", ".zst", ".lz4"}
"""pyarrow unpacks a CSV file with such an ending; the one before it tells the format."""
_MOST_NAMED = 5


@dataclass(frozen=True)
class DatasetSource:
    """A path, a glob or a list of paths, and how to read what is there. It can be opened again after a write.

    ``schema``: of the table, where it is not told by the files, as there are none yet.
    """

    source: str | list[Any]
    format: Any = None
    partitioning: Any = "hive"
    filesystem: Any = None
    schema: pa.Schema | None = None
    partition_by: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Any, **options: Any) -> DatasetSource:
        """Raises TypeError for what is no path, ValueError for a glob of files that are elsewhere."""
        if not isinstance(source, (str, os.PathLike, Iterable)):
            raise TypeError(f"DatasetTable takes a pyarrow.dataset.Dataset or paths, not {type(source).__name__}")
        if isinstance(source, (str, os.PathLike)):
            return cls(os.fspath(source), **options)
        return cls([os.fspath(item) if isinstance(item, os.PathLike) else item for item in source], **options)

    @property
    def folder(self) -> str:
        """The whole path, where it can be written to."""
        return os.path.abspath(_local_path(str(self.source)))

    def is_gone(self) -> bool:
        """Whether a folder or file of this machine is not there: ``open`` takes it for a new table's, with a schema."""
        if self.filesystem is not None or not isinstance(self.source, str) or is_glob(self.source):
            return False
        path = _local_path(self.source)
        return "://" not in path and not os.path.exists(path)

    def read_only_because(self) -> str:
        """Why nothing can be written there; empty where it can."""
        import pyarrow.fs as fs

        source = self.source
        if not isinstance(source, str):
            return "it is made of a list of paths"
        if "://" in source and not source.startswith("file://"):
            return f"{source.partition('://')[0]}:// is no file system that renames a file at once and has locks"
        if self.filesystem is not None and not isinstance(self.filesystem, fs.LocalFileSystem):
            return f"{type(self.filesystem).__name__} is no file system that renames a file at once and has locks"
        if is_glob(source) and not os.path.exists(source):
            return "it is made of a glob"
        if os.path.isfile(_local_path(source)):
            return "it is made of one file"
        return "" if self.partitioning == "hive" else "its partitioning is not 'hive'"

    def open(self) -> OpenedDataset:
        """What is there now: all of each write, or nothing of it.

        Raises FileNotFoundError where there is no file, ValueError for files of several formats, or of an ending that
        tells none, and what ``ds.dataset()`` raises.
        """
        if self.read_only_because():
            return OpenedDataset(self._dataset(Record()), None)
        record, dataset = consistent(self.folder, self._dataset)
        hidden = frozenset(os.path.join(self.folder, path) for path in record.hidden)
        return OpenedDataset(dataset, record if record.version else None, hidden)

    def format_name(self, opened: OpenedDataset) -> str | None:
        """Of the files to write; None for a format that was given as an object."""
        if self.format is not None:
            return self.format if isinstance(self.format, str) else None
        if opened.record is not None and opened.record.format is not None:
            return opened.record.format
        return _told_format(list(opened.dataset.files), self.filesystem)

    def _dataset(self, record: Record) -> ds.Dataset:
        import pyarrow.dataset as ds

        source, format, partitioning = self.source, self.format or record.format, self.partitioning
        schema = self.schema or record.schema
        if isinstance(source, str) and is_glob(source) and not (self.filesystem is None and os.path.exists(source)):
            source = _matching(source, self.filesystem)
        is_new = schema is not None and isinstance(source, str) and not os.path.exists(_local_path(source))
        if format is None:
            format = "parquet" if is_new else _told_format(source, self.filesystem)
        if format in ("csv", "tsv"):
            format = _csv_format("," if format == "csv" else "\t", written=record.version > 0)
        partition_by = self.partition_by or record.partition_by
        if partition_by and schema is not None:
            partitioning = ds.partitioning(pa.schema([schema.field(name) for name in partition_by]), flavor="hive")
        if is_new:
            source = []
        dataset = ds.dataset(source, schema, format, self.filesystem, partitioning)
        if not dataset.schema.names:
            raise FileNotFoundError(f"there is no file with columns at or below {source!r}")
        return dataset


@dataclass(frozen=True)
class OpenedDataset:
    """A dataset, the record of its folder where there is one, and its files that are no part of the table."""

    dataset: ds.Dataset
    record: Record | None
    hidden: frozenset[str] = frozenset()

    def fragments(self) -> list[ds.Fragment]:
        return [one for one in self.dataset.get_fragments() if getattr(one, "path", None) not in self.hidden]


def _local_path(source: str) -> str:
    return source.removeprefix("file://")


def _csv_format(delimiter: str, *, written: bool) -> ds.FileFormat:
    """pyarrow's own, for longer rows, and where Headrace has ``written`` the files one that reads back what they say.

    Nothing between two commas is null then, and quoted text is text; a text may have several lines.
    """
    import pyarrow.csv
    import pyarrow.dataset as ds

    parse = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=written)
    blocks = pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES)
    if not written:
        return ds.CsvFileFormat(parse, read_options=blocks)
    nulls = pyarrow.csv.ConvertOptions(null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
    return ds.CsvFileFormat(parse, convert_options=nulls, read_options=blocks)


def _matching(pattern: str, filesystem: Any) -> list[str]:
    if filesystem is not None or "://" in pattern:
        raise ValueError(
            f"globs are for local files, and {pattern!r} is elsewhere: pass a list of paths, or a directory"
        )
    return [file.path for file in listed_files(pattern)]


def _told_format(source: str | list[Any], filesystem: Any) -> str | None:
    """The format of all files, by their endings; Parquet where these have none; None for a list of something else."""
    if isinstance(source, str):
        files = _files(source, filesystem)
        if not any(map(_ending, files)):
            return _FORMATS.get(_ending(source), "parquet")  # Spark names directories like that
    else:
        files = [item for item in source if isinstance(item, str)]
        if len(files) < len(source):
            return None
    counted = Counter(map(_ending, files))
    formats = {_FORMATS.get(ending) if ending else "parquet" for ending in counted}
    if len(formats) > 1 or None in formats:
        what = "an ending that tells no format" if formats == {None} else "files of several formats"
        raise ValueError(
            f"{source if isinstance(source, str) else 'the list of paths'!r} has {what}: {_listed(counted, files)}; "
            "say it with format= ('parquet', 'csv', 'orc', 'feather', 'ipc' or 'json'), or pass a glob: 'folder/*.csv'"
        )
    return formats.pop() if formats else "parquet"


def _files(source: str, filesystem: Any) -> list[str]:
    """The files that pyarrow would find, the path itself if it is none of a directory."""
    import pyarrow.fs as fs

    path = source
    if filesystem is None:
        filesystem, path = fs.FileSystem.from_uri(source) if "://" in source else (fs.LocalFileSystem(), source)
    elif not isinstance(filesystem, fs.FileSystem):
        return [source]  # one of fsspec's, or a URI: pyarrow knows what to make of it
    kind = filesystem.get_file_info(path).type
    if kind is fs.FileType.NotFound:
        here = f" (looked for in {os.getcwd()})" if isinstance(filesystem, fs.LocalFileSystem) else ""
        raise FileNotFoundError(f"there is no file or folder {source!r}{here}")
    if kind is not fs.FileType.Directory:
        return [source]
    found = filesystem.get_file_info(fs.FileSelector(path, recursive=True))
    root = path.rstrip("/")
    return [info.path for info in found if info.is_file and not is_hidden(info.path[len(root) :])]


def is_hidden(path: str) -> bool:
    """Whether pyarrow leaves it out."""
    return any(part.startswith((".", "_")) for part in path.split("/"))


def _ending(path: str) -> str:
    stem, ending = os.path.splitext(path.rstrip("/").lower())
    return os.path.splitext(stem)[1] if ending in _COMPRESSED else ending


def _listed(counted: Counter[str], files: Iterable[str]) -> str:
    ranked = sorted(counted.items(), key=lambda item: (-item[1], item[0] or "~"))[:_MOST_NAMED]
    shown = [f"{number:,} x {ending or 'no ending'}" for ending, number in ranked]
    first = next((file for file in sorted(files) if _FORMATS.get(_ending(file)) is None), None)
    return f"{', '.join(shown)}{'' if first is None else f' ({os.path.basename(first)})'}"
