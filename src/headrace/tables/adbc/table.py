"""AdbcTable: a table of a database, through ADBC; described in the driver, read where Spark runs its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.errors import HeadraceError, RegistrationError
from headrace.expr.nodes import Expr
from headrace.expr.semantics import is_comparable
from headrace.plan import Aggregation, ExecutionPlan, ScanRequest, SortKey, Statistics, UnknownPartitioning
from headrace.provider import AggregatePushdown, FilterPushdown, Pushdown, TableProvider
from headrace.pruning.predicate import ContainerStats, PruningPredicate
from headrace.tables.adbc.access import AdbcAccess, AdbcCountStream, AdbcStream, driver_name
from headrace.tables.adbc.aggregates import aggregate_items, orders_alike
from headrace.tables.adbc.columns import (
    DatabaseColumn,
    columns_of,
    order_sql,
    qualified,
    quoted,
    sqlite_marked,
    text_literal,
)
from headrace.tables.adbc.ranges import KeyRange, key_ranges, supports_ranges

_LONGEST_CONDITION = 200_000  # characters of SQL; SQLite takes a million in all


class AdbcTable(TableProvider):
    """A table or view of a database. Columns, filters, aggregates, orders and limits become SQL; rows come as Arrow.

    ``driver`` names the package ``adbc_driver_<name>``, with or without that prefix: "postgresql", "sqlite", "duckdb".
    With another driver whole columns are read and Spark does the rest. ``uri`` is what the driver connects with,
    ``db_kwargs`` further options of the driver; neither is shown in EXPLAIN, reprs or errors. ``table`` is a name,
    "schema.name", or a tuple where a name has a dot; names are quoted, so they must match the database's case.

    ``partition_on``: an integer, date or timestamp column (nulls are allowed; best with an index); the table is read
    as ``partitions`` ranges of it, each on a connection of its own. Without it there is one partition. ``order_by``
    (SortKeys or column names): each partition is sorted by the database, and Spark is told so.

    The filters that the database decides as Spark does are exact, all others stay with Spark. So it is with GROUP BY,
    DISTINCT and aggregates, and with ORDER BY ... LIMIT ... OFFSET: where the database means what Spark means, each is
    one query on one connection. The keys that a join's other side has become an IN list. Each partition, and each
    retry, is a query of its own: rows that change meanwhile are seen as they are then.

    Raises ValueError for names and numbers that make no sense, TypeError for an ``order_by`` of other things.
    """

    def __init__(
        self,
        driver: str,
        uri: str,
        table: str | Sequence[str],
        partition_on: str | None = None,
        *,
        partitions: int = 4,
        order_by: Iterable[SortKey | str] = (),
        db_kwargs: Mapping[str, str] | None = None,
    ) -> None:
        self._access = AdbcAccess(driver_name(driver), uri, tuple((db_kwargs or {}).items()))
        self._table = tuple(table.split(".") if isinstance(table, str) else table)
        if not self._table:
            raise ValueError("AdbcTable needs the name of a table")
        qualified(self._table)  # raises for names that cannot be
        self._partition_on = partition_on
        self._partitions = partitions
        self._order_by = _sort_keys(order_by)
        if partitions < 1:
            raise ValueError(f"partitions must be positive, not {partitions}")
        if self._access.dialect is None and (partition_on is not None or self._order_by):
            raise ValueError(f"partition_on and order_by need a driver whose SQL Headrace knows, not {driver!r}")
        self._described: _Description | None = None

    def __repr__(self) -> str:
        return f"<AdbcTable: {'.'.join(self._table)} through {self._access.driver}>"

    def schema(self) -> pa.Schema:
        """Asks the database for the columns, the ends of ``partition_on`` and the number of rows it estimates.

        The only I/O of planning. Raises ImportError without the driver, the driver's own errors (without
        credentials), and RegistrationError for a ``partition_on`` or ``order_by`` that cannot be.
        """
        with self._access.connected() as cursor:
            columns = columns_of(cursor, self._access.dialect, self._table)
            by_name = {column.name: column for column in columns}
            for name in (self._partition_on, *(key.column for key in self._order_by)):
                if name is not None and name not in by_name:
                    raise RegistrationError(f"{self.name} has no column {name!r} ({', '.join(by_name)})")
            ranges = [KeyRange()]
            if self._partition_on is not None:
                ranges = self._ranges(cursor, by_name[self._partition_on])
            statistics = self._estimate(cursor)
        schema = pa.schema([(column.name, column.type) for column in columns])
        self._described = _Description(schema, by_name, ranges, statistics)
        return schema

    @property
    def name(self) -> str:
        return ".".join(self._table)

    def supports_filters_pushdown(self, filters: Sequence[Expr]) -> Sequence[FilterPushdown]:
        schema, dialect = self._description().schema, self._access.dialect
        if dialect is None:
            return [FilterPushdown.UNSUPPORTED] * len(filters)
        translated = (filter_.to_sql(dialect, schema=schema) for filter_ in filters)
        return [FilterPushdown.UNSUPPORTED if sql is None else FilterPushdown.EXACT for sql in translated]

    def supports_aggregate_pushdown(self, aggregation: Aggregation) -> AggregatePushdown:
        """COMPLETE, or nothing: a database that adds up some of it may as well add up all."""
        return AggregatePushdown.UNSUPPORTED if self._items(aggregation) is None else AggregatePushdown.COMPLETE

    def supports_top_n_pushdown(self, order: Sequence[SortKey], limit: int) -> Pushdown:
        columns, dialect = self._description().columns, self._access.dialect
        exact = dialect is not None and orders_alike(order, columns, dialect)
        return Pushdown.EXACT if exact else Pushdown.UNSUPPORTED

    def supports_offset_pushdown(self, offset: int, limit: int | None) -> bool:
        """After an order only: without one, a retried query might leave out other rows."""
        return limit is not None

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        described = self._description()
        whole = request.aggregation is not None or request.order
        conditions = [[]] if whole else self._conditions(request)
        return AdbcPlan(
            access=self._access,
            schema=self._plan_schema(request),
            queries=tuple(self._query(request, condition) for condition in conditions),
            ordering=() if request.aggregation is not None else request.order or self._ordering(request),
            text=self._text(request),
            marked=self._access.driver == "sqlite",
            runtime_filter_columns=tuple(field.name for field in described.schema if is_comparable(field.type))
            if self._access.dialect
            else (),
        )

    def statistics(self) -> Statistics | None:
        return self._description().statistics

    def _description(self) -> _Description:
        if self._described is None:
            raise HeadraceError(f"AdbcTable {self.name}: schema() has not been called; register the table first")
        return self._described

    def _ranges(self, cursor: Any, column: DatabaseColumn) -> list[KeyRange]:
        if not supports_ranges(column.type):
            raise RegistrationError(
                f"partition_on={column.name!r} of {self.name} has type {column.type}; ranges need an integer, date or "
                "timestamp column"
            )
        name = quoted(column.name)
        cursor.execute(f"SELECT min({name}) AS low, max({name}) AS high FROM {qualified(self._table)}")
        found = cursor.fetch_arrow_table()
        low, high = (value[0].cast(column.type).as_py() for value in found.columns)
        return key_ranges(low, high, self._partitions)

    def _estimate(self, cursor: Any) -> Statistics | None:
        """PostgreSQL keeps an estimate; the others would have to count."""
        if self._access.dialect != "postgres":
            return None
        table = text_literal(qualified(self._table))
        cursor.execute(f"SELECT CAST(reltuples AS BIGINT) FROM pg_class WHERE oid = to_regclass({table})")
        row = cursor.fetchone()
        return Statistics(num_rows=row[0]) if row is not None and row[0] > 0 else None

    def _conditions(self, request: ScanRequest) -> list[list[Expr]]:
        """What each partition's rows fulfil, without the ranges that the filters rule out."""
        described, key = self._description(), self._partition_on
        if key is None:
            return [[]]
        containers = [ContainerStats({key: range_.stats()}) for range_ in described.ranges]
        kept = PruningPredicate((*request.filters, *request.runtime_filters), described.schema).keep(containers)
        predicates = [
            range_.predicate(key, described.schema.field(key).type)
            for range_, keep in zip(described.ranges, kept, strict=True)
            if keep
        ]
        return [[] if predicate is None else [predicate] for predicate in predicates]

    def _ordering(self, request: ScanRequest) -> tuple[SortKey, ...]:
        """The leading keys that are read; what is sorted by others would be sorted for nothing."""
        names = [key.column for key in self._order_by]
        read = next((i for i, name in enumerate(names) if name not in request.projection), len(names))
        return self._order_by[:read]

    def _items(self, aggregation: Aggregation) -> tuple[list[DatabaseColumn], list[str]] | None:
        dialect = self._access.dialect
        return None if dialect is None else aggregate_items(aggregation, self._description().columns, dialect)

    def _plan_schema(self, request: ScanRequest) -> pa.Schema:
        if request.aggregation is not None:
            return request.schema
        return pa.schema([self._description().schema.field(name) for name in request.projection])

    def _query(self, request: ScanRequest, condition: list[Expr]) -> str:
        described, dialect = self._description(), self._access.dialect
        groups: list[str] = []
        if request.aggregation is None:
            columns = [described.columns[name] for name in request.projection]
        else:
            found = self._items(request.aggregation)
            if found is None:
                raise HeadraceError(f"{request.aggregation!r} was not answered COMPLETE, but is asked for")
            columns, groups = found
        tail = self._where(request, condition)
        if groups:
            tail += f" GROUP BY {', '.join(groups)}"
        ordering = request.order or (self._ordering(request) if request.aggregation is None else ())
        if ordering and dialect:
            items = [order_sql(key, described.columns[key.column], dialect) for key in ordering]
            tail += f" ORDER BY {', '.join(items)}"
        if request.limit is not None and dialect:
            tail += f" LIMIT {int(request.limit)}"
        if request.offset and dialect:
            tail += f" OFFSET {int(request.offset)}"
        source = f" FROM {qualified(self._table)}{tail}"
        if not columns:
            return f"SELECT count(*) AS c FROM (SELECT 1 AS one{source}) AS q"
        select = f"SELECT {', '.join(f'{column.sql} AS {quoted(column.name)}' for column in columns)}{source}"
        limited = request.limit is not None
        return sqlite_marked(select, columns, limited=limited) if dialect == "sqlite" else select

    def _where(self, request: ScanRequest, condition: list[Expr]) -> str:
        required = [(expr, self._sql(expr)) for expr in (*request.filters, *condition)]
        for expr, sql in required:
            if sql is None:
                raise HeadraceError(f"{expr!r} was not answered EXACT, but is asked for")
        learnt = [self._sql(expr) for expr in request.runtime_filters]
        conditions = [sql for _, sql in required] + [sql for sql in learnt if sql and len(sql) <= _LONGEST_CONDITION]
        return f" WHERE {' AND '.join(f'({sql})' for sql in conditions)}" if conditions else ""

    def _sql(self, expr: Expr) -> str | None:
        described, dialect = self._description(), self._access.dialect
        bytewise = {name for name, column in described.columns.items() if column.bytewise}
        return expr.to_sql(dialect, schema=described.schema, bytewise=bytewise) if dialect else None

    def _text(self, request: ScanRequest) -> str:
        parts = [f"{self._access.driver} {self.name}"]
        if request.aggregation is None and not request.order and self._partition_on is not None:
            kept, total = len(self._conditions(request)), len(self._description().ranges)
            parts.append(f"{kept} of {total} ranges of {self._partition_on}")
        return ", ".join(parts)


@dataclass(frozen=True)
class _Description:
    """What the database said of the table at registration."""

    schema: pa.Schema
    columns: dict[str, DatabaseColumn]
    ranges: list[KeyRange]
    statistics: Statistics | None


class AdbcPlan(ExecutionPlan):
    """One query a partition."""

    def __init__(
        self,
        *,
        access: AdbcAccess,
        schema: pa.Schema,
        queries: tuple[str, ...],
        ordering: tuple[SortKey, ...],
        text: str,
        marked: bool,
        runtime_filter_columns: tuple[str, ...] = (),
    ) -> None:
        self.schema = schema
        self.runtime_filter_columns = runtime_filter_columns
        self.partitioning = UnknownPartitioning(len(queries))
        self.ordering = ordering
        self.queries = queries
        self._access = access
        self._text = text
        self._marked = marked

    def execute(self, partition: int) -> AdbcStream:
        query = self.queries[partition]
        if not self.schema.names:
            return AdbcCountStream(self._access, query)
        return AdbcStream(self._access, query, self.schema, marked=self._marked)

    def describe(self) -> str:
        return self._text


def _sort_keys(order_by: Iterable[SortKey | str]) -> tuple[SortKey, ...]:
    if isinstance(order_by, (SortKey, str)):
        raise TypeError(f"order_by is a list of sort keys: [{order_by!r}]")
    keys = tuple(SortKey(key) if isinstance(key, str) else key for key in order_by)
    for key in keys:
        if not isinstance(key, SortKey):
            raise TypeError(f"order_by takes SortKeys and column names, not {key!r}")
    return keys
