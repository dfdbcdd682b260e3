"""ctx.explain of a statement that writes: it is planned, and nothing runs; driver Python."""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.sql import DataFrame

from headrace.negotiate.writing import PlannedWrite, layout_text
from headrace.spark.explain.answer import Explanation
from headrace.spark.explain.explanation import block_without_plan
from headrace.spark.planner import Planner
from headrace.write import WriteMode

_STATEMENT = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
    r"(?:(?:INSERT|DELETE|TRUNCATE|UPDATE|MERGE|CREATE|REPLACE|DROP)\b|(?:WITH|FROM)\b.*\bINSERT\s+(?:INTO|OVERWRITE)\b)",
    re.IGNORECASE | re.DOTALL,
)
_MODES = {
    WriteMode.APPEND: "the rows that are there stay",
    WriteMode.TRUNCATE: "all rows that are there go",
    WriteMode.OVERWRITE: "of the rows that are there those go",
    WriteMode.DYNAMIC: "the partitions go in which new rows come",
}


def is_statement(query: str) -> bool:
    """Whether Spark would run the text where it is made a DataFrame: it changes something."""
    return _STATEMENT.match(query) is not None


def explain_statement(query: str, sql: Callable[[str], DataFrame], planner: Planner | None) -> Explanation:
    """A block for each write and scan of Headrace's, then Spark's own plan. ``sql`` makes a DataFrame of a text."""
    rows = sql(f"EXPLAIN {query}").collect()
    text = "\n".join(str(row[0]) for row in rows).strip()  # an error has a row for each line
    writes = [] if planner is None else planner.writes.planned()
    scans = [] if planner is None else planner.scans.plans()
    written = {write.description(): write for write in writes if write.description() in text}
    scanned = {scan.description(): scan for scan in scans if scan.description() in text}
    blocks = [_block(number + 1, write) for number, write in enumerate(written.values())]
    blocks += [block_without_plan(number + 1, scan) for number, scan in enumerate(scanned.values())]
    return Explanation("\n\n".join([*blocks, text]))


def _block(number: int, write: PlannedWrite) -> str:
    where = f" for which {' AND '.join(map(repr, write.filters))}" if write.filters else ""
    layout = "as Spark has the rows" if write.layout is None else f"{layout_text(write.layout)}: Spark sees to it"
    return "\n".join(
        [
            f"write {number}: {write.table.name} ({write.table.provider_name})",
            f"  mode          {write.mode.name}: {_MODES[write.mode]}{where}",
            f"  layout        {layout}",
            f"  columns       {', '.join(write.table.schema.names)}",
        ]
    )
