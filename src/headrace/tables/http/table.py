"""PagedApi: a service that answers with pages of JSON, as a table; described in the driver, read where tasks run."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

import pyarrow as pa

from headrace.arguments import checked
from headrace.arrow.async_batches import AsyncBatches
from headrace.arrow.schemas import SchemaLike, schema_of
from headrace.arrow.types import wire_schema
from headrace.display import names_text
from headrace.errors import PlanError, RegistrationError
from headrace.expr.nodes import Expr
from headrace.optional import check_installed
from headrace.plan import ExecutionPlan, Placement, ScanRequest
from headrace.provider import Pushdown
from headrace.stream import Offset, ReadLimit, StreamProvider
from headrace.tables.cursor import Cursor, CursorValue, most_rows
from headrace.tables.http.client import NEEDED_BY, Manners
from headrace.tables.http.items import RowTest, inferred_schema
from headrace.tables.http.latest import latest_value
from headrace.tables.http.pages import PagesPlan
from headrace.tables.http.paging import ApiFilter, ByPage, Paging, answers, check_names, range_parameters

_LOG = logging.getLogger("headrace")


class PagedApi(StreamProvider):
    """The pages of ``GET url`` as a table of one partition, several fetched at a time.

    ``schema``: a ``pa.schema``, DDL text (``"id BIGINT, name STRING"``) or a list of pairs of name and type. Without
    one the first page is fetched when the table is registered, and its rows tell it; ``repr`` and the logger
    ``headrace`` say what was found. A column that no row of a query's first page has is null, and the logger warns of
    it, once.

    ``rows``: where the rows are in an answer, as a list of objects: the answer itself (None), a key of it, or a
    function of it. Columns are taken by name; dates, timestamps and decimals may be text. ``paging``: a ByPage,
    ByOffset or ByCursor. ``filters``: what the service filters by, see ApiFilter. ``parameters`` and a query in
    ``url``: sent with every request. No two of these four may give the same query parameter.

    ``headers``: a token belongs there, as they are shown nowhere; a redirect to another scheme, host or port goes
    without them. ``timeout_s`` for each request, up to the last byte of its answer. ``max_page_bytes``: of an answer,
    decompressed; one that is larger is an error. ``at_once`` pages in flight, ``requests_per_second`` at most.

    Failed connections, timeouts and the statuses 408, 425, 429, 500, 502, 503 and 504 are tried again, ``attempts``
    times in all: after ``back_off_s`` seconds, doubled each time, or after what the answer's ``Retry-After`` says. Then
    the query fails with httpx's error.

    ``cursor``: a column whose values grow as rows come or change, such as ``updated_at``; ``filters`` needs a parameter
    for ``>=`` or ``>`` of it. With it ``ctx.stream(name)`` reads the rows that are new by that column, after
    ``start_after`` (None: from the first). To learn how far they go, all new rows are fetched, and once more to be
    read. ``sorted_by_cursor`` saves that where the service sorts by the column: if "descending", the first page tells
    how far it goes; if "ascending", no page after the last row of a micro-batch is needed (``maxRowsPerTrigger``).

    Such rows come at least once, as the service is asked again when a query starts from its checkpoint: a row that
    changes comes again, and what it was before may never come. Rows whose cursor is null never come. Nor does a row
    that shows after others of the same or a greater value, unless ``lookback`` reaches it: each micro-batch also has
    the rows so far before its start (a ``timedelta``, or an ``int`` for integers), most of them again.

    Needs httpx (``pip install 'headrace[http]'``), on the executors too: MissingPackageError says so. Raises TypeError
    and ValueError for arguments that make no sense.
    """

    @checked(without="schema")  # which schema_of checks
    def __init__(
        self,
        url: str,
        schema: SchemaLike | None = None,
        *,
        rows: str | Callable[[Any], Sequence[Mapping[str, Any]]] | None = None,
        paging: Paging | None = None,
        filters: Sequence[ApiFilter] = (),
        parameters: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        at_once: int = 4,
        requests_per_second: float | None = None,
        attempts: int = 5,
        back_off_s: float = 0.5,
        timeout_s: float = 30.0,
        max_page_bytes: int = Manners.max_page_bytes,
        placement: Placement = Placement.EXECUTORS,
        cursor: str | None = None,
        lookback: datetime.timedelta | int | None = None,
        start_after: CursorValue | None = None,
        sorted_by_cursor: Literal["ascending", "descending"] | None = None,
    ) -> None:
        check_installed("httpx", NEEDED_BY)
        own_schema = None if schema is None else schema_of(schema, "PagedApi's schema")
        if own_schema is not None:
            _check_columns(filters, own_schema)
        paging = paging if paging is not None else ByPage()
        if urlsplit(url).scheme not in ("http", "https") or "@" in urlsplit(url).netloc:
            raise ValueError("PagedApi's url is http(s)://host/path, and a user's name and password belong in headers=")
        check_names(url, parameters or {}, paging, filters)
        positive = (at_once, attempts, paging.rows, max_page_bytes, timeout_s)
        if min(positive) <= 0 or (requests_per_second is not None and requests_per_second <= 0):
            raise ValueError(
                "at_once, attempts, rows of a page, requests_per_second, max_page_bytes and timeout_s must be positive"
            )
        self._url, self._schema, self._rows, self._paging = url, own_schema, rows, paging
        self._filters, self._parameters, self._at_once = tuple(filters), dict(parameters or {}), at_once
        sent = tuple((headers or {}).items())
        self._manners = Manners(sent, timeout_s, attempts, back_off_s, requests_per_second, max_page_bytes)
        self._placement = placement
        if cursor is None and any(one is not None for one in (lookback, start_after, sorted_by_cursor)):
            raise ValueError(
                "lookback, start_after and sorted_by_cursor are for a stream: name its column with cursor="
            )
        if cursor is not None and not any(one.column == cursor and one.op in (">", ">=") for one in filters):
            raise ValueError(
                f"cursor={cursor!r} needs a query parameter for the rows after a value: "
                f"filters=[hr.ApiFilter('since', {cursor!r}, '>=')], by the name that the service has for it"
            )
        self._cursor_arguments = cursor, lookback, start_after
        self._sorted_by_cursor = sorted_by_cursor
        self._cursor: Cursor | None = None

    def __repr__(self) -> str:
        return f"<PagedApi: {self._url}{'' if self._schema is None else f' of {names_text(self._schema.names)}'}>"

    def schema(self) -> pa.Schema:
        """Where none was given, that of the first page, which is fetched here, once."""
        if self._schema is None:
            found = self._of_first_page()
            _check_columns(self._filters, found)
            from headrace.arrow.ddl import ddl_of  # its patterns take a while to compile

            _LOG.info("%s: the schema of its first page is %r", self._url, ddl_of(found))
            self._schema = found
        name, lookback, start_after = self._cursor_arguments
        if name is not None:
            self._cursor = Cursor.of(f"PagedApi {self._url}", self._schema, name, lookback, start_after)
        return self._schema

    def _of_first_page(self) -> pa.Schema:
        plan = self._plan(pa.schema([]), self._parameters, None, at_once=1)
        pages = AsyncBatches(plan.pages())
        try:
            items = next(pages, ())
        finally:
            pages.close()
        if not items:
            raise RegistrationError(
                f"{plan.describe()}: the first page has no rows, and so it tells no schema; pass one: "
                "PagedApi(url, 'id BIGINT, name STRING')"
            )
        return inferred_schema(items, plan.describe())

    def supports_filters_pushdown(self, filters: Sequence[Expr]) -> Sequence[Pushdown]:
        return [answer for answer, _, _ in answers(self._filters, filters)]

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        filtered = {name: value for _, name, value in answers(self._filters, request.filters) if name}
        return self._plan(request.schema, {**filtered, **self._parameters}, request.limit, self._at_once)

    def _why_no_stream(self) -> str | None:
        if self._cursor_arguments[0] is not None:
            return None
        return f"PagedApi {self._url} has no cursor: say by which column it grows, PagedApi(..., cursor='updated_at')"

    def _stream_cursor(self) -> Cursor:
        if self._cursor is None:
            raise PlanError(self._why_no_stream() or f"PagedApi {self._url}: schema() has not been called")
        return self._cursor

    def initial_offset(self) -> Offset:
        return self._stream_cursor().initial()

    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Asks the service. Rows of one value stay together; bytes are estimated from the types of the columns."""
        cursor, schema = self._stream_cursor(), self.schema()
        new = cursor.after(cursor.value(start), cursor.until(limit.until))
        most = most_rows(limit, schema)
        column = pa.schema([schema.field(cursor.column)])
        parameters = {**range_parameters(self._filters, new), **self._parameters}
        at_once = 1 if self._sorted_by_cursor == "descending" and most is None else self._at_once
        plan = self._plan(column, parameters, None, at_once, new)
        found = latest_value(plan, most, self._sorted_by_cursor)
        return start if found is None else cursor.offset(found)

    def scan_between(self, start: Offset, end: Offset, request: ScanRequest) -> ExecutionPlan:
        cursor = self._stream_cursor()
        within = cursor.between(cursor.value(start), cursor.value(end))
        last = within[-1] if self._sorted_by_cursor == "ascending" else None
        ranged = range_parameters(self._filters, within)
        filtered: dict[str, str] = {}
        for expr, (_, name, value) in zip(request.filters, answers(self._filters, request.filters), strict=True):
            if name in ranged:  # the parameter can say one thing
                within.append(expr)
            else:
                filtered[name] = value
        parameters = {**filtered, **ranged, **self._parameters}
        return self._plan(request.schema, parameters, None, self._at_once, within, last)

    def _plan(
        self,
        schema: pa.Schema,
        parameters: dict[str, str],
        limit: int | None,
        at_once: int,
        within: Sequence[Expr] = (),
        last: Expr | None = None,
    ) -> PagesPlan:
        """``within``: what rows have to fulfil besides, whatever the service sends; ``last`` as in RowTest."""
        columns = {name for expr in within for name in expr.columns()}
        tested = wire_schema(pa.schema([field for field in self._schema or () if field.name in columns]))
        return PagesPlan(
            self._url,
            schema,
            parameters,
            limit,
            self._rows,
            self._paging,
            at_once,
            self._manners,
            self._placement,
            RowTest(tuple(within), tested, last),
        )


def _check_columns(filters: Sequence[ApiFilter], schema: pa.Schema) -> None:
    for one in filters:
        if one.column not in schema.names:
            raise ValueError(f"{one!r} is about a column that the schema does not have ({', '.join(schema.names)})")
