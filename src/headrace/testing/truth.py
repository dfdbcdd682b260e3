"""Truth: the table's rows as a plain scan of all columns gave them, which other scans are compared with; pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.conversion import to_wire
from headrace.arrow.rows import counted, shown
from headrace.arrow.types import wire_schema
from headrace.expr.nodes import Expr
from headrace.testing.probe import Probe, Reading, scan_text
from headrace.testing.report import Promise, Severity
from headrace.testing.rows import difference


class Truth:
    """All rows of the table, or the first ``max_rows`` where ``complete`` is false."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.complete = reading.complete
        self._true: dict[Expr, pa.ChunkedArray] = {}

    @cached_property
    def table(self) -> pa.Table:
        return self.reading.table

    @property
    def count(self) -> int:
        return int(self.table.num_rows)

    def matching(self, filters: Sequence[Expr]) -> pa.Table:
        """The rows for which every filter is true. Raises NotImplementedError as ``Expr.evaluate`` does."""
        rows = self.table
        if not filters:
            return rows
        mask = None
        for expr in filters:
            if expr not in self._true:
                self._true[expr] = is_true(expr, rows)
            mask = self._true[expr] if mask is None else pc.and_(mask, self._true[expr])
        return rows.filter(mask)

    def in_columns(self, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        """``rows`` with just the columns and nested fields of a request's ``schema``."""
        wire = wire_schema(schema)
        if not wire.names:
            return rows.select([])
        arrays = [
            pa.chunked_array([to_wire(chunk, field.type, field.name) for chunk in rows[field.name].chunks], field.type)
            for field in wire
        ]
        return pa.table(arrays, schema=wire)

    def compare(self, probe: Probe, reading: Reading, promise: Promise, what: str) -> None:
        """A scan without filters and limit must have the same rows; ``what`` it is begins the message."""
        expected = self.in_columns(self.table, reading.scan.schema)
        differs = difference(expected, reading.table)
        if not differs:
            return
        if self.complete:  # otherwise another order is all there may be to it
            probe.findings.add(promise, f"{what}: {differs}{scan_text(reading.scan)}")
        else:
            note_cut_short(probe, promise, "whether scans have the same rows could not be told")


def check_no_new_rows(probe: Probe, rows: pa.Table, reading: Reading, what: str, promise: Promise) -> bool:
    """Whether the scan has only ``rows``, each as often as these at most; ``what`` was asked begins the message."""
    new = difference(rows, reading.table).extra
    if new:
        text = f"{counted(len(new), 'row')} that a plain scan does not have, or not as often"
        probe.findings.add(promise, f"{what} but returned {text}: {shown(reading.table, new)}")
    return not new


def is_true(expr: Expr, rows: pa.Table) -> pa.ChunkedArray:
    """Per row whether ``expr`` is true, neither false nor null."""
    answers = [pc.fill_null(expr.evaluate(batch), False) for batch in rows.to_batches()]
    return pa.chunked_array(answers, pa.bool_())


def note_cut_short(probe: Probe, promise: Promise, consequence: str) -> None:
    """Honest about a table that is too large to be read to its end."""
    message = f"the table has more than max_rows={probe.max_rows:,} rows: {consequence}"
    probe.findings.add(promise, message, Severity.NOTE)
