"""``headrace demo``: acts that each show one thing on a running session; driver Python."""

from __future__ import annotations

import datetime
import inspect
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table

import headrace as hr
from headrace.cli.demo_push import push

Filters = Sequence[hr.Expr]
Answers = list[hr.FilterPushdown]
Act = Callable[[hr.SessionContext, Console], None]

FIRST_DAY = datetime.date(2024, 1, 1)
ALL_DAYS = [FIRST_DAY + datetime.timedelta(i) for i in range(60)]
ROWS_A_DAY = 20_000
OPEN_SECONDS = 0.02
STATIONS = ("Bergen", "Cork", "Davos", "Porto")
QUERY = """\
SELECT station,
       round(avg(celsius), 1) AS mean, round(max(celsius), 1) AS highest
FROM readings WHERE day = DATE '2024-02-17'
GROUP BY station ORDER BY station"""


class Archive(hr.TableProvider):
    """A weather archive: a file per day, and 20 ms to open one."""

    def __init__(self, pushdown: bool) -> None:
        self.pushdown = pushdown
        self.opened = self.rows = self.bytes = 0

    def schema(self) -> pa.Schema:
        return READINGS.schema

    def supports_filters_pushdown(self, filters: Filters) -> Answers:
        return [self.answer(expr) for expr in filters]

    def answer(self, expr: hr.Expr) -> hr.FilterPushdown:
        translated = expr.to_pyarrow() is not None
        if self.pushdown and translated and expr.columns() == {"day"}:
            return hr.FilterPushdown.EXACT  # it keeps or drops whole files
        return hr.FilterPushdown.UNSUPPORTED

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        days = pa.table({"day": ALL_DAYS})
        for expr in request.filters:
            days = days.filter(expr.to_pyarrow())
        columns = request.schema if self.pushdown else READINGS.schema
        return ArchivePlan(self, days["day"], columns)

    def open(self, day: pa.Date32Scalar, schema: pa.Schema) -> pa.RecordBatch:
        time.sleep(OPEN_SECONDS)
        warmth = (day.as_py() - FIRST_DAY).days / 10
        batch = READINGS.set_column(0, "day", pa.repeat(day, ROWS_A_DAY))
        batch = batch.set_column(2, "celsius", pc.add(READINGS["celsius"], warmth)).select(schema.names)
        self.opened, self.rows, self.bytes = self.opened + 1, self.rows + batch.num_rows, self.bytes + batch.nbytes
        return batch


class ArchivePlan(hr.ExecutionPlan):
    placement = hr.Placement.DRIVER  # in this process, so that the demo can count

    def __init__(self, archive: Archive, days: pa.ChunkedArray, schema: pa.Schema) -> None:
        self.archive, self.days, self.schema = archive, days, schema

    def describe(self) -> str:
        return f"{len(self.days)} of {len(ALL_DAYS)} files"

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        for day in self.days:
            yield self.archive.open(day, self.schema)


def pull(ctx: hr.SessionContext, console: Console) -> None:
    """Act one: the same table without and with pushdown."""
    console.rule("[bold]Pull: a Python class is a table")
    console.print("\nThe class describes the table and arranges scans of it:\n")
    _print_code(console, inspect.getsource(Archive).partition("    def open")[0].rstrip(), "python")
    console.print("\nIts plan's execute() yields a RecordBatch per file. Asked with SQL:\n")
    _print_code(console, QUERY, "sql")
    ctx.register_table("readings", Archive(pushdown=True), replace=True)
    ctx.collect(QUERY)  # Spark compiles at first use; what is measured below is the work alone

    measured, answer = [], pa.table({})
    for title, pushdown in (("without pushdown", False), ("with pushdown", True)):
        archive = Archive(pushdown)
        ctx.register_table("readings", archive, replace=True)
        console.print(f"\n[bold]EXPLAIN {title}[/bold]\n")
        _print_block(console, ctx.explain(QUERY))
        start = time.perf_counter()
        answer = ctx.collect(QUERY)
        measured.append((title, archive, time.perf_counter() - start))

    console.print("\n[bold]What the provider produced[/bold]\n")
    counts = Table("", "files opened", "rows", "Arrow bytes", "seconds")
    for column in counts.columns[1:]:
        column.justify = "right"
    for title, archive, seconds in measured:
        counts.add_row(title, f"{archive.opened}", f"{archive.rows:,}", f"{archive.bytes:,}", f"{seconds:.2f}")
    console.print(Padding(counts, (0, 2), expand=False))
    console.print("\n[bold]The answer, the same both times[/bold]\n")
    console.print(Padding(_as_rich(answer), (0, 2), expand=False))


ACTS: list[Act] = [pull, push]
"""What the demo shows, in order."""


def demo(ctx: hr.SessionContext, console: Console) -> None:
    """Play every act on ``ctx``."""
    for act in ACTS:
        act(ctx, console)
        console.print()


def _print_code(console: Console, code: str, language: str) -> None:
    syntax = Syntax(code, language, background_color="default", word_wrap=True)
    console.print(Padding(syntax, (0, 2), expand=False))


def _print_block(console: Console, text: str) -> None:
    """Lines as ``ctx.explain`` gives them, long ones broken under their own text."""
    for line in text.splitlines():
        broken = textwrap.wrap(line, console.width, subsequent_indent=" " * 18) or [""]
        console.print("\n".join(broken), markup=False, highlight=False)


def _as_rich(table: pa.Table) -> Table:
    shown = Table(*table.column_names)
    for row in table.to_pylist():
        shown.add_row(*(str(value) for value in row.values()))
    return shown


def _readings() -> pa.RecordBatch:
    """One day's file; the others differ in their day and by a little warmth."""
    number = pa.array(range(ROWS_A_DAY))
    tenth = pc.divide(pc.bit_wise_and(pc.multiply(number, 7919), 127), 10.0)
    return pa.record_batch(
        {
            "day": pa.nulls(ROWS_A_DAY, pa.date32()),
            "station": pa.array([STATIONS[i % len(STATIONS)] for i in range(ROWS_A_DAY)]),
            "celsius": tenth,
            "humidity": pc.add(tenth, 50.0),
            "remark": pa.array([f"reading {i}, all well" for i in range(ROWS_A_DAY)]),
        }
    )


READINGS = _readings()
