"""Ready-made answers to ``supports_filters_pushdown``; runs in the driver, at planning."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.expressions import Expr
from headrace.provider import FilterPushdown


def pushdown_exact_where_possible(filters: Sequence[Expr], *, schema: pa.Schema | None = None) -> list[FilterPushdown]:
    """EXACT for each filter that ``to_pyarrow(schema=schema)`` translates, else UNSUPPORTED, in order.

    The scan must then apply ``to_pyarrow(schema=schema)`` of every filter in ``request.filters``, with the
    same ``schema``.
    """
    translated = (filter_.to_pyarrow(schema=schema) for filter_ in filters)
    return [FilterPushdown.UNSUPPORTED if found is None else FilterPushdown.EXACT for found in translated]
