"""Which table a user's object becomes, and the advice for an object that becomes none; driver Python."""

from __future__ import annotations

import os
from typing import Any

from headrace.arrow.data import is_data, is_lazy_frame, is_one_shot
from headrace.errors import RegistrationError
from headrace.provider import TableProvider
from headrace.tables.dataset.table import DatasetTable
from headrace.tables.mem import MemTable


def provider_for(value: Any, where: str) -> TableProvider:
    """``value`` itself if it is a provider, else a table over the data that it is.

    Raises RegistrationError, with what to pass instead, for what is neither, or is data that makes no table. ``where``
    begins the message: ``register_table('orders', ...)``.
    """
    if isinstance(value, TableProvider):
        return value
    if not is_table(value):
        raise RegistrationError(f"{where} takes a TableProvider or data, not {not_a_provider(value)}")
    try:
        return DatasetTable(value) if _is_dataset(value) else MemTable(value)
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{where}: {error}") from error


def is_table(value: Any) -> bool:
    """Whether it is a provider, or data that can be read again and again."""
    if isinstance(value, TableProvider):
        return True
    of_pyspark = type(value).__module__.partition(".")[0] == "pyspark"  # its frames are tables of Spark's already
    return not of_pyspark and not is_one_shot(value) and (is_data(value) or _is_dataset(value))


def _is_dataset(value: Any) -> bool:
    return type(value).__module__ == "pyarrow._dataset" and hasattr(value, "get_fragments")


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
    if is_one_shot(value):
        return (
            "it can be read once, and a table is read by every query. hr.MemTable(...) reads all of its batches now; "
            "hr.SimpleTable(schema, function) calls a function that makes such a stream for each query; what comes "
            "once is written to ctx.register_streaming_table(name, schema)"
        )
    if is_data(value) or _is_dataset(value):
        return f"wrap it in hr.{'DatasetTable' if _is_dataset(value) else 'MemTable'}(...)"
    if isinstance(value, (list, tuple)) and not value:
        return "an empty list has no columns; for an empty table pass schema.empty_table()"
    if is_lazy_frame(value):
        return "it is a query that has not run yet; pass frame.collect()"
    if isinstance(value, dict) and not value:
        return "an empty dict has no columns; for an empty table pass schema.empty_table()"
    if isinstance(value, dict):
        return "a dict of columns has a list for each name"
    if isinstance(value, (list, tuple)):
        return "a list of rows has a dict for each row: [{'id': 1}, {'id': 2}]"
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
