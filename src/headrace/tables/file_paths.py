"""From paths, globs and URLs to the files behind them, listed once; runs in the driver, when a table is made."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from headrace.tables.files import DataFile

Paths: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"

_MAGIC = frozenset("*?[")


def listed_files(paths: Paths, storage_options: Mapping[str, Any] | None = None) -> list[DataFile]:
    """Every file behind ``paths``, each once, in the order of ``paths`` and sorted by name within each.

    A path is a file, a directory (everything below it, except names that start with ``_`` or ``.``, as in Spark)
    or a glob (``**`` too). A URL is looked up through fsspec with ``storage_options``; ``file://`` needs none.

    Raises FileNotFoundError, naming the path, where there is nothing, and ImportError where fsspec is missing.
    """
    several = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: dict[str, DataFile] = {}
    for item in several:
        path = os.fspath(item)
        if not isinstance(path, str):
            raise TypeError(f"a path must be a str, not {type(path).__name__}")
        path = path.removeprefix("file://")
        remote = "://" in path or "::" in path
        files = list(_remote(path, storage_options or {}) if remote else _local(path))
        if not files:
            raise _nothing(path)
        found.update((file.path, file) for file in files if file.path not in found)
    if not found:
        raise FileNotFoundError("the list of paths is empty: a table needs at least one file, for its schema")
    return list(found.values())


def _local(path: str) -> Iterator[DataFile]:
    if os.path.exists(path):
        roots = [path]
    elif not _MAGIC.isdisjoint(path):
        roots = sorted(glob.glob(path, recursive=True))
    else:
        raise _nothing(path)
    for root in map(os.path.abspath, roots):
        if not os.path.isdir(root):
            yield DataFile(root, os.path.getsize(root))
            continue
        for directory, directories, names in os.walk(root, followlinks=True):
            directories[:] = sorted(name for name in directories if not _hidden(name))
            for name in sorted(names):
                if not _hidden(name):
                    file = os.path.join(directory, name)
                    yield DataFile(file, os.path.getsize(file))


def _remote(url: str, storage_options: Mapping[str, Any]) -> Iterator[DataFile]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ImportError(f"{url} needs fsspec to be listed: pip install 'headrace[fsspec]'") from None
    filesystem, path = url_to_fs(url, **storage_options)
    if _MAGIC.isdisjoint(path):
        try:
            matches = [filesystem.info(path)]
        except FileNotFoundError:
            raise _nothing(url) from None
    else:
        matches = [info for _, info in sorted(filesystem.glob(path, detail=True).items())]
    for match in matches:
        below = {match["name"]: match}
        if match["type"] == "directory":
            root = match["name"].rstrip("/")
            below = {
                name: info
                for name, info in sorted(filesystem.find(root, detail=True).items())
                if not any(map(_hidden, name[len(root) :].strip("/").split("/")))
            }
        for name, info in below.items():
            yield DataFile(filesystem.unstrip_protocol(name), int(info["size"] or 0), None, filesystem)


def _hidden(name: str) -> bool:
    return name.startswith((".", "_")) and "=" not in name


def _nothing(path: str) -> FileNotFoundError:
    kind = "no file matches" if not _MAGIC.isdisjoint(path) else "there is no file at or below"
    where = "" if "://" in path or os.path.isabs(path) else f" (looked for in {os.getcwd()})"
    return FileNotFoundError(f"{kind} {path!r}{where}: a table needs at least one file, for its schema")
