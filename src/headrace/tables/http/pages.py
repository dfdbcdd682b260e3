"""PagesPlan: page after page of a service's rows, some on their way already; pickled, read where tasks run."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias
from urllib.parse import urlencode, urlsplit

import pyarrow as pa

from headrace.plan import ExecutionPlan, Placement
from headrace.tables.http.client import Manners, PoliteClient
from headrace.tables.http.items import RowTest, batch_of, warn_of_absent
from headrace.tables.http.paging import ByCursor, Paging

_Items: TypeAlias = Sequence[Mapping[str, Any]]
_BEYOND_THE_END = {400, 404, 416, 422}
"""What services answer when asked for a page after the last one, if not with an empty page."""


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
        test: RowTest,
    ) -> None:
        self.schema = schema
        self.placement = placement
        self._test = test
        self._url, self._parameters, self._limit = url, parameters, limit
        self._rows, self._paging, self._at_once, self._manners = rows, paging, at_once, manners

    def describe(self) -> str:
        where = f"GET {self._url}{'&' if urlsplit(self._url).query else '?'}{urlencode(self._parameters)}"
        return f"{where}, rows with {self._test}" if self._test.conditions else where

    async def execute(self, partition: int) -> AsyncIterator[pa.RecordBatch]:
        if self._limit == 0:
            return
        left = self._limit
        first = True
        async with aclosing(self.pages()) as pages:
            async for page in pages:
                items = self._test.passing(page)
                items = items if left is None else items[:left]
                if items:
                    if first:
                        warn_of_absent(items, self.schema, self._url)
                    first = False
                    yield batch_of(items, self.schema)
                left = None if left is None else left - len(items)
                if left == 0 or self._test.is_past(page):
                    return

    async def tested_pages(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """What ``execute`` yields, and an empty batch for a page without such rows."""
        async with aclosing(self.pages()) as pages:
            async for page in pages:
                yield batch_of(self._test.passing(page), self.schema)

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
