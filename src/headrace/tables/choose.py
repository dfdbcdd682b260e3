"""Which ready-made table suits what was given instead of a provider, for error messages; driver Python, pure."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

from headrace.provider import TableProvider


def not_a_provider(value: Any) -> str:
    """``DataFrame: wrap it in hr.MemTable(...)``: what ``value`` is, and what to pass instead where that is clear."""
    what = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    advice = _advice(value)
    return f"{what}: {advice}" if advice else what


def _advice(value: Any) -> str:
    library = type(value).__module__.partition(".")[0]
    if isinstance(value, type):
        return _advice_for_class(value)
    if library == "pyspark":
        return "a Spark DataFrame is a table already; give it a name with df.createOrReplaceTempView(name)"
    if type(value).__module__ == "pyarrow._dataset":
        return "wrap it in hr.DatasetTable(...)"
    if hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__") or isinstance(value, pa.Table):
        return "wrap it in hr.MemTable(...)"
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], pa.RecordBatch):
        return "wrap it in hr.MemTable(...)"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "wrap it in hr.MemTable(pa.Table.from_pylist(rows))"
    if isinstance(value, dict):
        return "wrap it in hr.MemTable(pa.table(columns))"
    if isinstance(value, (str, os.PathLike)):
        return "for files pass hr.DatasetTable(path), or hr.ListingTable(path, format)"
    if callable(value):
        return "for a function that returns batches pass hr.SimpleTable(schema, function)"
    return "write a subclass of hr.TableProvider, or use one of the ready-made tables"


def _advice_for_class(value: type) -> str:
    if issubclass(value, TableProvider):
        return f"pass an instance, {value.__name__}(...), not the class"
    if any(base.__module__ == "pyspark.sql.datasource" for base in value.__mro__):
        return f"pass hr.from_data_source({value.__name__}, options)"
    return ""
