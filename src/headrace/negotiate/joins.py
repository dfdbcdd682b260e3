"""Joins of two scans that Spark offers, and the provider's answers to them; driver Python."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.arrow.types import wire_schema
from headrace.errors import PlanError
from headrace.expr.nodes import Expr
from headrace.negotiate.asking import asking, kind_of
from headrace.negotiate.filters import OfferedFilter
from headrace.negotiate.registry import RegisteredTable
from headrace.provider import FilterPushdown, Join, JoiningProvider, JoinSide, JoinType, TableProvider
from headrace.tables.wrapping import innermost

Columns = tuple[tuple[str, str], ...]
"""Columns of one side, each with its name among the joined rows."""


@dataclass(frozen=True)
class OfferedSide:
    """One of the two scans: its table, the provider that is asked about it, its filters.

    ``cut``: the scan took in something else that comes before the join, such as a limit.
    """

    table: RegisteredTable
    provider: TableProvider
    filters: tuple[OfferedFilter, ...] = ()
    cut: bool = False

    def why_not(self) -> str:
        """Why no join can replace this scan; empty if one can."""
        if self.table.verify is not None:
            return f"the promises of {self.table.name} are verified, on rows that a join would not show"
        if self.cut:
            return f"rows of {self.table.name} are cut or added up before the join"
        if any(one.here for one in self.filters):
            return f"Headrace filters {self.table.name}"
        if any(one.answer is not FilterPushdown.EXACT and not one.implied for one in self.filters):
            return f"Spark still filters {self.table.name}"
        return ""

    def part(self, columns: Columns) -> JoinSide:
        requested = tuple(one.requested for one in self.filters if one.requested is not None)
        return JoinSide(innermost(self.provider), requested, columns)


@dataclass(frozen=True)
class OfferedJoin:
    """A join that Spark offered, and what became of it: one scan of the table ``joined``, or ``why_not``.

    ``condition`` is None for one that has no faithful form here.
    """

    how: JoinType
    left: OfferedSide
    right: OfferedSide
    condition: Expr | None
    joined: RegisteredTable | None
    why_not: str = ""

    def __repr__(self) -> str:
        kind = "" if self.how == "inner" else f"{self.how.upper()} "
        return f"{self.left.table.name} {kind}JOIN {self.right.table.name} ON {self.condition!r}"


def answered_join(
    left: OfferedSide, right: OfferedSide, how: JoinType, columns: tuple[Columns, Columns], condition: Expr | None
) -> OfferedJoin:
    """Ask the left provider, unless nothing could come of it. Raises PlanError, ProviderRaised."""

    def refused(why: str) -> OfferedJoin:
        return OfferedJoin(how, left, right, condition, None, why)

    asked = innermost(left.provider)
    if not isinstance(asked, JoiningProvider):
        return refused(f"{left.table.provider_name} does not join")
    if condition is None:
        return refused("its condition has no form here")
    why = left.why_not() or right.why_not()
    if why:
        return refused(why)
    sides = (left.part(columns[0]), right.part(columns[1]))
    schema = pa.schema([*_fields(left.table, columns[0]), *_fields(right.table, columns[1])])
    where = f"{type(asked).__name__}.joined"
    with asking(where, left.table.name):
        found = asked.joined(Join(how, *sides, condition, schema))
    if isinstance(found, str):
        return refused(found)
    if not isinstance(found, TableProvider):
        raise PlanError(
            f"{where} returned {kind_of(found)}, expected a TableProvider or a reason (table {left.table.name!r})"
        )
    name = f"{left.table.name} JOIN {right.table.name}"
    return OfferedJoin(how, left, right, condition, RegisteredTable(name, found, schema, wire_schema(schema)))


def _fields(table: RegisteredTable, columns: Columns) -> list[pa.Field]:
    """Nullable all: a side of an outer join may have no row."""
    return [table.schema.field(old).with_name(new).with_nullable(True) for old, new in columns]
