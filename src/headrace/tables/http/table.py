"""PagedApi: a service that answers with pages of JSON, as a table; described in the driver, read where tasks run."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias
from urllib.parse import urlencode, urlsplit

import pyarrow as pa

from headrace.arguments import checked
from headrace.arrow.async_batches import AsyncBatches
from headrace.arrow.schemas import SchemaLike, schema_of
from headrace.display import names_text
from headrace.errors import RegistrationError
from headrace.expr.nodes import Expr
from headrace.optional import check_installed
from headrace.plan import ExecutionPlan, Placement, ScanRequest
from headrace.provider import Pushdown, TableProvider
from headrace.tables.http.client import NEEDED_BY, Manners, PoliteClient
from headrace.tables.http.items import batch_of, inferred_schema, warn_of_absent
from headrace.tables.http.paging import ApiFilter, ByCursor, ByPage, Paging, answers, check_names

_Items: TypeAlias = Sequence[Mapping[str, Any]]
_LOG = logging.getLogger("headrace")
_BEYOND_THE_END = {400, 404, 416, 422}
"""What services answer when asked for a page after the last one, if not with an empty page."""


class PagedApi(TableProvider):
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

    def _plan(self, schema: pa.Schema, parameters: dict[str, str], limit: int | None, at_once: int) -> PagesPlan:
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
        )


class PagesPlan(ExecutionPlan):
    """Page after page in their order; those that come next are on their way already."""

    def __init__(
        self,
        url: str,
        schema: pa.Schema,
        parameters: dict[str, str],
        limit: int | None,
        rows: str | Callable[[Any], Sequence[Mapping[str, Any]]] | None,
        paging: Paging,
        at_once: int,
        manners: Manners,
        placement: Placement,
    ) -> None:
        self.schema = schema
        self.placement = placement
        self._url, self._parameters, self._limit = url, parameters, limit
        self._rows, self._paging, self._at_once, self._manners = rows, paging, at_once, manners

    def describe(self) -> str:
        return f"GET {self._url}{'&' if urlsplit(self._url).query else '?'}{urlencode(self._parameters)}"

    async def execute(self, partition: int) -> AsyncIterator[pa.RecordBatch]:
        if self._limit == 0:
            return
        left = self._limit
        first = True
        async with aclosing(self.pages()) as pages:
            async for items in pages:
                items = items if left is None else items[:left]
                if items:
                    if first:
                        warn_of_absent(items, self.schema, self._url)
                    first = False
                    yield batch_of(items, self.schema)
                left = None if left is None else left - len(items)
                if left == 0:
                    return

    async def pages(self) -> AsyncGenerator[_Items, None]:
        """The rows of page after page."""
        async with PoliteClient(self._url, self._manners) as client:
            found = self._chained(client) if isinstance(self._paging, ByCursor) else self._numbered(client)
            async with aclosing(found):
                async for items in found:
                    yield items

    @property
    def _page_rows(self) -> int:
        """No more than the limit: a page of three rows for LIMIT 3."""
        return self._paging.rows if self._limit is None else min(self._paging.rows, self._limit)

    async def _chained(self, client: PoliteClient) -> AsyncGenerator[_Items, None]:
        assert isinstance(self._paging, ByCursor)
        cursor: str | None = None
        seen: set[bytes] = set()
        while True:
            answer = await client.get({**self._parameters, **self._paging.parameters(cursor, self._page_rows)})
            yield self._items(answer)
            cursor = self._paging.after(answer)
            if cursor is None:
                return
            digest = hashlib.sha256(cursor.encode()).digest()  # a cursor may be long
            if digest in seen:
                raise ValueError(
                    f"{self.describe()}: the cursor {cursor[:100]!r} came a second time, after {len(seen)} pages: the "
                    "service goes in a circle"
                )
            seen.add(digest)

    async def _numbered(self, client: PoliteClient) -> AsyncGenerator[_Items, None]:
        assert not isinstance(self._paging, ByCursor)
        size = self._page_rows
        needed = None if self._limit is None else -(-self._limit // size)
        flying: deque[asyncio.Task[Any]] = deque()
        index = 0
        try:
            while True:
                while len(flying) < self._at_once and (needed is None or index < needed):
                    parameters = {**self._parameters, **self._paging.parameters(index, size)}
                    flying.append(asyncio.create_task(client.get(parameters)))
                    index += 1
                if not flying:
                    return
                items = self._items(await flying.popleft())
                yield items
                if len(items) < size:
                    await self._check_end(client, index - len(flying), len(items), flying)
                    return
        finally:
            for task in flying:
                task.cancel()
            await asyncio.gather(*flying, return_exceptions=True)

    async def _check_end(self, client: PoliteClient, index: int, found: int, flying: deque[asyncio.Task[Any]]) -> None:
        """A short page is the last one, or the service gives fewer rows than it is asked for: then some would be lost.

        Raises ValueError if the page after it, number ``index``, has rows.
        """
        assert not isinstance(self._paging, ByCursor)
        if not found:
            return
        size = self._page_rows
        task = (
            flying[0]
            if flying
            else asyncio.create_task(client.get({**self._parameters, **self._paging.parameters(index, size)}))
        )
        try:
            rest = self._items(await task)
        except client.status_error as error:
            if error.response.status_code not in _BEYOND_THE_END:
                raise
            return
        if rest:
            raise ValueError(
                f"{self.describe()}: page {index + 1} has rows, but page {index} had {found} where {size} were asked "
                "for (counted from 1): the service gives fewer rows a page than that; say so with "
                f"rows={found} in paging="
            )

    def _items(self, answer: Any) -> _Items:
        found = answer if self._rows is None else self._rows(answer) if callable(self._rows) else answer[self._rows]
        if not isinstance(found, (list, tuple)) or not all(isinstance(item, Mapping) for item in found):
            raise TypeError(
                f"{self.describe()}: the rows of an answer should be a list of objects, found {str(found)[:200]!r}; "
                "say with rows= where they are"
            )
        return found


def _check_columns(filters: Sequence[ApiFilter], schema: pa.Schema) -> None:
    for one in filters:
        if one.column not in schema.names:
            raise ValueError(f"{one!r} is about a column that the schema does not have ({', '.join(schema.names)})")
