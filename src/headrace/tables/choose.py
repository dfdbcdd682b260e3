"""Which table a user's object becomes, and the advice for an object that becomes none; driver Python."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

from headrace.arrow.conversion import batch_converter
from headrace.arrow.damage import DamageCheck
from headrace.arrow.data import is_data, is_lazy_frame, is_one_shot, opened
from headrace.arrow.mismatch import mismatch
from headrace.arrow.nulls import NullCheck
from headrace.errors import RegistrationError, SchemaMismatchError
from headrace.provider import TableProvider
from headrace.tables.dataset.table import DatasetTable
from headrace.tables.mem import MemTable


def provider_for(value: Any, where: str, schema: pa.Schema | None = None) -> TableProvider:
    """``value`` itself if it is a provider, else a table over the data that it is.

    ``schema``: of the data, which may then be rows without names (tuples), or no rows at all.
    Raises RegistrationError, with what to pass instead, for what is neither, or is data that makes no table;
    SchemaMismatchError for data that ``schema`` does not fit. ``where`` begins the message:
    ``register_table('orders', ...)``.
    """
    if schema is not None:
        return MemTable(_table_in(schema, value, where))
    if isinstance(value, TableProvider):
        return value
    if not is_table(value):
        raise RegistrationError(f"{where} takes a TableProvider or data, not {not_a_provider(value)}")
    try:
        return DatasetTable(value) if _is_dataset(value) else MemTable(value)
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{where}: {error}") from error


def _table_in(schema: pa.Schema, value: Any, where: str) -> pa.Table:
    """Data as a table of just these columns and types, where nothing is lost. Raises as ``provider_for`` does."""
    try:
        is_other = isinstance(value, TableProvider) or is_one_shot(value) or _is_dataset(value)
        found = None if is_other else opened(value, schema, "do not fit the schema")
    except TypeError as error:
        raise RegistrationError(f"{where}: {error}") from error
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"{where}: {error}") from error
    if found is None:
        raise RegistrationError(
            f"{where} takes a schema with rows (a list of dicts or of tuples), a dict of columns, a frame or Arrow "
            f"data, not with {not_a_provider(value)}"
        )
    own, batches = found
    convert = batch_converter(own, schema)
    if convert is None:
        raise SchemaMismatchError(f"{where}: the data does not fit the schema\n{mismatch(schema, own)}")
    nulls, buffers, made = NullCheck(schema), DamageCheck(own, read=own.names), []
    try:
        for batch in batches:
            if damage := buffers.damage(batch):
                raise SchemaMismatchError(f"the data is broken: {damage}")
            made.append(batch if own.equals(schema, check_metadata=True) else convert(batch))
            if path := nulls.path(made[-1]):
                raise SchemaMismatchError(f"nulls in {path!r}, which the schema declares not null")
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"{where}: {error}") from error
    return pa.Table.from_batches(made, schema)


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
        return "an empty list has no columns; for an empty table pass schema.empty_table(), or register_table's schema="
    if is_lazy_frame(value):
        return "it is a query that has not run yet; pass frame.collect()"
    if isinstance(value, dict) and not value:
        return "an empty dict has no columns; for an empty table pass schema.empty_table()"
    if isinstance(value, dict):
        return "a dict of columns has a list for each name"
    if isinstance(value, (list, tuple)):
        return (
            "a list of rows has a dict for each row, [{'id': 1}, {'id': 2}]; tuples need their names and types, "
            "register_table(name, rows, schema='id BIGINT, name STRING')"
        )
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
