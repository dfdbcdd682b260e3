"""Headrace brings any data a Python program can produce to Spark SQL. Importing it does not import pyspark."""

import typing

from headrace.arrow.sources import BatchSource, Interruptible
from headrace.catalog import CatalogProvider
from headrace.errors import (
    BrokenPromiseError,
    ClosedError,
    DeregisteredError,
    EvaluationError,
    HeadraceError,
    LogError,
    MissingPackageError,
    OffsetLostError,
    PlanError,
    ProducerLostError,
    ProviderError,
    RegistrationError,
    ResultClosedError,
    ScanEndedError,
    SchemaMismatchError,
    SinkClosedError,
    StreamConsumedError,
    StreamError,
    TableExistsError,
    TransportError,
    UnsupportedTypeError,
    WriteError,
    WriteTimeout,
)
from headrace.expr.nodes import (
    And,
    Call,
    Cast,
    Column,
    Comparison,
    Expr,
    InList,
    IsNull,
    Literal,
    Not,
    Or,
    StringMatch,
)
from headrace.plan import (
    AggregateFunction,
    Aggregation,
    ExecutionPlan,
    HashPartitioning,
    KeyPartitioning,
    Partitioning,
    Placement,
    ScanRequest,
    SortKey,
    Statistics,
    UnknownPartitioning,
)
from headrace.provider import (
    AggregatePushdown,
    FilterPushdown,
    Join,
    JoiningProvider,
    JoinSide,
    Pushdown,
    TableProvider,
    pushdown_exact_where_possible,
)
from headrace.pruning.container_stats import ColumnStats, ContainerStats
from headrace.pruning.guarantee import Bound, Guarantee
from headrace.pruning.predicate import PruningPredicate, guarantees
from headrace.push.sink import TableSink
from headrace.stream import Offset, ReadLimit, StreamProvider
from headrace.tables.adbc.catalog import AdbcCatalog
from headrace.tables.adbc.table import AdbcTable
from headrace.tables.dataset.table import DatasetTable
from headrace.tables.flight.table import FlightTable
from headrace.tables.function_sink import FunctionSink
from headrace.tables.http.paging import ApiFilter, ByCursor, ByOffset, ByPage
from headrace.tables.http.table import PagedApi
from headrace.tables.listing.format import DataFile, FileFormat
from headrace.tables.listing.table import ListingTable
from headrace.tables.mem import MemTable
from headrace.tables.simple import SimpleTable
from headrace.tables.sorted import SortedTable
from headrace.tables.streams import StreamTable
from headrace.write import Message, WritableProvider, WriteLayout, WriteMode, WritePlan, WriteRequest, WriteTask

if typing.TYPE_CHECKING:
    from headrace.spark.data_source.as_data_source import as_data_source
    from headrace.spark.data_source.from_data_source import from_data_source
    from headrace.spark.progress import Progress
    from headrace.spark.results import ResultStream
    from headrace.spark.session import SessionContext

    __version__: str

__all__ = [
    "AdbcCatalog",
    "AdbcTable",
    "AggregateFunction",
    "AggregatePushdown",
    "Aggregation",
    "And",
    "ApiFilter",
    "BatchSource",
    "Bound",
    "BrokenPromiseError",
    "ByCursor",
    "ByOffset",
    "ByPage",
    "Call",
    "Cast",
    "CatalogProvider",
    "ClosedError",
    "Column",
    "ColumnStats",
    "Comparison",
    "ContainerStats",
    "DataFile",
    "DatasetTable",
    "DeregisteredError",
    "EvaluationError",
    "ExecutionPlan",
    "Expr",
    "FileFormat",
    "FilterPushdown",
    "FlightTable",
    "FunctionSink",
    "Guarantee",
    "HashPartitioning",
    "HeadraceError",
    "InList",
    "Interruptible",
    "IsNull",
    "Join",
    "JoinSide",
    "JoiningProvider",
    "KeyPartitioning",
    "ListingTable",
    "Literal",
    "LogError",
    "MemTable",
    "Message",
    "MissingPackageError",
    "Not",
    "Offset",
    "OffsetLostError",
    "Or",
    "PagedApi",
    "Partitioning",
    "Placement",
    "PlanError",
    "ProducerLostError",
    "Progress",
    "ProviderError",
    "PruningPredicate",
    "Pushdown",
    "ReadLimit",
    "RegistrationError",
    "ResultClosedError",
    "ResultStream",
    "ScanEndedError",
    "ScanRequest",
    "SchemaMismatchError",
    "SessionContext",
    "SimpleTable",
    "SinkClosedError",
    "SortKey",
    "SortedTable",
    "Statistics",
    "StreamConsumedError",
    "StreamError",
    "StreamProvider",
    "StreamTable",
    "StringMatch",
    "TableExistsError",
    "TableProvider",
    "TableSink",
    "TransportError",
    "UnknownPartitioning",
    "UnsupportedTypeError",
    "WritableProvider",
    "WriteError",
    "WriteLayout",
    "WriteMode",
    "WritePlan",
    "WriteRequest",
    "WriteTask",
    "WriteTimeout",
    "as_data_source",
    "from_data_source",
    "guarantees",
    "pushdown_exact_where_possible",
]

_NEEDS_PYSPARK = {
    "Progress": "headrace.spark.progress",
    "ResultStream": "headrace.spark.results",
    "SessionContext": "headrace.spark.session",
    "as_data_source": "headrace.spark.data_source.as_data_source",
    "from_data_source": "headrace.spark.data_source.from_data_source",
}


def __getattr__(name: str) -> typing.Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("headrace")
    if name not in _NEEDS_PYSPARK:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_NEEDS_PYSPARK[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_NEEDS_PYSPARK})
