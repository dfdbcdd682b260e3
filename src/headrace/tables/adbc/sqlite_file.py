"""The file behind SQLite's uri: SQLite would make an empty one where there is none; driver and executors."""

from __future__ import annotations

import os
from urllib.parse import unquote


def check_sqlite_uri(uri: str) -> None:
    """Raises ValueError for the form that SQLAlchemy has: the driver would take it for the name of a file."""
    if uri.startswith(("sqlite:", "sqlite3:")):
        path = uri.partition(":")[2].removeprefix("//").removeprefix("/") or "data.db"
        raise ValueError(f"SQLite's driver takes the path of a file, or file:..., not {uri!r}: write {path!r}")


def check_sqlite_file(uri: str) -> None:
    """Raises FileNotFoundError where there is no such file. What is not a file (in memory) passes."""
    path, _, query = uri.partition("?") if uri.startswith("file:") else (uri, "", "")
    path = unquote(path.removeprefix("file:")) if uri.startswith("file:") else path
    if path in ("", ":memory:") or "mode=memory" in query or "vfs=" in query:
        return
    path = "/" + path.lstrip("/") if path.startswith("//") else path
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no SQLite database at {path!r}")
