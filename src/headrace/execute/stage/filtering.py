"""Filters over batches: those that are done exactly, and the keys of joins while they pay; where ``execute`` runs."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headrace.execute.stage.rows import StageRows
from headrace.expr.evaluation import Evaluation
from headrace.expr.nodes import And, Expr, legs
from headrace.expr.normal_form import TRUE, normal_form

_TRIED_ROWS = 32 * 1024
"""A runtime filter is tried on so many rows before it is judged, and again after each so many."""
_LEAST_SAVED_BYTES = 40
"""One that saves fewer for each row that it looks at costs more than it saves: Spark reads and joins short rows as fast
as keys are looked up here."""


class RowFilter:
    """Finds the rows of a batch that pass all filters. One thread."""

    def __init__(self, filters: Sequence[Expr], runtime_filters: Sequence[Expr], evaluation: Evaluation) -> None:
        normal = [leg for filter_ in filters for leg in legs(normal_form(filter_), And)]
        self._exact = [leg for leg in dict.fromkeys(normal) if leg != TRUE]
        self._learnt = [_Learnt(normal_form(filter_)) for filter_ in runtime_filters]
        self._evaluation = evaluation

    def passing(self, batch: pa.RecordBatch) -> StageRows:
        """Its rows that pass; none that are null for a filter."""
        rows = StageRows(batch)
        mask: pa.BooleanArray | None = None
        for expr in self._exact:
            mask = self._and(mask, rows.value(expr, self._evaluation))
            if mask.true_count == 0:
                return rows.where(mask)
        for learnt in self._learnt:
            if learnt.pays:
                before = batch.num_rows if mask is None else mask.true_count
                mask = self._and(mask, rows.value(learnt.expr, self._evaluation))
                learnt.judge(batch, before - mask.true_count)
        return rows if mask is None else rows.where(mask)

    @staticmethod
    def _and(mask: pa.BooleanArray | None, found: pa.Array) -> pa.BooleanArray:
        found = found.cast(pa.bool_()) if found.null_count == 0 else pc.fill_null(found.cast(pa.bool_()), False)
        return found if mask is None else pc.and_(mask, found)


class _Learnt:
    """A runtime filter, and how much it has saved so far."""

    def __init__(self, expr: Expr) -> None:
        self.expr = expr
        self.pays = True
        self._seen = 0
        self._saved_bytes = 0.0

    def judge(self, batch: pa.RecordBatch, dropped: int) -> None:
        """It has looked at all rows of the batch, and dropped so many that were left by others."""
        self._seen += batch.num_rows
        self._saved_bytes += dropped * batch.nbytes / max(1, batch.num_rows)
        if self._seen >= _TRIED_ROWS:
            self.pays = self._saved_bytes >= _LEAST_SAVED_BYTES * self._seen
            self._seen, self._saved_bytes = 0, 0.0
