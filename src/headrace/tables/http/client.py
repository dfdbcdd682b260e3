"""Requests that are tried again, no more at a time and no sooner than a service allows; where ``execute`` runs."""

from __future__ import annotations

import asyncio
import email.utils
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}
_LONGEST_WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Manners:
    """How a service wants to be asked. Pickled with plans; the headers, which may hold a token, are not shown."""

    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = 30.0
    attempts: int = 5
    back_off_s: float = 0.5
    requests_per_second: float | None = None

    def __repr__(self) -> str:
        return f"Manners(attempts={self.attempts}, requests_per_second={self.requests_per_second})"


class PoliteClient:
    """GETs JSON from one service, on one event loop. To be used as an async context manager.

    A failed connection, a timeout, and the statuses that mean "later" are tried again, after a wait that doubles each
    time, or the one that ``Retry-After`` names (at most a minute): for all requests, not just this one.
    """

    def __init__(self, url: str, manners: Manners) -> None:
        """Raises ImportError without httpx."""
        try:
            import httpx
        except ModuleNotFoundError:
            raise ImportError("PagedApi needs httpx: pip install 'headrace[http]', on the executors too") from None
        self._transport_error = httpx.TransportError
        self.status_error = httpx.HTTPStatusError
        self._client = httpx.AsyncClient(
            headers=dict(manners.headers), timeout=manners.timeout_s, follow_redirects=True, trust_env=False
        )
        self._url = url
        self._manners = manners
        self._not_before = 0.0

    async def __aenter__(self) -> PoliteClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def get(self, parameters: Mapping[str, str]) -> Any:
        """The answer's JSON. Raises httpx's error of the last attempt, ValueError for what is not JSON."""
        for attempt in range(1, self._manners.attempts + 1):
            await self._turn()
            wait = self._manners.back_off_s * 2 ** (attempt - 1) * random.uniform(0.5, 1.0)
            try:
                response = await self._client.get(self._url, params=dict(parameters))
            except self._transport_error:
                if attempt == self._manners.attempts:
                    raise
            else:
                if response.status_code not in _TRY_AGAIN or attempt == self._manners.attempts:
                    response.raise_for_status()
                    return response.json()
                wait = _asked_wait(response.headers.get("retry-after"), wait)
            self._not_before = max(self._not_before, time.monotonic() + min(wait, _LONGEST_WAIT_SECONDS))
        raise AssertionError("attempts is at least 1")

    async def _turn(self) -> None:
        """Waits until a request may be made; each takes a place of its own in the queue."""
        while (wait := self._not_before - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        if self._manners.requests_per_second is not None:
            self._not_before = time.monotonic() + 1 / self._manners.requests_per_second


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
