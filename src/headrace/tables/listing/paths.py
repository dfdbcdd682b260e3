"""From paths, globs and URLs to the files behind them, listed once; runs in the driver, when a table is made."""

from __future__ import annotations

import glob
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from headrace.optional import required
from headrace.tables.listing.format import DataFile

Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_MAGIC = frozenset("*?[")


def is_glob(path: str) -> bool:
    return not _MAGIC.isdisjoint(path)


def listed_files(paths: Paths, storage_options: Mapping[str, Any] | None = None) -> list[DataFile]:
    """Every file behind ``paths``, each once, in the order of ``paths`` and sorted by name within each.

    A path is a file, a directory (everything below it) or a glob (``**`` too). Directories and globs leave out names
    that start with ``_`` or ``.``, as Spark does, unless the glob itself asks for such. A URL is looked up through
    fsspec with ``storage_options``; ``file://`` needs none.

    Raises FileNotFoundError, naming the path, where there is nothing, MissingPackageError without fsspec, and OSError
    for a directory that cannot be listed.
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
        matches = [match for match in glob.glob(path, recursive=True) if _asked_for(match, path)]
        looping = {place: _loops(place) for place in set(map(os.path.dirname, matches))} if "**" in path else {}
        roots = sorted(match for match in matches if not looping.get(os.path.dirname(match)))
    else:
        raise _nothing(path)
    for root in map(os.path.abspath, roots):
        if os.path.isdir(root):
            yield from _below(root, frozenset({os.path.realpath(root)}))
        else:
            yield DataFile(root, os.path.getsize(root))


def _below(directory: str, above: frozenset[str]) -> Iterator[DataFile]:
    """Links are followed, except to a directory ``above``: its files are listed already, and there is no end to it."""
    with os.scandir(directory) as entries:
        visible = sorted((entry for entry in entries if not _hidden(entry.name)), key=lambda entry: entry.name)
    for entry in visible:
        if not entry.is_dir():
            yield DataFile(entry.path, entry.stat().st_size)
        elif (real := os.path.realpath(entry.path)) not in above:
            yield from _below(entry.path, above | {real})


def _loops(directory: str) -> bool:
    """Whether the way to ``directory`` comes through the same place twice, by a link to a directory above."""
    path = pathlib.Path(os.path.abspath(directory))
    places = [os.path.realpath(place) for place in (path, *path.parents)]
    return len(set(places)) < len(places)


def _remote(url: str, storage_options: Mapping[str, Any]) -> Iterator[DataFile]:
    url_to_fs = required("fsspec.core", f"listing {url}").url_to_fs
    filesystem, path = url_to_fs(url, **storage_options)
    if _MAGIC.isdisjoint(path):
        try:
            matches = [filesystem.info(path)]
        except FileNotFoundError:
            raise _nothing(url) from None
    else:
        found = sorted(filesystem.glob(path, detail=True).items())
        matches = [info for name, info in found if _asked_for(name, path)]
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


def _asked_for(match: str, pattern: str) -> bool:
    """Whether no part of ``match`` that stands for a wildcard is hidden, or the pattern asks for hidden names."""
    wild = pattern.split("/")
    fixed = next(i for i, part in enumerate(wild) if not _MAGIC.isdisjoint(part))
    return any(map(_hidden, wild[fixed:])) or not any(map(_hidden, match.split("/")[fixed:]))


def _nothing(path: str) -> FileNotFoundError:
    kind = "no file matches" if not _MAGIC.isdisjoint(path) else "there is no file at or below"
    where = "" if "://" in path or os.path.isabs(path) else f" (looked for in {os.getcwd()})"
    return FileNotFoundError(f"{kind} {path!r}{where}: a table needs at least one file, for its schema")
