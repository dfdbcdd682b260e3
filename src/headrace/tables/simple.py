"""SimpleTable: a schema and one function that returns batches; the function runs where its placement says."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from headrace.arguments import checked
from headrace.arrow.batches import indented, same_columns
from headrace.arrow.conversion import batch_converter, to_wire
from headrace.arrow.mismatch import nearest_difference
from headrace.arrow.schemas import SchemaLike, schema_of
from headrace.arrow.sources import BatchSource, batch_iterator, batches_within, close_sources
from headrace.display import names_text
from headrace.errors import SchemaMismatchError
from headrace.plan import ExecutionPlan, Placement, ScanRequest
from headrace.provider import TableProvider


class SimpleTable(TableProvider):
    """A table of one partition that a function produces, anew for every scan.

    ``schema``: a ``pa.schema``, DDL text (``"id BIGINT NOT NULL, name STRING"``) or a list of pairs of name and type.

    ``function()`` or ``function(request)``: it is given the ScanRequest if it has a parameter without a default,
    or if its first one is named ``request``. It returns what ``ExecutionPlan.execute`` may return (best a
    generator of RecordBatches, async or not) with the table's columns; one that takes the request may return just the
    requested columns, which the request has in the table's order. It is called when Spark reads, not when it plans, and
    may be called again for the same scan.

    ``placement``: EXECUTORS pickles the function and runs it in Spark's Python workers; DRIVER runs it in this
    process, where it may use open connections and other live objects.

    Raises TypeError for something that is not a schema, or not such a function, ValueError for text that is no DDL.
    """

    @checked("placement")
    def __init__(
        self,
        schema: SchemaLike,
        function: Callable[..., BatchSource],
        *,
        placement: Placement = Placement.EXECUTORS,
    ) -> None:
        self._schema = schema_of(schema, "SimpleTable's schema")
        self._function = function
        self._takes_request = _takes_request(function)
        self._placement = placement

    def __repr__(self) -> str:
        return f"<SimpleTable: {name_of(self._function)} gives {names_text(self._schema.names)}>"

    def schema(self) -> pa.Schema:
        return self._schema

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        kind = RequestPlan if self._takes_request else FunctionPlan
        return kind(self._schema, self._function, request, self._placement)


class FunctionPlan(ExecutionPlan):
    """Calls ``function()``, whose batches have the table's schema."""

    def __init__(
        self, schema: pa.Schema, function: Callable[..., BatchSource], request: ScanRequest, placement: Placement
    ) -> None:
        self.schema = schema
        self.placement = placement
        self._function = function
        self._request = request

    def execute(self, partition: int) -> BatchSource:
        return self._function()

    def describe(self) -> str:
        return f"{name_of(self._function)}()"


class RequestPlan(FunctionPlan):
    """Calls ``function(request)``, whose batches have the request's schema or the table's.

    The function's request has its columns in the table's order: tuples of all columns are then the same in both.
    """

    def __init__(
        self, schema: pa.Schema, function: Callable[..., BatchSource], request: ScanRequest, placement: Placement
    ) -> None:
        needed = pa.schema([request.schema.field(name) for name in schema.names if name in request.projection])
        ordered = dataclasses.replace(request, schema=needed, projection=tuple(needed.names))
        super().__init__(request.schema, function, ordered, placement)
        self._table_schema = schema

    def execute(self, partition: int) -> Iterator[Any]:
        source = self._function(self._request)
        batches: Iterator[Any] | None = None
        try:
            batches = batch_iterator(source, self.describe())
            for item in batches:
                for batch in batches_within(item, self._request.schema, self._table_schema):
                    yield self._requested(batch)
        finally:
            close_sources(batches, source)

    def describe(self) -> str:
        return f"{name_of(self._function)}(request)"

    def _requested(self, batch: Any) -> Any:
        """Just the requested columns; their types are cast by whoever checks them."""
        if not isinstance(batch, pa.RecordBatch) or same_columns(batch.schema, self.schema):
            return batch  # where it is not a batch, Headrace's own check says so
        names = self.schema.names
        if sorted(batch.schema.names) not in (sorted(self._table_schema.names), sorted(names)):
            raise SchemaMismatchError(
                f"{self.describe()} yielded a batch that has neither the request's schema nor the table's\n"
                f"requested:\n{indented(self.schema)}\nthe table's:\n{indented(self._table_schema)}\n"
                f"found:\n{indented(batch.schema)}\n"
                f"{nearest_difference((self.schema, self._table_schema), batch.schema)}"
            )
        batch = batch.select(names)
        if same_columns(batch.schema, self.schema):
            return batch
        if batch_converter(batch.schema, self.schema) is None:  # a struct may have more fields than are requested
            unpruned = pa.schema([self._table_schema.field(name) for name in names])
            convert = batch_converter(batch.schema, unpruned)
            return batch if convert is None else _pruned(convert(batch), self.schema)
        return batch


def name_of(function: Callable[..., Any]) -> str:
    """What EXPLAIN calls a function: its own name, or its class's."""
    return getattr(function, "__name__", type(function).__name__)


def _takes_request(function: Any) -> bool:
    if not callable(function):
        raise TypeError(
            f"SimpleTable takes a function that returns batches, not {type(function).__name__}; every scan calls "
            "it anew"
        )
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # some builtins have no signature
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [p for p in parameters if p.default is inspect.Parameter.empty and p.kind not in variadic]
    if len(required) > 1 or any(p.kind not in positional for p in required):
        raise TypeError(
            f"SimpleTable calls function() or function(request), but {name_of(function)} needs "
            f"{', '.join(p.name for p in required)}; bind the others with functools.partial"
        )
    return bool(required) or bool(parameters and parameters[0].name == "request" and parameters[0].kind in positional)


def _pruned(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [to_wire(batch.column(field.name), field.type, field.name) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
