"""What ``import headrace`` shows, and what it does not load."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

import headrace as hr

PYSPARK_FREE = """
import sys
import headrace
headrace.MemTable, headrace.TableSink
loaded = sorted(name for name in sys.modules if name.partition(".")[0] in ("pyspark", "py4j", "sqlglot", "typer"))
assert not loaded, loaded
from headrace import SessionContext
assert "pyspark" in sys.modules
"""


def test_all_names_equal_what_is_visible() -> None:
    visible = [
        name for name in dir(hr) if not name.startswith("_") and not isinstance(getattr(hr, name), types.ModuleType)
    ]
    assert sorted(hr.__all__) == sorted(visible)
    assert len(set(hr.__all__)) == len(hr.__all__)


def test_all_names_are_there() -> None:
    assert [name for name in hr.__all__ if not hasattr(hr, name)] == []


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'MemTabel'"):
        _ = hr.MemTabel


def test_import_without_a_session_does_not_load_pyspark() -> None:
    subprocess.run([sys.executable, "-c", PYSPARK_FREE], check=True, timeout=60)
