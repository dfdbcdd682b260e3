"""Optional packages, imported where they are used: a missing one is an error that says what to install; everywhere."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from headrace.errors import MissingPackageError

CONNECT = ("pandas", "grpc", "grpc_status", "google.rpc", "zstandard")
"""What PySpark's client of Spark Connect imports."""

_INSTALLED_BY = {
    **dict.fromkeys(("adbc_driver_manager", "adbc_driver_postgresql", "adbc_driver_sqlite"), "'headrace[adbc]'"),
    "adbc_driver_duckdb": "duckdb adbc-driver-manager",
    **dict.fromkeys(("rich", "typer"), "'headrace[cli]'"),
    **dict.fromkeys(("grpc", "grpc_status", "google", "zstandard"), "'headrace[connect]'"),
    "fsspec": "'headrace[fsspec]'",
    "httpx": "'headrace[http]'",
    "pandas": "'headrace[pandas]'",
    "sqlglot": "'headrace[sql]'",
}


def required(module: str, user: str) -> Any:
    """The module. Raises MissingPackageError: ``user`` needs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise missing(error.name or module, user) from None


def check_installed(module: str, user: str, *, install: str | None = None) -> None:
    """``required`` without the import, which takes a while. ``install``: what brings it, if not the usual."""
    try:
        found = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        found = False
    if not found:
        raise missing(module, user, install)


def missing(module: str, user: str, install: str | None = None) -> MissingPackageError:
    package = module.partition(".")[0]
    by = install or _INSTALLED_BY.get(package) or package.replace("_", "-")
    return MissingPackageError(f"{user} needs {package}, which is not installed: pip install {by}")
