"""From a path, a glob or a list to a pyarrow dataset, whose format file names tell; driver, when a table is made."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace.tables.listing.paths import is_glob, listed_files

if TYPE_CHECKING:
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


def opened_dataset(source: Any, format: Any, partitioning: Any, filesystem: Any) -> ds.Dataset:
    """The dataset of a path, a glob, or a list of paths.

    Raises FileNotFoundError where there is no file, ValueError for files of several formats, or of an ending that tells
    none, and what ``ds.dataset()`` raises.
    """
    import pyarrow.dataset as ds

    if not isinstance(source, (str, os.PathLike, Iterable)):
        raise TypeError(f"DatasetTable takes a pyarrow.dataset.Dataset or paths, not {type(source).__name__}")
    if isinstance(source, (str, os.PathLike)):
        source = os.fspath(source)
        if is_glob(source) and not (filesystem is None and os.path.exists(source)):
            source = _matching(source, filesystem)
    else:
        source = [os.fspath(item) if isinstance(item, os.PathLike) else item for item in source]
    if format is None:
        format = _told_format(source, filesystem)
    if format == "tsv":
        import pyarrow.csv

        format = ds.CsvFileFormat(pyarrow.csv.ParseOptions(delimiter="\t"))
    dataset = ds.dataset(source, format=format, partitioning=partitioning, filesystem=filesystem)
    if not dataset.schema.names:
        raise FileNotFoundError(f"there is no file with columns at or below {source!r}")
    return dataset


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
    return [info.path for info in found if info.is_file and not _is_hidden(info.path[len(root) :])]


def _is_hidden(path: str) -> bool:
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
