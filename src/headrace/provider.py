"""TableProvider: what a user implements to describe a table; runs in the driver process."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from headrace.arguments import checked
from headrace.arrow.schemas import schema_of
from headrace.errors import RegistrationError
from headrace.expr.nodes import Expr
from headrace.plan import Aggregation, ExecutionPlan, ScanRequest, SortKey, Statistics


class Pushdown(enum.Enum):
    """A provider's answer for one filter, or for a top-n.

    EXACT: no row the scan returns is false or null for the filter, so Spark drops its own. For a top-n: the scan
    yields just those rows, in that order, in one partition, and Spark drops its sort and its limit.
    INEXACT: used to skip data; rows that do not match may come, and Spark filters again. For a top-n: every
    partition yields at least its own first rows in that order, and Spark sorts again.
    UNSUPPORTED: not used.
    """

    EXACT = "exact"
    INEXACT = "inexact"
    UNSUPPORTED = "unsupported"


FilterPushdown = Pushdown
"""Another name of Pushdown."""


class AggregatePushdown(enum.Enum):
    """A provider's answer for an aggregation.

    COMPLETE: each group comes once, in one partition; without groups exactly one row comes, even over no rows. Spark
    does not aggregate again. PARTIAL: each partition yields its own groups, and Spark merges them. UNSUPPORTED: not
    used.
    """

    COMPLETE = "complete"
    PARTIAL = "partial"
    UNSUPPORTED = "unsupported"


class TableProvider(ABC):
    """A table that Spark can query. Lives in the driver process and is never pickled itself."""

    def schema(self) -> pa.Schema:
        """The table's columns. Called exactly once, by ``register_table``, on the caller's thread.

        Whatever it raises reaches the caller unchanged and nothing is registered. It may be an attribute instead of a
        method, of the class or of the object. Either may be a ``pa.schema``, DDL text (``"id BIGINT NOT NULL, name
        STRING"``) or a list of pairs of name and type.
        """
        raise RegistrationError(
            f"{type(self).__name__} has no schema: write a method schema(self), or an attribute schema = 'id BIGINT'"
        )

    def supports_filters_pushdown(self, filters: Sequence[Expr]) -> Sequence[FilterPushdown]:
        """One answer per filter, in order.

        Called once per scan with all conjuncts at once, at planning, possibly on a thread that is not the
        caller's; not called when there are no filters. Default: all UNSUPPORTED.
        """
        return [FilterPushdown.UNSUPPORTED] * len(filters)

    def supports_top_n_pushdown(self, order: Sequence[SortKey], limit: int) -> Pushdown:
        """Whether a scan can yield only the first ``limit`` rows in ``order``.

        Called at most once per scan, at planning, when nothing is left to filter above the scan. Default: UNSUPPORTED.
        """
        return Pushdown.UNSUPPORTED

    def supports_offset_pushdown(self, offset: int, limit: int | None) -> bool:
        """Whether a scan can leave out its first ``offset`` rows, and yield ``limit`` rows after them (None: all).

        Called at most once per scan, at planning: after a top-n that was answered EXACT, or where there is no limit.
        True means one partition. Default: False.
        """
        return False

    def supports_aggregate_pushdown(self, aggregation: Aggregation) -> AggregatePushdown:
        """Whether a scan can yield aggregates instead of rows, over the rows that pass ``request.filters``.

        Called once per scan and aggregation, at planning, when nothing is left to filter above the scan. Spark may ask
        about an average first, and then about its sum and count. Default: UNSUPPORTED.
        """
        return AggregatePushdown.UNSUPPORTED

    @abstractmethod
    def scan(self, request: ScanRequest) -> ExecutionPlan:
        """Arrange one scan. Called once per table reference in a query (a self-join calls it twice), at
        planning (EXPLAIN plans too), possibly on a thread that is not the caller's. It must be cheap and do no I/O.

        Called again, with ``request.runtime_filters``, for a plan that names ``runtime_filter_columns``, if the query
        learns something of them before it opens a partition.
        """

    def statistics(self) -> Statistics | None:
        """Estimates for the whole table, used where the plan gives none. Called at most twice per scan, at planning."""
        return None

    def refresh(self) -> None:
        """Read again what this object keeps of its source, such as the list of its files. The schema stays.

        Called by ``REFRESH TABLE`` and ``spark.catalog.refreshTable``, on any thread; other threads may plan scans.
        What it raises fails the statement. Default: nothing is kept, so there is nothing to read.
        """
        return None


class PerScanProvider(TableProvider):
    """A provider that remembers, from one question about a scan to the next, what it answered.

    All queries share a provider, and several scans may be negotiated at the same time. So a provider stores nothing
    about one of them: each scan gets an object of its own, which is dropped with the scan, planned or not.
    """

    @abstractmethod
    def for_scan(self) -> TableProvider:
        """The object that all questions about one scan are put to, in place of this one. ``schema`` is not asked of it.

        Called once per scan, before the first question, possibly on a thread that is not the caller's. Must be cheap.
        """


class NestedLiterals(TableProvider):
    """A provider whose filters may compare a whole array or struct with a constant. Others never see these.

    Few could do anything with them: none of pyarrow's functions, databases' dialects and statistics here does.
    """


class CountingProvider(TableProvider):
    """A table of Headrace's own that counts rows without reading a column, and yields batches without columns then.

    It is asked for no column where a query needs none. All others are asked for the cheapest one.
    """

    def counts_rows(self) -> bool:
        """False for a subclass that scans itself: it may be written for requests that have a column."""
        scans = (getattr(type(self), name, None) for name in ("scan", "scan_between"))
        return all(scan is None or scan.__module__.startswith("headrace.") for scan in scans)


@dataclass(frozen=True)
class JoinSide:
    """One side of a join: the rows of ``table`` that pass ``filters``, all of which it answered EXACT.

    ``columns``: pairs of a column that is needed and its name among the joined rows.
    """

    table: TableProvider
    filters: tuple[Expr, ...]
    columns: tuple[tuple[str, str], ...]


JoinType = Literal["inner", "left", "right"]


@dataclass(frozen=True)
class Join:
    """A join of two tables.

    ``how``: "inner", or "left" or "right" for the outer joins that keep each row of that side. ``schema`` is that of
    the joined rows: the left columns, then the right ones, all nullable. ``condition`` has the names of ``schema``.
    """

    how: JoinType
    left: JoinSide
    right: JoinSide
    condition: Expr
    schema: pa.Schema


class JoiningProvider(TableProvider):
    """A provider that can join its rows with those of another table, as a database can join two of its own tables.

    Spark offers joins from 4.1 on, and only where ``spark.sql.optimizer.datasourceV2JoinPushdown`` is on.
    """

    @abstractmethod
    def joined(self, join: Join) -> TableProvider | str:
        """A table of the joined rows; or, in a few words for EXPLAIN, why there is none, and Spark joins.

        ``join.left.table`` is this provider, ``join.right.table`` may be any. The rest of the scan is negotiated with
        the table that is returned: aggregates, top-n, limit, ``scan``. It may be a JoiningProvider itself, for a third
        table. Its schema is ``join.schema`` and is not asked for.

        Called once for each join that Spark offers, at planning, after the filters and before anything else, possibly
        on a thread that is not the caller's. It must be cheap and do no I/O. Whatever it raises fails the query.
        """


def declared_schema(provider: TableProvider) -> Any:
    """The schema of a provider, a method's answer or an attribute, DDL text and pairs as a ``pa.Schema``.

    What is none of these is returned as it is. Raises what the method does, RegistrationError for what cannot be read.
    """
    schema: Any = provider.schema
    declared = schema() if callable(schema) else schema
    if not isinstance(declared, (str, list, tuple)):
        return declared
    try:
        return schema_of(declared, f"{type(provider).__name__}.schema")
    except (TypeError, ValueError) as error:
        raise RegistrationError(str(error)) from None


def for_scan(provider: TableProvider) -> TableProvider:
    """What to negotiate one scan with: the provider itself unless it keeps something for each scan."""
    return provider.for_scan() if isinstance(provider, PerScanProvider) else provider


@checked()
def pushdown_exact_where_possible(filters: Sequence[Expr], *, schema: pa.Schema | None = None) -> list[FilterPushdown]:
    """EXACT for each filter that ``to_pyarrow(schema=schema)`` translates, else UNSUPPORTED, in order.

    The scan must then apply ``to_pyarrow(schema=schema)`` of every filter in ``request.filters``, with the
    same ``schema``.
    """
    translated = (filter_.to_pyarrow(schema=schema) for filter_ in filters)
    return [FilterPushdown.UNSUPPORTED if found is None else FilterPushdown.EXACT for found in translated]
