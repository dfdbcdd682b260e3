"""Runs one job with one fault and says how it ended; driver Python."""

from __future__ import annotations

import contextlib
import enum
import faulthandler
import gc
import random
import re
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import headrace as hr
from faults.injection import FAULTS, Fault, World, heal
from faults.jobs import JOBS, PUSHED, TOTAL, Job, Stage

HANG_SECONDS = 120
PRODUCER_SECONDS = 35
LEFT_SECONDS = 5  # after which producers who still wait are left to the next query, or are not told
LEAK_SECONDS = 10
_LASTING = "headrace-dropped"  # one for the whole process: it ends sinks that were dropped
_SPARKS_WORD = re.compile(
    r"cancel|ExecutorLost|Python worker|FetchFailed|executor|deregistered|closed|TABLE_OR_VIEW_NOT_FOUND", re.IGNORECASE
)
"""What Spark says when it was Spark's own process or job that ended, or the table was gone before the query began."""


class Verdict(enum.Enum):
    """RIGHT: the known answer. NAMED: an error that says what happened. All others are failures of Headrace."""

    RIGHT = "right"
    NAMED = "named error"
    UNNAMED = "unnamed error"
    WRONG = "wrong"
    HANG = "hang"


@dataclass(frozen=True)
class Outcome:
    """``seconds`` passed from the fault to the end of the query, ``producers_s`` to the end of the last producer."""

    index: int
    job: str
    fault: str
    verdict: str
    detail: str
    seconds: float
    producers_s: float
    leaks: str

    @property
    def is_bad(self) -> bool:
        return self.verdict not in (Verdict.RIGHT.value, Verdict.NAMED.value) or bool(self.leaks)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def chosen(seed: int, index: int, *, network: bool, only: str = "") -> tuple[Job, Fault, random.Random]:
    """The job and the fault of run ``index``: the same for the same seed. ``only``: of jobs whose name has this."""
    rng = random.Random(f"{seed}-{index}")
    jobs = [job for job in JOBS if only in job.name]
    roads = frozenset[str]().union(*(job.kinds for job in jobs))
    faults = [fault for fault in FAULTS if (network or not fault.network) and (not fault.kinds or fault.kinds & roads)]
    fault = faults[index % len(faults)]  # each as often as the others
    job = rng.choice([job for job in jobs if not fault.kinds or fault.kinds & job.kinds])
    return job, fault, rng


def run(spark: SparkSession, world: World, seed: int, index: int, log: TextIO, only: str = "") -> Outcome:
    """One run in a context of its own. Leaves a dump of all threads in ``log`` where it hangs."""
    job, fault, rng = chosen(seed, index, network=bool(world.switch), only=only)
    before = _residue()
    stage = Stage(hr.SessionContext(spark), world.scratch[0].parent / f"written-{index}-{time.monotonic_ns()}")
    answered = _Answer(stage, job)
    answered.start()
    stage.at_work.wait(30)
    time.sleep(rng.uniform(0, 1.5))
    injected = time.monotonic()
    if answered.is_alive():
        with contextlib.suppress(hr.HeadraceError):
            fault.inject(stage, world, rng)
    answered.join(HANG_SECONDS)
    ended = time.monotonic()
    verdict, detail = _verdict(answered, job, fault)
    if verdict is Verdict.HANG:
        faulthandler.dump_traceback(log)
    if verdict is Verdict.NAMED and not _producers_end(stage, ended + LEFT_SECONDS):
        verdict, detail = _next_query(stage, detail)
    if not _producers_end(stage, ended + PRODUCER_SECONDS):
        verdict, detail = Verdict.HANG, f"a producer waits for ever; the query: {detail}"
        faulthandler.dump_traceback(log)
    producers_s = time.monotonic() - ended if stage.producers else 0.0
    heal(world)
    leaks = _after(stage, before) if verdict is not Verdict.HANG else ""
    if verdict is not Verdict.HANG and (wrong := job.wrong_end(stage)):
        verdict, detail = Verdict.WRONG, f"{wrong}; the statement: {detail}"
    return Outcome(
        index, job.name, fault.name, verdict.value, detail, round(ended - injected, 2), round(producers_s, 2), leaks
    )


def _producers_end(stage: Stage, deadline: float) -> bool:
    for producer in stage.producers:
        producer.join(max(0.0, deadline - time.monotonic()))
    return not any(producer.is_alive() for producer in stage.producers)


def _next_query(stage: Stage, detail: str) -> tuple[Verdict, str]:
    """A query that was refused while it was planned leaves the streaming table to the next, which must get it all."""
    try:
        found = stage.ctx.collect(f"SELECT count(*) AS c FROM {PUSHED}").to_pylist()
    except Exception as error:  # whatever it is, the producers are not read and must hear of it
        return Verdict.NAMED, f"{detail}; the next query: {error}"[:400]
    right = found == [{"c": TOTAL}]
    return (Verdict.NAMED if right else Verdict.WRONG), f"{detail}; the next query found {found}"


class _Answer(threading.Thread):
    def __init__(self, stage: Stage, job: Job) -> None:
        super().__init__(name="query", daemon=True)
        self._stage = stage
        self._job = job
        self.found: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.found = self._job.run(self._stage)
        except BaseException as error:
            self.error = error


def _verdict(answered: _Answer, job: Job, fault: Fault) -> tuple[Verdict, str]:
    error = answered.error
    if answered.is_alive():
        return Verdict.HANG, f"no end after {HANG_SECONDS} s"
    if error is None:
        if answered.found == job.answer:
            return Verdict.RIGHT, ""
        return Verdict.WRONG, f"{str(answered.found)[:200]} instead of {str(job.answer)[:200]}"
    line = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160] if str(error).strip() else ''}"
    if fault.cause and fault.cause.lower() not in f"{type(error).__name__}: {error}".lower():
        return Verdict.UNNAMED, f"{fault.cause!r} is not told: {line}"
    if fault.harmless:
        return Verdict.UNNAMED, f"an error where none was due: {line}"
    named = isinstance(error, hr.HeadraceError) or (
        isinstance(error, PySparkException) and _SPARKS_WORD.search(str(error)) is not None
    )
    return (Verdict.NAMED if named else Verdict.UNNAMED), line


def _residue() -> set[str]:
    """Threads, and files of Headrace's in the temporary directory."""
    names = {thread.name for thread in threading.enumerate()} - {_LASTING}
    threads = {f"thread {name}" for name in names if name.startswith("headrace-")}
    return threads | {f"file {path.name}" for path in Path(tempfile.gettempdir()).glob("headrace*")}


def _after(stage: Stage, before: set[str]) -> str:
    """What is still there some seconds after the context was closed, and was not there before."""
    stage.ctx.close()
    stage.sinks.clear()
    stage.result = None
    gc.collect()
    deadline = time.monotonic() + LEAK_SECONDS
    while (left := _residue() - before) and time.monotonic() < deadline:
        time.sleep(0.2)
    return ", ".join(sorted(left))
