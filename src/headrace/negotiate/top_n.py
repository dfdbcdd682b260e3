"""Top-n and offset that Spark offers for a scan, and the provider's answers to them; driver Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.errors import PlanError
from headrace.negotiate.asking import asking
from headrace.negotiate.registry import RegisteredTable
from headrace.plan import SortKey
from headrace.provider import Pushdown, TableProvider


@dataclass(frozen=True)
class OfferedTopN:
    """An ORDER BY with a LIMIT that Spark offered, and what became of it.

    ``here``: Headrace's stage finds the first rows of each partition, else ``why_not_here`` says why it does not.
    """

    order: tuple[SortKey, ...]
    limit: int
    answer: Pushdown
    here: bool = False
    why_not_here: str = ""


@dataclass(frozen=True)
class OfferedOffset:
    """An OFFSET that Spark offered, and why it was not taken; None if it was."""

    rows: int
    why_not: str | None = None


def answered_top_n(
    table: RegisteredTable, provider: TableProvider, order: Sequence[SortKey], limit: int
) -> OfferedTopN:
    """Ask the provider. Raises PlanError, ProviderRaised."""
    keys = tuple(order)
    where = f"{table.provider_name}.supports_top_n_pushdown"
    with asking(where, table.name):
        answer = provider.supports_top_n_pushdown(keys, limit)
    if not isinstance(answer, Pushdown):
        raise PlanError(f"{where} returned {answer!r}, expected a Pushdown (table {table.name!r})")
    return OfferedTopN(keys, limit, answer)


def answered_offset(table: RegisteredTable, provider: TableProvider, offset: int, limit: int | None) -> OfferedOffset:
    """Ask the provider. Raises PlanError, ProviderRaised."""
    where = f"{table.provider_name}.supports_offset_pushdown"
    with asking(where, table.name):
        answer = provider.supports_offset_pushdown(offset, limit)
    if not isinstance(answer, bool):
        raise PlanError(f"{where} returned {answer!r}, expected True or False (table {table.name!r})")
    return OfferedOffset(offset, None if answer else "the provider leaves out no rows")
