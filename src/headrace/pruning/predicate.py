"""What filters say of columns: guarantees per column, and which containers of rows may hold a match; pure."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from headrace.arguments import checked
from headrace.expr.nodes import Column, Expr
from headrace.expr.semantics import Kind, is_nan, kind_of, operand_type
from headrace.pruning.container_stats import ColumnStats, ContainerStats, held_values
from headrace.pruning.guarantee import NOTHING, Bound, Guarantee, both
from headrace.pruning.terms import Compiler, Term

__all__ = ["Bound", "ColumnStats", "ContainerStats", "Guarantee", "PruningPredicate", "guarantees"]


@checked()
def guarantees(filters: Iterable[Expr], *, schema: pa.Schema | None = None) -> dict[str, Guarantee]:
    """Per column what must hold for any row that passes all ``filters``.

    Keys are column names; a nested field's key is its dotted path, ``"a.b"`` (a column that has that very
    name hides it). A column of which nothing is certain is not in the result. If no row can pass, every
    column the filters mention has an empty ``values``. With ``schema`` casts that only widen a column are
    seen through; without it a cast column is only known to be not null, as the same cast may stand over a
    string.

    Understood: comparisons of a column with a literal in either direction, IN, IS NULL, STARTS_WITH, under
    AND, OR and NOT. Anything else adds nothing. A guarantee never excludes a row that passes.
    """
    filters = tuple(filters)
    term = Compiler(filters, schema).compiled
    if term.impossible:
        mentioned = {node for expr in filters for node in expr.walk() if isinstance(node, Column)}
        names = {name for column in mentioned for name in (column.name, _key(column)) if name is not None}
        return dict.fromkeys(sorted(names), NOTHING)
    top_level = {column.name for column in term.columns if not column.path}
    found = {}
    for column, guarantee in term.columns.items():
        name = _key(column)
        if name is not None and not (column.path and name in top_level):
            found[name] = guarantee
    return found


def _key(column: Column) -> str | None:
    """The name of a column in guarantees and statistics; None for a nested one with a dot in a name."""
    path = (column.name, *column.path)
    return None if column.path and any("." in part for part in path) else ".".join(path)


class PruningPredicate:
    """Decides which containers of rows (files, row groups, shards) may hold a row that passes all filters.

    Made once per scan from the filters and the table's schema, used for any number of containers.
    """

    @checked()
    def __init__(self, filters: Iterable[Expr], schema: pa.Schema) -> None:
        self._term = Compiler(tuple(filters), schema).compiled
        self._schema = schema
        self._in_order: dict[frozenset[Any], list[Any]] = {}
        self._named: dict[Column, tuple[str | None, Kind | None]] = {}

    @property
    def columns(self) -> frozenset[str]:
        """The columns whose statistics it makes use of, by the names that these have in ``ContainerStats``."""
        terms, names = [self._term], set()
        while terms:
            term = terms.pop()
            names |= {self._name_and_kind(column)[0] for column in term.columns}
            terms += [leg for legs_ in term.alternatives for leg in legs_]
        return frozenset(name for name in names if name is not None)

    @checked()
    def keep(self, stats: Sequence[ContainerStats]) -> list[bool]:
        """For each container, in order: False if its statistics rule out a match, else True.

        Statistics that are missing (no entry for a column, None for a value) rule nothing out. Raises
        TypeError, naming the column, for a bound that is not a value of the column's type.
        """
        return [self._may_match(self._term, container) for container in stats]

    def _may_match(self, term: Term, container: ContainerStats) -> bool:
        if term.impossible or container.row_count == 0:
            return False
        if not all(self._overlaps(column, wanted, container) for column, wanted in term.columns.items()):
            return False
        return all(any(self._may_match(leg, container) for leg in legs_) for legs_ in term.alternatives)

    def _overlaps(self, column: Column, wanted: Guarantee, container: ContainerStats) -> bool:
        name, kind = self._name_and_kind(column)
        stats = None if name is None else container.columns.get(name)
        if name is None or stats is None:
            return True
        held, nan_possible = held_values(stats, kind, container.row_count, name)
        if nan_possible and wanted.allows(math.nan):
            return True
        if wanted.values is None or held.values is not None:
            return not both(wanted, held).is_empty
        return (None in wanted.values and not held.not_null) or self._has_value(wanted.values, held)

    def _name_and_kind(self, column: Column) -> tuple[str | None, Kind | None]:
        """What the column's statistics are called; None where what there is under this name may be another's."""
        if column not in self._named:
            name, type_ = _key(column), operand_type(column, self._schema)
            hidden = bool(column.path) and name in self._schema.names
            self._named[column] = None if hidden else name, None if type_ is None else kind_of(type_)
        return self._named[column]

    def _has_value(self, values: frozenset[Any], held: Guarantee) -> bool:
        """Whether a value that is not null is in the range that a container holds; lists may be long."""
        ordered = self._in_order.get(values)
        if ordered is None:
            ordered = sorted(value for value in values if value is not None and not is_nan(value))
            self._in_order[values] = ordered
        first = 0 if held.lower is None else bisect.bisect_left(ordered, held.lower.value)
        if first == len(ordered) or held.upper is None:
            return first < len(ordered)
        least, most = ordered[first], held.upper.value
        return bool(least < most or (held.upper.inclusive and least == most))
