"""The source stage of one partition: batches of the plan in, the rows that Spark still needs out; executors.

It runs on the thread that drives the provider's iterator, and begins no other one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from headrace.arrow.batches import compacted, halves
from headrace.arrow.types import wire_schema
from headrace.errors import SchemaMismatchError
from headrace.execute.stage.filtering import RowFilter
from headrace.execute.stage.first_rows import FirstRows
from headrace.execute.stage.grouping import Groups
from headrace.execute.stage.rows import kept_type
from headrace.execute.stage.work import StageWork
from headrace.expr.evaluation import Evaluation


class SourceStage:
    """Does the work of one partition. Rows that nothing but filters are for come out as soon as they went in.

    ``schema`` is that of the batches that come out. Filtered rows have the columns that are sent, in the plan's own
    types; groups and first rows have wire types. One thread.
    """

    def __init__(self, work: StageWork, plan: pa.Schema, sent: pa.Schema) -> None:
        """``plan`` is the schema of the batches that come in, ``sent`` what Spark is to get, in the table's types."""
        evaluation = Evaluation(work.ansi)
        self._filter = RowFilter(work.filters, work.runtime_filters, evaluation)
        self._last: Groups | FirstRows | None = None
        if work.aggregation is not None:
            self._last = Groups(work.aggregation, work.group_order, evaluation)
            self.schema = work.aggregation.schema
        elif work.order and work.limit is not None:
            self.schema = wire_schema(sent)
            self._last = FirstRows(work.order, work.limit, plan, self.schema)
        else:
            self.schema = stage_schema(plan, sent)

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What comes out for a batch of the plan's; batches without rows are left out.

        Raises SchemaMismatchError for a value that has no place in its wire type.
        """
        try:
            rows = self._filter.passing(batch)
            if self._last is not None:
                yield from self._last.add(rows)
            elif rows.count:
                yield rows.batch(self.schema)
        except SchemaMismatchError:  # it may have more text than fits one array
            if batch.num_rows <= 1:
                raise
            for half in halves(batch):
                yield from self.add(compacted(half))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """What comes out at the end. Called once, when the plan has no more batches."""
        if self._last is not None:
            yield from self._last.finish()


def stage_schema(plan: pa.Schema, sent: pa.Schema) -> pa.Schema:
    """Of rows that were only filtered: the columns that are sent, as the plan has them."""
    fields = [plan.field(name) for name in sent.names]
    return pa.schema([field.with_type(kept_type(field.type)) for field in fields], plan.metadata)
