"""Filters that Spark offers for a scan, and the provider's answers to them; driver Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.arrow.rows import counted
from headrace.errors import PlanError
from headrace.expr.nodes import Expr, IsNull, Not
from headrace.expr.not_null import not_null_columns
from headrace.negotiate.asking import asking, kind_of
from headrace.negotiate.registry import RegisteredTable
from headrace.provider import FilterPushdown, TableProvider

MOST_RUNTIME_VALUES = 10_000
"""A runtime filter with a longer list of values skips little for what it costs to send, so the scan goes without."""


@dataclass(frozen=True)
class OfferedFilter:
    """One conjunct that Spark offered, and what became of it.

    ``expr`` is None for one that has no faithful form here. ``answer`` is the provider's. ``implied``: an IS NOT NULL
    that another filter guarantees which Spark does not evaluate; nobody has to evaluate it. ``here``: Headrace's stage
    filters exactly, else ``why_not_here`` says why it does not; ``visible``: Spark filters again all the same.
    """

    expr: Expr | None
    answer: FilterPushdown
    implied: bool = False
    here: bool = False
    visible: bool = False
    why_not_here: str = ""

    @property
    def requested(self) -> Expr | None:
        """The expression, where ``ScanRequest.filters`` has it."""
        return None if self.implied or self.answer is FilterPushdown.UNSUPPORTED else self.expr

    @property
    def word(self) -> str:
        """What Spark is told, in one word: exact, inexact, unsupported, implied."""
        if self.implied:
            return "implied"
        if self.here:
            return FilterPushdown.INEXACT.value if self.visible else FilterPushdown.EXACT.value
        return self.answer.value

    @property
    def who(self) -> str:
        """Who does it, for EXPLAIN: the provider by its answer, and Headrace."""
        if not self.here:
            return self.word.upper()
        return "HEADRACE" if self.answer is FilterPushdown.UNSUPPORTED else f"{self.answer.name}, HEADRACE"


def answered_filters(
    table: RegisteredTable, provider: TableProvider, filters: Sequence[Expr | None]
) -> tuple[OfferedFilter, ...]:
    """Ask the provider about all conjuncts at once. Raises PlanError, ProviderRaised.

    A filter that could not be decoded is UNSUPPORTED without asking. An IS NOT NULL that an EXACT filter
    implies needs no filter of Spark's, whatever the provider said of it: Spark adds these by itself, and
    one left over would keep a limit from being pushed.
    """
    decoded = [expr for expr in filters if expr is not None]
    answers = _provider_answers(table, provider, decoded)
    exact = [expr for expr, answer in zip(decoded, answers, strict=True) if answer is FilterPushdown.EXACT]
    guaranteed = frozenset(column for expr in exact for column in not_null_columns(expr))
    result: list[OfferedFilter] = []
    remaining = iter(answers)
    for expr in filters:
        if expr is None:
            result.append(OfferedFilter(None, FilterPushdown.UNSUPPORTED))
            continue
        answer = next(remaining)
        implied = isinstance(expr, Not) and isinstance(expr.operand, IsNull) and expr.operand.operand in guaranteed
        result.append(OfferedFilter(expr, answer, implied and answer is not FilterPushdown.EXACT))
    return tuple(result)


def _provider_answers(table: RegisteredTable, provider: TableProvider, filters: list[Expr]) -> list[FilterPushdown]:
    if not filters:
        return []
    where = f"{table.provider_name}.supports_filters_pushdown"
    with asking(where, table.name):
        answers = provider.supports_filters_pushdown(tuple(filters))
    if not isinstance(answers, Sequence) or isinstance(answers, str):
        raise PlanError(
            f"{where} returned {kind_of(answers)}, expected a sequence with one FilterPushdown per filter "
            f"(table {table.name!r})"
        )
    if len(answers) != len(filters):
        raise PlanError(
            f"{where} returned {counted(len(answers), 'answer')} for {counted(len(filters), 'filter')} "
            f"(table {table.name!r}); the filters: {', '.join(map(repr, filters))}"
        )
    for expr, answer in zip(filters, answers, strict=True):
        if not isinstance(answer, FilterPushdown):
            raise PlanError(
                f"{where} answered {answer!r} for the filter {expr!r}, expected a FilterPushdown (table {table.name!r})"
            )
    return list(answers)
