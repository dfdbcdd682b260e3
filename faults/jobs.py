"""What runs while a fault happens: queries over tables whose right answer is known beforehand; driver Python."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import headrace as hr
from faults.writes import Written

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64())])
PARTITIONS = 4
BATCHES = 30
ROWS = 2_000
KEYS = 7
PAUSE_SECONDS = 0.03
PUSHED = "pushed"
TOTAL = PARTITIONS * BATCHES * ROWS


def batch(number: int) -> pa.RecordBatch:
    """Batch ``number`` of the table of all numbers below ``TOTAL``."""
    n = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
    return pa.record_batch([pa.array([value % KEYS for value in range(number * ROWS, (number + 1) * ROWS)]), n], SCHEMA)


class Numbers(hr.TableProvider):
    """The numbers below a total, some every few hundredths of a second, so that a fault finds the query at work."""

    def __init__(self, placement: hr.Placement) -> None:
        self._placement = placement

    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return NumbersPlan(self._placement)


class NumbersPlan(hr.ExecutionPlan):
    schema = SCHEMA
    partitioning = hr.UnknownPartitioning(PARTITIONS)

    def __init__(self, placement: hr.Placement) -> None:
        self.placement = placement

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        for index in range(BATCHES):
            time.sleep(PAUSE_SECONDS)
            yield batch(partition * BATCHES + index)


@dataclass
class Stage:
    """One run: its context, and what the faults act on. Producers look at ``order`` before each batch."""

    ctx: hr.SessionContext
    shared: Path
    """A directory that does not exist yet, which all hosts would see."""
    written: Written | None = None
    sinks: dict[str, hr.TableSink] = field(default_factory=dict)
    producers: list[threading.Thread] = field(default_factory=list)
    endings: list[str] = field(default_factory=list)
    result: hr.ResultStream | None = None
    order: str = ""
    at_work: threading.Event = field(default_factory=threading.Event)
    """Set once rows are on their way."""

    def pull(self, name: str, placement: hr.Placement) -> None:
        self.ctx.register_table(name, Numbers(placement))

    def push(self, name: str, partitions: int = 2) -> None:
        """A streaming table and a producer for each of its partitions; all write their share of the numbers."""
        sink = self.ctx.register_streaming_table(name, SCHEMA, 4, partitions=partitions)
        self.sinks[name] = sink
        share = PARTITIONS * BATCHES // partitions
        parts = [sink.partition(index) for index in range(partitions)]
        self._open = partitions
        for index, part in enumerate(parts):
            batches = range(index * share, (index + 1) * share)
            thread = threading.Thread(target=self._produce, args=(sink, part, batches), name=f"producer-{index}")
            thread.daemon = True
            self.producers.append(thread)
            thread.start()

    def _produce(self, sink: hr.TableSink, part: hr.TableSink, numbers: range) -> None:
        try:
            for number in numbers:
                if self.order == "raise":
                    raise LookupError("the producer lost its way")
                if self.order == "vanish":
                    self.endings.append("vanished")
                    return
                part.write(batch(number), timeout=100)
                self.at_work.set()
                time.sleep(PAUSE_SECONDS / 2)
            part.close()
            self.endings.append("closed")
        except LookupError as error:
            sink.fail(error)
            self.endings.append("raised")
        except hr.StreamError as error:
            self.endings.append(type(error).__name__)


@dataclass(frozen=True)
class Job:
    """``run`` prepares the stage and returns the answer; ``kinds`` are the roads that rows take."""

    name: str
    kinds: frozenset[str]
    run: Callable[[Stage], Any]
    answer: Any

    def wrong_end(self, stage: Stage) -> str:
        """What must not be, however the job ended: a part that was published. Empty where all is well."""
        found = None if stage.written is None else stage.written.published()
        return "" if found is None or found == self.answer else f"{len(found)} of {TOTAL} rows were published"


def _pulled(placement: hr.Placement) -> Callable[[Stage], Any]:
    def run(stage: Stage) -> Any:
        stage.pull("numbers", placement)
        stage.at_work.set()
        return _grouped(stage.ctx, "numbers")

    return run


def _streamed(placement: hr.Placement) -> Callable[[Stage], Any]:
    def run(stage: Stage) -> Any:
        stage.pull("numbers", placement)
        return _read(stage, "SELECT n FROM numbers")

    return run


def _pushed(stage: Stage) -> Any:
    stage.push(PUSHED)
    return _grouped(stage.ctx, PUSHED)


def _pushed_and_streamed(stage: Stage) -> Any:
    stage.push(PUSHED, partitions=1)
    return sorted(_read(stage, f"SELECT n FROM {PUSHED}"))


def _joined(stage: Stage) -> Any:
    stage.pull("numbers", hr.Placement.DRIVER)
    stage.push(PUSHED)
    query = f"SELECT count(*) c, sum(p.n - n.n) d FROM numbers n JOIN {PUSHED} p ON n.n = p.n"
    return stage.ctx.collect(query).to_pylist()


def _written(placement: hr.Placement) -> Callable[[Stage], Any]:
    def run(stage: Stage) -> Any:
        stage.pull("numbers", hr.Placement.EXECUTORS)
        stage.written = Written(stage.shared, SCHEMA, placement)
        stage.ctx.register_table("written", stage.written)
        stage.at_work.set()
        stage.ctx.collect("INSERT INTO written SELECT k, n FROM numbers")
        return stage.written.published()

    return run


def _grouped(ctx: hr.SessionContext, table: str) -> Any:
    return ctx.collect(f"SELECT k, count(*) c, sum(n) s FROM {table} GROUP BY k ORDER BY k").to_pylist()


def _read(stage: Stage, query: str) -> list[int]:
    found: list[int] = []
    with stage.ctx.execute_stream(query) as result:
        stage.result = result
        for part in result:
            stage.at_work.set()
            found += part.column(0).to_pylist()
    return found


def _groups() -> list[dict[str, int]]:
    numbers = range(TOTAL)
    return [{"k": k, "c": len(numbers[k::KEYS]), "s": sum(numbers[k::KEYS])} for k in range(KEYS)]


JOBS = [
    Job("pull, EXECUTORS, grouped", frozenset({"executors", "shuffle"}), _pulled(hr.Placement.EXECUTORS), _groups()),
    Job("pull, DRIVER, grouped", frozenset({"driver", "shuffle"}), _pulled(hr.Placement.DRIVER), _groups()),
    Job(
        "pull, EXECUTORS, streamed back",
        frozenset({"executors", "driver", "result"}),
        _streamed(hr.Placement.EXECUTORS),
        list(range(TOTAL)),
    ),
    Job(
        "pull, DRIVER, streamed back",
        frozenset({"driver", "result"}),
        _streamed(hr.Placement.DRIVER),
        list(range(TOTAL)),
    ),
    Job("push, grouped", frozenset({"driver", "push", "shuffle"}), _pushed, _groups()),
    Job("push, streamed back", frozenset({"driver", "push", "result"}), _pushed_and_streamed, list(range(TOTAL))),
    Job(
        "write, EXECUTORS",
        frozenset({"executors", "write"}),
        _written(hr.Placement.EXECUTORS),
        list(range(TOTAL)),
    ),
    Job(
        "write, DRIVER", frozenset({"executors", "driver", "write"}), _written(hr.Placement.DRIVER), list(range(TOTAL))
    ),
    Job("pull joined with push", frozenset({"driver", "push", "shuffle"}), _joined, [{"c": TOTAL, "d": 0}]),
]
