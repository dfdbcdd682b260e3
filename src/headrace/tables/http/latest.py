"""How far a stream by a cursor column can go: pages fetched to learn it; driver, while a query runs."""

from __future__ import annotations

import heapq
from contextlib import closing
from typing import Any, Literal

from headrace.arrow.async_batches import AsyncBatches
from headrace.tables.http.pages import PagesPlan


def latest_value(plan: PagesPlan, most: int | None, order: Literal["ascending", "descending"] | None) -> Any:
    """The greatest value of the only column of ``plan``, or that of row number ``most`` in its order; None for no row.

    ``order``: in which the service has the values; then no page is fetched that cannot matter. Raises what reading
    pages does.
    """
    values: list[Any] = []
    with closing(AsyncBatches(plan.tested_pages())) as pages:
        for batch in pages:
            values += batch.column(0).drop_null().to_pylist()
            if most is None:
                values = [max(values)] if values else []
                if order == "descending" and values:
                    break
            else:
                enough = order == "ascending" and len(values) >= most
                values = heapq.nsmallest(most, values)
                if enough:
                    break
    return max(values, default=None)
