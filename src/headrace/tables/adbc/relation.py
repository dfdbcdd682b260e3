"""AdbcRelation: rows that a database can be asked for in SQL, those of a table or of two joined ones; driver Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.errors import HeadraceError
from headrace.expr.nodes import Expr
from headrace.expr.semantics import is_comparable
from headrace.plan import Aggregation, ExecutionPlan, ScanRequest, SortKey, Statistics, UnknownPartitioning
from headrace.provider import (
    AggregatePushdown,
    CountingProvider,
    FilterPushdown,
    Join,
    JoiningProvider,
    JoinSide,
    Pushdown,
    TableProvider,
)
from headrace.tables.adbc.access import AdbcAccess, AdbcCountStream, AdbcStream
from headrace.tables.adbc.aggregates import aggregate_items, orders_alike
from headrace.tables.adbc.columns import DatabaseColumn, joined_column, order_sql, quoted, sqlite_marked

_LONGEST_CONDITION = 200_000  # characters of SQL; SQLite takes a million in all
_LONGEST_NAME = 63  # bytes; PostgreSQL takes a longer one for what is left of it


@dataclass(frozen=True)
class Description:
    """What is known of the rows: of a table, what the database said at registration."""

    schema: pa.Schema
    columns: dict[str, DatabaseColumn]
    statistics: Statistics | None = None


class AdbcRelation(JoiningProvider, CountingProvider):
    """Columns, filters, aggregates, orders and limits become SQL, as does a join with another relation of the database.

    ``source`` is what stands after FROM; ``name`` is for people.
    """

    def __init__(self, access: AdbcAccess, name: str, source: str, described: Description | None = None) -> None:
        self._access = access
        self._source = source
        self._described = described
        self.name = name

    def schema(self) -> pa.Schema:
        return self._description().schema

    def supports_filters_pushdown(self, filters: Sequence[Expr]) -> Sequence[FilterPushdown]:
        translated = map(self._sql, filters)
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

    def joined(self, join: Join) -> TableProvider | str:
        """One query for both sides, in one partition, if they are of one database that compares as Spark does."""
        other, access = join.right.table, self._access
        if not isinstance(other, AdbcRelation):
            return f"{type(other).__name__} is no table of a database"
        for one in (self, other):
            if type(one).scan is not AdbcRelation.scan:
                return f"{type(one).__name__} has a scan of its own"
        if access.dialect is None:
            return f"Headrace does not know the SQL of the driver {access.driver!r}"
        if access != other._access:
            return "the tables are of different databases: driver, uri and db_kwargs must be equal"
        columns = {column.name: column for column in (*self._named(join.left), *other._named(join.right))}
        if any(columns[name].loose and columns[name].type != pa.string() for name in join.condition.columns()):
            return f"a column of {join.condition!r} has no declared type, and may hold values of several types"
        too_long = [name for name in columns if len(name.encode()) > _LONGEST_NAME]
        if too_long and access.dialect == "postgres":
            return f"PostgreSQL would cut the name {too_long[0]!r}"
        bytewise = {name for name, column in columns.items() if column.bytewise}
        condition = join.condition.to_sql(access.dialect, schema=join.schema, bytewise=bytewise)
        if condition is None:
            return f"{access.driver} may decide {join.condition!r} otherwise than Spark"
        left, right = f"{self._side(join.left)} AS l", f"{other._side(join.right)} AS r"
        if join.how == "right":  # which older versions of SQLite do not know
            left, right = right, left
        source = f"{left} {'JOIN' if join.how == 'inner' else 'LEFT JOIN'} {right} ON {condition}"
        name = f"{self.name} {'' if join.how == 'inner' else join.how.upper() + ' '}JOIN {other.name}"
        return AdbcRelation(access, name, source, Description(join.schema, columns))

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        return self._plan(request)

    def _plan(self, request: ScanRequest, within: Sequence[Expr] = (), note: str = "") -> AdbcPlan:
        """``within``: what all rows have to fulfil besides; ``note`` says so in EXPLAIN."""
        described = self._description()
        whole = request.aggregation is not None or request.order
        conditions = [[]] if whole else self._conditions(request)
        return AdbcPlan(
            access=self._access,
            schema=self._plan_schema(request),
            queries=tuple(self._query(request, [*condition, *within]) for condition in conditions),
            ordering=() if request.aggregation is not None else request.order or self._ordering(request),
            text=", ".join(filter(None, (self._text(request), note))),
            marked=self._access.driver == "sqlite",
            runtime_filter_columns=tuple(field.name for field in described.schema if is_comparable(field.type))
            if self._access.dialect
            else (),
        )

    def statistics(self) -> Statistics | None:
        return self._description().statistics

    def _description(self) -> Description:
        if self._described is None:
            raise HeadraceError(f"AdbcTable {self.name}: schema() has not been called; register the table first")
        return self._described

    def _conditions(self, request: ScanRequest) -> list[list[Expr]]:
        """What each partition's rows fulfil."""
        return [[]]

    def _ordering(self, request: ScanRequest) -> tuple[SortKey, ...]:
        """How the rows of each partition are sorted where the request does not say."""
        return ()

    def _text(self, request: ScanRequest) -> str:
        return f"{self._access.driver} {self.name}"

    def _named(self, side: JoinSide) -> list[DatabaseColumn]:
        """The side's columns as the join sees them: by their new names."""
        columns = self._description().columns
        return [replace(columns[old], name=new, sql=quoted(new)) for old, new in side.columns]

    def _side(self, side: JoinSide) -> str:
        columns, dialect = self._description().columns, self._access.dialect
        items = [f"{joined_column(columns[old], dialect)} AS {quoted(new)}" for old, new in side.columns]
        return f"(SELECT {', '.join(items) or '1'} FROM {self._source}{self._where(side.filters)})"

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
        tail = self._where((*request.filters, *condition), request.runtime_filters)
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
        source = f" FROM {self._source}{tail}"
        if not columns:
            return f"SELECT count(*) AS c FROM (SELECT 1 AS one{source}) AS q"
        select = f"SELECT {', '.join(f'{column.sql} AS {quoted(column.name)}' for column in columns)}{source}"
        limited = request.limit is not None
        return sqlite_marked(select, columns, limited=limited) if dialect == "sqlite" else select

    def _where(self, filters: Sequence[Expr], runtime_filters: Sequence[Expr] = ()) -> str:
        required = [(expr, self._sql(expr)) for expr in filters]
        for expr, sql in required:
            if sql is None:
                raise HeadraceError(f"{expr!r} was not answered EXACT, but is asked for")
        learnt = [self._sql(expr) for expr in runtime_filters]
        conditions = [sql for _, sql in required] + [sql for sql in learnt if sql and len(sql) <= _LONGEST_CONDITION]
        return f" WHERE {' AND '.join(f'({sql})' for sql in conditions)}" if conditions else ""

    def _sql(self, expr: Expr) -> str | None:
        """None where the database may decide it otherwise than Spark: 10 and '10' are one text, and two in SQLite."""
        described, dialect = self._description(), self._access.dialect
        named = [described.columns[name] for name in expr.columns() if name in described.columns]
        if dialect is None or any(column.loose and column.type == pa.string() for column in named):
            return None
        bytewise = {name for name, column in described.columns.items() if column.bytewise}
        return expr.to_sql(dialect, schema=described.schema, bytewise=bytewise)


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
