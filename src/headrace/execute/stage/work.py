"""What is left for Headrace to do with the rows of one scan, agreed upon at planning; travels to executors."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.expr.nodes import Expr
from headrace.plan import Aggregation, SortKey


@dataclass(frozen=True)
class StageWork:
    """The work of the source stage, in the order in which it is done. Pickled inside a ScanTask.

    ``filters`` are done exactly: a row passes if all are true. ``runtime_filters`` were learnt by a join: rows that are
    false or null for one of them may be dropped, and some are. ``aggregation`` is done for each partition, any number
    of rows a group (PARTIAL): Spark merges them. ``order`` and ``limit``: the first rows of each partition, at least
    those that are among the first ``limit`` of all; Spark sorts and cuts again. ``limit`` alone: so many rows of each
    partition, after the filters. ``group_order``: the rows of a partition come in this order of some of their groups,
    and the groups are given out in it too; their names are those among the aggregated rows.

    ``ansi``: the session's ``spark.sql.ansi.enabled`` when the work was agreed upon.
    """

    filters: tuple[Expr, ...] = ()
    runtime_filters: tuple[Expr, ...] = ()
    aggregation: Aggregation | None = None
    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    ansi: bool = True
    group_order: tuple[SortKey, ...] = ()

    def columns(self) -> frozenset[str]:
        """The columns that it reads, which the provider has to be asked for; without those that are only sent."""
        exprs = [*self.filters, *self.runtime_filters]
        if self.aggregation is not None:
            exprs += self.aggregation.group_by
            exprs += [one.operand for one in self.aggregation.functions if one.operand is not None]
        return frozenset(key.column for key in self.order).union(*(expr.columns() for expr in exprs))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do: a ScanTask then has None instead."""
        return self == StageWork(ansi=self.ansi)
