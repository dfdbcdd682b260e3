"""Every public constructor and function, given something of a wrong type for each of its parameters in turn."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest

import headrace as hr
import headrace.testing
from headrace.push.channel import Channel
from headrace.push.packing import Packing

SCHEMA = pa.schema([("a", pa.int64())])
TABLE = pa.table({"a": [1]})
COLUMN, ONE = hr.Column("a"), hr.Literal(1, pa.int64())
RAW = re.compile(
    r"NoneType has no|has no attribute|object is not|unsupported operand|not supported between|Traceback|java\."
)


def batches() -> Iterator[pa.RecordBatch]:
    yield from TABLE.to_batches()


class Format(hr.FileFormat):
    def schema(self, file: hr.DataFile) -> pa.Schema:
        return SCHEMA

    def read(self, file: hr.DataFile, request: hr.ScanRequest) -> Iterator[pa.RecordBatch]:
        return batches()


class Wrong:
    """Nothing that any parameter takes."""


@dataclass
class Case:
    """A call, arguments that fit, and parameters that take anything, or are checked when the table is asked."""

    call: Callable[..., Any]
    fitting: dict[str, Any]
    free: tuple[str, ...] = ()


PREDICATE = hr.Comparison("=", COLUMN, ONE)
CASES: dict[str, Case] = {
    "AdbcCatalog": Case(hr.AdbcCatalog, {"driver": "sqlite", "uri": "x"}),
    "AdbcTable": Case(hr.AdbcTable, {"driver": "sqlite", "uri": "x", "table": "t"}),
    "AggregateFunction": Case(
        hr.AggregateFunction, {"name": "sum", "operand": COLUMN, "distinct": False, "type": pa.int64()}
    ),
    "Aggregation": Case(hr.Aggregation, {"group_by": (), "functions": (), "schema": SCHEMA}),
    "And": Case(hr.And, {"left": PREDICATE, "right": PREDICATE}),
    "ApiFilter": Case(hr.ApiFilter, {"parameter": "p", "column": "a"}),
    "ByCursor": Case(hr.ByCursor, {}),
    "ByOffset": Case(hr.ByOffset, {}),
    "ByPage": Case(hr.ByPage, {}),
    "Call": Case(hr.Call, {"name": "UPPER", "args": (COLUMN,)}),
    "Cast": Case(hr.Cast, {"operand": COLUMN, "spark_type": "int"}),
    "Column": Case(hr.Column, {"name": "a"}),
    "ColumnStats": Case(hr.ColumnStats, {}, free=("min", "max")),
    "Comparison": Case(hr.Comparison, {"op": "=", "left": COLUMN, "right": ONE}),
    "ContainerStats": Case(hr.ContainerStats, {}),
    "DataFile": Case(hr.DataFile, {"path": "x", "size_in_bytes": 1}, free=("part", "filesystem")),
    "DatasetTable": Case(
        hr.DatasetTable, {"dataset": pa.dataset.dataset(TABLE)}, free=("format", "partitioning", "filesystem")
    ),
    "FlightTable": Case(hr.FlightTable, {"location": "grpc://x", "descriptor": "t"}),
    "FunctionSink": Case(hr.FunctionSink, {"schema": SCHEMA, "write": list}),
    "HashPartitioning": Case(hr.HashPartitioning, {"columns": ["a"], "n": 2, "function": "f"}),
    "InList": Case(hr.InList, {"operand": COLUMN, "values": (ONE,)}),
    "IsNull": Case(hr.IsNull, {"operand": COLUMN}),
    "KeyPartitioning": Case(hr.KeyPartitioning, {"columns": ["a"], "keys": [1]}),
    "ListingTable": Case(hr.ListingTable, {"paths": __file__, "format": Format()}, free=("statistics",)),
    "Literal": Case(hr.Literal, {"value": 1, "type": pa.int64()}, free=("value",)),
    "MemTable": Case(hr.MemTable, {"data": TABLE}),
    "Not": Case(hr.Not, {"operand": PREDICATE}),
    "Or": Case(hr.Or, {"left": PREDICATE, "right": PREDICATE}),
    "PagedApi": Case(hr.PagedApi, {"url": "http://localhost/x", "schema": SCHEMA}),
    "PruningPredicate": Case(hr.PruningPredicate, {"filters": [PREDICATE], "schema": SCHEMA}),
    "PruningPredicate.keep": Case(hr.PruningPredicate([PREDICATE], SCHEMA).keep, {"stats": [hr.ContainerStats()]}),
    "ScanRequest": Case(hr.ScanRequest, {"schema": SCHEMA, "projection": ("a",)}),
    "SimpleTable": Case(hr.SimpleTable, {"schema": SCHEMA, "function": batches}),
    "SortKey": Case(hr.SortKey, {"column": "a"}),
    "SortedTable": Case(hr.SortedTable, {"inner": hr.MemTable(TABLE), "keys": [hr.SortKey("a")]}),
    "Statistics": Case(hr.Statistics, {}),
    "StreamTable": Case(hr.StreamTable, {"schema": SCHEMA, "factories": [batches]}),
    "StringMatch": Case(hr.StringMatch, {"op": "CONTAINS", "operand": COLUMN, "pattern": ONE}),
    "ReadLimit": Case(hr.ReadLimit, {}, free=("until",)),
    "WriteLayout": Case(hr.WriteLayout, {}),
    "WriteRequest": Case(hr.WriteRequest, {"schema": SCHEMA}),
    "WriteTask": Case(hr.WriteTask, {"partition": 0, "attempt": 7}),
    "UnknownPartitioning": Case(hr.UnknownPartitioning, {"n": 1}),
    "guarantees": Case(hr.guarantees, {"filters": [PREDICATE]}),
    "pushdown_exact_where_possible": Case(hr.pushdown_exact_where_possible, {"filters": [PREDICATE]}),
    "check_provider": Case(headrace.testing.check_provider, {"provider": hr.MemTable(TABLE)}),
    "check_writer": Case(headrace.testing.check_writer, {"provider": hr.MemTable(TABLE)}),
}
WITHOUT = {
    *(
        "BatchSource",
        "CatalogProvider",
        "Expr",
        "Interruptible",
        "Message",
        "Offset",
        "Partitioning",
    ),  # to be inherited from, or types
    *("Bound", "Guarantee", "Join", "JoinSide", "Progress", "ResultStream", "TableSink"),  # made by Headrace
    *("SessionContext", "as_data_source", "from_data_source"),  # with Spark
}
"""Public names that are not called by users, or not here."""


def is_called(name: str) -> bool:
    if name in WITHOUT:
        return False
    found = getattr(hr, name)
    return not inspect.isabstract(found) and not (isinstance(found, type) and issubclass(found, (Exception, Enum)))


def parameters() -> Iterator[tuple[str, str]]:
    for name, case in CASES.items():
        for parameter in inspect.signature(case.call).parameters:
            if parameter not in case.free:
                yield name, parameter


def test_every_public_name_that_is_called_is_tried() -> None:
    assert {name for name in hr.__all__ if is_called(name)} <= set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_arguments_that_fit_are_taken(name: str) -> None:
    CASES[name].call(**CASES[name].fitting)


@pytest.mark.parametrize(("name", "parameter"), parameters())
def test_argument_of_a_wrong_type_is_named(name: str, parameter: str) -> None:
    case = CASES[name]
    with pytest.raises((TypeError, ValueError, hr.HeadraceError)) as found:
        case.call(**{**case.fitting, parameter: Wrong()})
    message = str(found.value)
    assert re.search(rf"\b{parameter}\b|takes|pyarrow\.Schema|Wrong", message), message
    assert not RAW.search(message), message


def sink() -> hr.TableSink:
    return hr.TableSink(Channel("t", 2, partitions=2), Packing(SCHEMA, 2))


SINK_CALLS: dict[str, Callable[[hr.TableSink], Any]] = {
    "write": lambda one: one.write(Wrong()),
    "write-with-timeout": lambda one: one.write(Wrong(), timeout=1),
    "timeout": lambda one: one.write(TABLE, timeout=Wrong()),  # type: ignore[arg-type]
    "try_write": lambda one: one.try_write(Wrong()),
    "awrite": lambda one: asyncio.run(one.awrite(Wrong())),
    "fail": lambda one: one.fail(Wrong()),  # type: ignore[arg-type]
    "partition": lambda one: one.partition(Wrong()),  # type: ignore[arg-type]
    "partition-text": lambda one: one.partition("0"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", SINK_CALLS.values(), ids=SINK_CALLS)
def test_sink_given_something_of_a_wrong_type_says_what_it_takes(call: Callable[[hr.TableSink], Any]) -> None:
    with pytest.raises((TypeError, ValueError, hr.HeadraceError)) as found:
        call(sink())
    assert re.search("expected|takes|must be", str(found.value))
    assert not RAW.search(str(found.value)), found.value


def test_literal_without_a_type_says_what_is_missing() -> None:
    with pytest.raises(TypeError, match=r"Literal: type must be a pyarrow\.DataType: hr\.Literal\(1, pa\.int64\(\)\)"):
        hr.Literal(1)


def test_class_of_a_provider_in_place_of_a_provider_is_told_to_be_made() -> None:
    with pytest.raises(TypeError, match=r"not the class MemTable: pass an instance, MemTable\(\.\.\.\)"):
        headrace.testing.check_provider(hr.MemTable)  # type: ignore[arg-type]


def test_api_filter_with_an_unknown_operator_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"ApiFilter: op must be one of =, <, <=, >, >=, IN, not '=='"):
        hr.ApiFilter("p", "a", "==")
