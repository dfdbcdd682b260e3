"""``headrace demo``, act two: threads write into streaming tables while queries read them; driver Python."""

from __future__ import annotations

import inspect
import itertools
import textwrap
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from rich.console import Console
from rich.live import Live
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table

import headrace as hr

SCHEMA = pa.schema([("station", pa.string()), ("reading", pa.int64()), ("celsius", pa.float64())])
STATIONS = ("Bergen", "Cork", "Davos", "Porto")
SLOW = "Davos"
CAPACITY = 4
REDUCE_SECONDS = 2.5
LIVE = "SELECT station, reading, celsius FROM live WHERE celsius > 30 LIMIT 12"
REDUCE = """\
SELECT station, count(*) AS readings, round(avg(celsius), 1) AS mean
FROM measured GROUP BY station ORDER BY station"""
COUNT = "SELECT count(*) AS readings FROM unlucky"


class Station(threading.Thread):
    """Writes batches of readings; remembers how many, and how it ended."""

    def __init__(self, name: str, sink: hr.TableSink, batches: Iterable[pa.RecordBatch]) -> None:
        super().__init__(name=name, daemon=True)
        self.sink, self.batches = sink, batches
        self.rows = 0
        self.ending = ""

    def run(self) -> None:
        try:
            for batch in self.batches:
                self.sink.write(batch)  # blocks while `capacity` batches wait
                self.rows += batch.num_rows
            self.ending = "wrote everything"
        except hr.StreamError as error:  # nobody will read it, and here is why
            self.ending = f"{type(error).__name__}: {error}"
        except OSError as error:
            self.sink.fail(error)  # a short result must not pass for a whole one
            self.ending = f"called fail({error!r})"


def push(ctx: hr.SessionContext, console: Console) -> None:
    """Act two: rows as they come, a reduction under backpressure, a producer that fails."""
    console.rule("[bold]Push: threads write, a query reads")
    console.print("\nFour weather stations write to one table, each in a thread:\n")
    _print_code(console, textwrap.dedent(inspect.getsource(Station.run)), "python")
    _live(ctx, console)
    _reduce(ctx, console)
    _fail(ctx, console)


def _live(ctx: hr.SessionContext, console: Console) -> None:
    console.print(f"\n[bold]Rows come out while the stations write[/bold]. None ever stops, and {SLOW} is slow.\n")
    _print_code(console, LIVE, "sql")
    console.print(f"\n  {'after':>7}  {'station':8}{'reading':>7}{'celsius':>9}   the table by then")
    with _table(ctx, "live") as sink:
        start = time.perf_counter()
        with ctx.execute_stream(LIVE) as result:
            stations = _start(sink, [_paced(name, 0.8 if name == SLOW else 0.25) for name in STATIONS])
            for row in (row for batch in result for row in batch.to_pylist()):
                stats = sink.stats
                console.print(
                    f"  {time.perf_counter() - start:5.2f} s  {row['station']:8}{row['reading']:>7}{row['celsius']:>9}"
                    f"   {stats.rows_written:4,} rows written, {stats.state}",
                    highlight=False,
                )
        _join(stations)
    console.print("\nThe LIMIT was reached, and each station's next write raised:\n")
    _print_endings(console, stations)


def _reduce(ctx: hr.SessionContext, console: Console) -> None:
    console.print(
        f"\n[bold]A full sink blocks its writers[/bold]. All but {SLOW} hurry now; {CAPACITY} batches may wait.\n"
    )
    _print_code(console, REDUCE, "sql")
    console.print()
    with _table(ctx, "measured") as sink:
        enough = threading.Event()
        with ctx.execute_stream(REDUCE) as result, _gauge(console, sink):
            stations = _start(sink, [_hasty(name, 0.4 if name == SLOW else 0.0, enough) for name in STATIONS])
            _await_reading(sink, stations)
            enough.wait(REDUCE_SECONDS)
            enough.set()
            _join(stations)
            sink.close()
            answer = pa.Table.from_batches(result, result.schema)
        stats = sink.stats
    written, counted = sum(station.rows for station in stations), sum(answer["readings"].to_pylist())
    console.print()
    shown = Table(*answer.column_names)
    for column in shown.columns[1:]:
        column.justify = "right"
    for row in answer.to_pylist():
        shown.add_row(row["station"], f"{row['readings']:,}", f"{row['mean']}")
    console.print(Padding(shown, (0, 2), expand=False))
    console.print(f"\n{written:,} rows were written and {counted:,} counted; the stream {stats.state}.")


def _fail(ctx: hr.SessionContext, console: Console) -> None:
    console.print("\n[bold]A producer fails, and so does the query[/bold], with the producer's own error.\n")
    _print_code(console, COUNT, "sql")
    console.print()
    with _table(ctx, "unlucky") as sink:
        readings = [_paced(name, 0.05) for name in STATIONS[:-1]]
        stations = _start(sink, [*readings, _cut_off(STATIONS[-1], 10)])
        try:
            ctx.collect(COUNT)
        except hr.ProviderError as error:
            found = {
                "ctx.collect raised": type(error).__name__,
                ".exception_type": error.exception_type,
                ".message": error.message,
                ".table": error.table,
                "caused by": repr(error.__cause__),
            }
            for name, value in found.items():
                console.print(f"  {name:<20}{value}", markup=False, highlight=False, soft_wrap=True)
        _join(stations)
    console.print("\nHow each station ended:\n")
    _print_endings(console, stations)


# The stations' readings


def _paced(name: str, pause_s: float) -> Iterator[pa.RecordBatch]:
    """Five readings at a time, for ever; one in ten is above 30 degrees."""
    for first in itertools.count(step=5):
        yield _readings(name, range(first, first + 5))
        time.sleep(pause_s)


def _hasty(name: str, pause_s: float, enough: threading.Event) -> Iterator[pa.RecordBatch]:
    batch = _readings(name, range(20_000))
    while not enough.wait(pause_s):
        yield batch


def _cut_off(name: str, after: int) -> Iterator[pa.RecordBatch]:
    yield from itertools.islice(_paced(name, 0.05), after)
    raise ConnectionResetError(f"the line to {name} went dead")


def _readings(name: str, numbers: range) -> pa.RecordBatch:
    coldest = 12 + STATIONS.index(name) / 2
    celsius = [coldest + number * 71 % 193 / 10 for number in numbers]
    return pa.record_batch({"station": [name] * len(numbers), "reading": numbers, "celsius": celsius}, SCHEMA)


# Running and showing them


@contextmanager
def _table(ctx: hr.SessionContext, name: str) -> Iterator[hr.TableSink]:
    """A streaming table while the block runs; with it go stations that still write."""
    sink = ctx.register_streaming_table(name, SCHEMA, capacity=CAPACITY)
    try:
        yield sink
    finally:
        ctx.deregister_table(name)


def _start(sink: hr.TableSink, readings: Sequence[Iterable[pa.RecordBatch]]) -> list[Station]:
    stations = [Station(name, sink, batches) for name, batches in zip(STATIONS, readings, strict=True)]
    for station in stations:
        station.start()
    return stations


def _join(stations: Sequence[Station]) -> None:
    for station in stations:
        station.join()


def _await_reading(sink: hr.TableSink, stations: Sequence[Station]) -> None:
    """Spark takes its time to start a query's first task; what is to be seen comes after that."""
    while not sink.stats.batches_delivered and any(station.is_alive() for station in stations):
        time.sleep(0.02)


@contextmanager
def _gauge(console: Console, sink: hr.TableSink) -> Iterator[None]:
    """Shows the sink's state while the block runs: in place on a terminal, else a line now and then."""
    start = time.perf_counter()

    def line() -> str:
        stats = sink.stats
        fill = "█" * stats.waiting + "░" * (stats.capacity - stats.waiting)
        return (
            f"  {time.perf_counter() - start:4.1f} s  {fill} {stats.waiting} of {stats.capacity} wait"
            f" · {stats.rows_delivered / 1e6:5.1f} M rows read · writers blocked {stats.blocked_s:4.1f} s in all"
        )

    if console.is_terminal:
        with Live(console=console, get_renderable=line, refresh_per_second=12):
            yield
        return
    over = threading.Event()

    def print_lines() -> None:
        while not over.wait(0.5):
            console.print(line(), highlight=False)

    printing = threading.Thread(target=print_lines, name="headrace-demo-gauge", daemon=True)
    printing.start()
    try:
        yield
    finally:
        over.set()
        printing.join()
        console.print(line(), highlight=False)


def _print_endings(console: Console, stations: Sequence[Station]) -> None:
    for ending in dict.fromkeys(station.ending for station in stations):
        names = ", ".join(station.name for station in stations if station.ending == ending)
        broken = textwrap.wrap(f"{names}: {ending}", console.width, initial_indent="  ", subsequent_indent="    ")
        console.print("\n".join(broken), markup=False, highlight=False)


def _print_code(console: Console, code: str, language: str) -> None:
    syntax = Syntax(code.rstrip(), language, background_color="default", word_wrap=True)
    console.print(Padding(syntax, (0, 2), expand=False))
