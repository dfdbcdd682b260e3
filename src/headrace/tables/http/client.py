"""Requests that are tried again, no more at a time and no sooner than a service allows; where ``execute`` runs."""

from __future__ import annotations

import asyncio
import email.utils
import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import urlencode

from headrace.optional import required
from headrace.tables.http.body import ACCEPTED_ENCODINGS, bounded_body

NEEDED_BY = "PagedApi, here and on the executors,"
_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}
_LONGEST_WAIT_SECONDS = 60.0
_MOST_REDIRECTS = 10


@dataclass(frozen=True)
class Manners:
    """How a service wants to be asked. Pickled with plans; the headers, which may hold a token, are not shown."""

    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = 30.0
    attempts: int = 5
    back_off_s: float = 0.5
    requests_per_second: float | None = None
    max_page_bytes: int = 64 << 20

    def __repr__(self) -> str:
        return f"Manners(attempts={self.attempts}, requests_per_second={self.requests_per_second})"


class PoliteClient:
    """GETs JSON from one service, on one event loop. To be used as an async context manager.

    A failed connection, a timeout, and the statuses that mean "later" are tried again, after a wait that doubles each
    time, or the one that ``Retry-After`` names (at most a minute): for all requests, not just this one.

    Redirects are followed. One that leaves the service's own scheme, host and port goes without the caller's headers
    and without cookies, whatever comes after it; one from https to http is refused.
    """

    def __init__(self, url: str, manners: Manners) -> None:
        """Raises MissingPackageError without httpx."""
        httpx = required("httpx", NEEDED_BY)
        self._httpx = httpx
        self.status_error = httpx.HTTPStatusError
        headers = {"Accept-Encoding": ACCEPTED_ENCODINGS}
        self._client = httpx.AsyncClient(headers={**headers, **dict(manners.headers)}, timeout=None, trust_env=False)
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        self._stranger = httpx.AsyncClient(headers=headers, cookies=no_cookies, timeout=None, trust_env=False)
        self._url = httpx.URL(url)
        self._shown = str(self._url.copy_with(query=None))  # a query may hold a token
        self._manners = manners
        self._not_before = 0.0

    async def __aenter__(self) -> PoliteClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()
        await self._stranger.aclose()

    async def get(self, parameters: Mapping[str, str]) -> Any:
        """The answer's JSON. Raises httpx's error of the last attempt, ValueError for what is not JSON or too large."""
        own = self._url.query.decode("ascii")
        url = self._url.copy_with(query=f"{own}{'&' if own else ''}{urlencode(parameters)}".encode("ascii"))
        for attempt in range(1, self._manners.attempts + 1):
            await self._turn()
            wait = self._manners.back_off_s * 2 ** (attempt - 1) * random.uniform(0.5, 1.0)
            try:
                response, body = await self._answer(url)
            except self._httpx.TransportError as error:
                if attempt == self._manners.attempts:
                    raise type(error)(
                        f"{self._shown}: {error or type(error).__name__} ({_times(attempt)} tried)"
                    ) from None
            else:
                if response.status_code not in _TRY_AGAIN or attempt == self._manners.attempts:
                    response.raise_for_status()
                    return json.loads(body)
                wait = _asked_wait(response.headers.get("retry-after"), wait)
            self._not_before = max(self._not_before, time.monotonic() + min(wait, _LONGEST_WAIT_SECONDS))
        raise AssertionError("attempts is at least 1")

    async def _answer(self, url: Any) -> tuple[Any, bytes]:
        """The last answer of a chain of redirects, and its body if the status is a good one."""
        try:
            async with asyncio.timeout(self._manners.timeout_s):
                client = self._client
                for _ in range(_MOST_REDIRECTS):
                    async with client.stream("GET", url) as response:
                        if not response.has_redirect_location:
                            return response, await self._body(response) if response.is_success else b""
                        target = url.join(response.headers["location"])
                    self._check_redirect(url, target)
                    client = client if _origin(target) == _origin(self._url) else self._stranger
                    url = target
        except TimeoutError:
            seconds = self._manners.timeout_s
            raise self._httpx.ReadTimeout(f"no whole answer within {seconds:g} s (timeout_s)") from None
        raise self._httpx.TooManyRedirects(f"the service redirects more than {_MOST_REDIRECTS} times")

    async def _body(self, response: Any) -> bytes:
        encoding = response.headers.get("content-encoding", "")
        return await bounded_body(response.aiter_raw(), encoding, self._manners.max_page_bytes)

    def _check_redirect(self, source: Any, target: Any) -> None:
        if target.scheme not in ("http", "https") or (source.scheme == "https" and target.scheme == "http"):
            raise ValueError(
                f"{self._url.host} redirects from {source.scheme} to {target.scheme}, which is not followed"
            )

    async def _turn(self) -> None:
        """Waits until a request may be made; each takes a place of its own in the queue."""
        while (wait := self._not_before - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        if self._manners.requests_per_second is not None:
            self._not_before = time.monotonic() + 1 / self._manners.requests_per_second


def _times(attempts: int) -> str:
    return "once" if attempts == 1 else f"{attempts} times"


def _origin(url: Any) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


def _asked_wait(header: str | None, otherwise: float) -> float:
    """``Retry-After`` in seconds: a number, or a date."""
    if header is None:
        return otherwise
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return otherwise
