"""check_writer: what a table that can be written to promises, verified without Spark; runs in the test's process."""

from __future__ import annotations

import contextlib
import itertools
import json
import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, NoReturn

import pyarrow as pa

from headrace.arguments import checked
from headrace.arrow.conversion import table_in_types
from headrace.arrow.rows import counted
from headrace.arrow.types import wire_schema
from headrace.errors import HeadraceError, PlanError, WriteError
from headrace.expr.nodes import Column, Expr, IsNull
from headrace.negotiate.pickling import pickled_task
from headrace.negotiate.writing import PlannedWrite
from headrace.plan import Placement
from headrace.provider import declared_schema
from headrace.tables.choose import not_a_provider
from headrace.testing.generated import runtime_filters
from headrace.testing.probe import USER_ERRORS, CheckStopped, Probe, clipped, error_text
from headrace.testing.report import READ_PROMISES, WRITE_PROMISES, Findings, Promise, Report, Severity
from headrace.testing.rows import difference
from headrace.testing.truth import is_true
from headrace.testing.written_rows import written_rows
from headrace.write import Message, WritableProvider, WriteMode, WritePlan, WriteRequest

_ROWS = 40
_TASKS = 3


class _Cut(Exception):
    """Raised out of the batches of a task in place of their end."""


@checked("rows", "seed", "max_rows")
def check_writer(
    provider: WritableProvider, *, rows: pa.Table | None = None, seed: int = 0, max_rows: int = 100_000
) -> Report:
    """Verify what a table that can be written to promises (see ``Promise``), without Spark. Its rows change.

    The table is written to as Spark's tasks and driver do it, and read after each step: committed, committed again,
    aborted, left alone, with two attempts of a task and one whose stream is cut, in each mode that it states, with
    epochs that come again. A plan for the executors is pickled for each attempt. Give it a small table of its own.

    ``rows``: what to write, in the table's schema; they are made up otherwise, which a table with keys may not take.
    ``seed``: of the rows that are made up. ``max_rows``: a table with more rows is not checked.

    Raises TypeError for something that is not a WritableProvider, ValueError for a column of which no value can be made
    up. What the table does wrong is in the report.
    """
    if not isinstance(provider, WritableProvider):
        raise TypeError(f"check_writer takes a WritableProvider, not {not_a_provider(provider)}")
    check = _WriterCheck(provider, rows, seed, max_rows)
    with contextlib.suppress(CheckStopped):
        check.run()
    return check.report()


class _WriterCheck:
    def __init__(self, provider: WritableProvider, rows: pa.Table | None, seed: int, max_rows: int) -> None:
        schema = declared_schema(provider)
        self.provider = provider
        self.schema = schema
        self.findings = Findings()
        self.probe = Probe(provider, schema, self.findings, max_rows)
        self.rng = Random(seed)
        self.rows = written_rows(schema, _ROWS, self.rng) if rows is None else rows.select(schema.names).cast(schema)
        self.attempts = itertools.count(1)
        self.checked: set[Promise] = set()
        self.known = self.empty = wire_schema(schema).empty_table()
        self.most = 0

    def run(self) -> None:
        self.known = self._read(Promise.WRITING)
        for promise, step in (
            (Promise.WRITING, self._check_commit),
            (Promise.COMMIT, self._check_cut_stream),
            (Promise.ATTEMPTS, self._check_attempts),
            (Promise.ABORT, self._check_abort),
            (Promise.EPOCHS, self._check_epochs),
            (Promise.WRITE_MODES, self._check_modes),
        ):
            step()
            self.checked.add(promise)

    def report(self) -> Report:
        # reading the table back can break promises of reading, such as planning without I/O
        of_reading = tuple(promise for promise in READ_PROMISES if self.findings.is_broken(promise))
        promises = (*of_reading, *WRITE_PROMISES)
        broken = ", ".join(one for one in promises if self.findings.is_broken(one))
        for promise in WRITE_PROMISES:
            if promise not in self.checked and not self.findings.is_broken(promise):
                self.findings.add(promise, f"to be checked when this is fixed: {broken}", Severity.UNCHECKED)
        name = type(self.provider).__name__
        return Report(name, self.findings.all(), promises, self.probe.scans, self.most)

    def _check_commit(self) -> None:
        plan = self._insert(Promise.WRITING)
        third = self.rows.num_rows // _TASKS
        parts = [self.rows.slice(0, third), self.rows.slice(third, 0), self.rows.slice(third)]
        messages = self._written(plan, parts)
        self._expect(Promise.COMMIT, self.known, "rows are seen before they are committed")
        self._commit(plan, messages)
        self._expect(Promise.WRITING, self._and(self.rows), "the rows that were written are not those that are read")
        self._commit(plan, messages)
        self._expect(Promise.COMMIT, self.known, "to commit the same messages again changed the rows")

    def _check_cut_stream(self) -> None:
        plan = self._insert(Promise.WRITING)
        cut = itertools.chain(self._batches(self.rows.slice(0, 5)), _raising(_Cut("the stream was cut")))
        try:
            self._attempt(plan, 0, cut)
            message = f"{type(plan).__name__}.write took a stream that was cut for one that ended: rows would be lost"
            self.findings.add(Promise.WRITING, message)
        except USER_ERRORS:
            pass
        kept = self.rows.slice(5, 7)
        self._commit(plan, [self._write(plan, 0, kept)])
        message = "the rows of an attempt whose stream was cut, and of the next one, are not those of the next one"
        self._expect(Promise.ATTEMPTS, self._and(kept), message)

    def _check_attempts(self) -> None:
        plan = self._insert(Promise.WRITING)
        rows = self.rows.slice(0, 9)
        attempts = [self._write(plan, 0, rows) for _ in range(2)]
        other = self._write(plan, 1, self.rows.slice(9, 3))
        self._commit(plan, [attempts[1], other])
        message = "of two attempts of one task, one was committed, and the rows are not its own"
        self._expect(Promise.ATTEMPTS, self._and(self.rows.slice(0, 12)), message)

    def _check_abort(self) -> None:
        plan = self._insert(Promise.ABORT)
        messages = [self._write(plan, 0, self.rows.slice(0, 5)), None]
        self._abort(plan, messages)
        self._expect(Promise.ABORT, self.known, "a write that was aborted has changed the rows")
        left = self._insert(Promise.ABORT)
        self._write(left, 0, self.rows.slice(0, 5))
        del left
        self._expect(Promise.ABORT, self.known, "a write that nobody committed or aborted has changed the rows")
        plan, rows = self._insert(Promise.ABORT), self.rows.slice(0, 4)
        message = self._write(plan, 0, rows)
        self._commit(plan, [message])
        self._abort(plan, [message])
        text = "an abort that follows a commit, as where Spark could not be told of it, changed the rows"
        self._expect(Promise.ABORT, self._and(rows), text)

    def _check_epochs(self) -> None:
        query = f"headrace-check-{uuid.uuid4()}"
        for number, epoch in enumerate((0, 1, 1, 2, 2)):
            rows = self.rows.slice(epoch, 2)
            plan = self._insert(Promise.EPOCHS, query_id=query, epoch=epoch)
            self._commit(plan, [self._write(plan, 0, rows, epoch)])
            again = number in (2, 4)
            expected = self.known if again else self._and(rows)
            text = f"epoch {epoch} of a query was committed {'again' if again else 'once'}, and the rows are not right"
            self._expect(Promise.EPOCHS, expected, text)

    def _check_modes(self) -> None:
        with self._reported(Promise.WRITE_MODES, "write_modes"):
            modes = self.provider.write_modes()
        if WriteMode.APPEND not in modes:
            self.findings.add(Promise.WRITE_MODES, "write_modes has no APPEND, which every table takes")
        if WriteMode.OVERWRITE in modes:
            self._check_filtered("can_overwrite", self._overwrite)
        if WriteMode.DYNAMIC in modes:
            self._check_dynamic()
        self._check_filtered("can_delete", self._delete)
        if WriteMode.TRUNCATE in modes:
            self._replace(WriteMode.TRUNCATE, (), self.rows.slice(0, 6))
            self._expect(
                Promise.WRITE_MODES, self._wire(self.rows.slice(0, 6)), "TRUNCATE left other rows than its own"
            )
        with self._reported(Promise.WRITE_MODES, "can_delete"):
            empties = self.provider.can_delete(())
        if empties:
            self._delete(())
            self._expect(Promise.WRITE_MODES, self.empty, "delete without filters left rows")

    def _check_filtered(self, question: str, act: Callable[[tuple[Expr, ...]], pa.Table | None]) -> None:
        """The first filters that the table agrees to, one after the other: the rows for which they hold go."""
        candidates = [*runtime_filters(self.known, self.rng, 1), *(IsNull(Column(name)) for name in self.schema.names)]
        tried = 0
        for expr in candidates:
            with self._reported(Promise.WRITE_MODES, question):
                agrees = getattr(self.provider, question)((expr,))
            if not agrees or tried == 4:
                continue
            try:
                doomed = is_true(expr, self.known)
            except (NotImplementedError, HeadraceError):
                continue
            tried += 1
            kept = self.known.filter(pa.compute.invert(doomed))
            new = act((expr,))
            expected = kept if new is None else pa.concat_tables([kept, new])
            text = f"{question} agreed to `{expr!r}`, and then the rows are not the ones that it leaves"
            self._expect(Promise.WRITE_MODES, expected, text)

    def _check_dynamic(self) -> None:
        """Which columns are those of partitions is not known here: the new rows are there, and no others are new."""
        rows = self.rows.slice(0, 3)
        self._replace(WriteMode.DYNAMIC, (), rows)
        found = self._read(Promise.WRITE_MODES)
        if missing := difference(self._wire(rows), found).missing:
            text = f"DYNAMIC lost {counted(len(missing), 'row')} of those that were written"
            self.findings.add(Promise.WRITE_MODES, text)
        if extra := difference(self._and(rows), found).extra:
            text = f"DYNAMIC has {counted(len(extra), 'row')} that were neither there nor written"
            self.findings.add(Promise.WRITE_MODES, text)
        self.known = found

    def _overwrite(self, filters: tuple[Expr, ...]) -> pa.Table:
        rows = self.rows.slice(0, 2)
        self._replace(WriteMode.OVERWRITE, filters, rows)
        return self._wire(rows)

    def _delete(self, filters: tuple[Expr, ...]) -> None:
        with self._reported(Promise.WRITE_MODES, "delete"):
            self.provider.delete(filters)

    def _replace(self, mode: WriteMode, filters: tuple[Expr, ...], rows: pa.Table) -> None:
        plan = self._insert(Promise.WRITE_MODES, mode=mode, filters=filters)
        messages = self._written(plan, [rows])
        self._expect(Promise.WRITE_MODES, self.known, f"a write of mode {mode.name} is seen before it is committed")
        self._commit(plan, messages)

    def _insert(self, blame: Promise, **fields: Any) -> WritePlan:
        with self._reported(blame, "insert"):
            plan = self.provider.insert(WriteRequest(self.schema, **{"query_id": str(uuid.uuid4()), **fields}))
        if not isinstance(plan, WritePlan):
            text = f"{type(self.provider).__name__}.insert returned {type(plan).__name__}, expected a WritePlan"
            self.findings.add(blame, text)
            raise CheckStopped
        return plan

    def _written(self, plan: WritePlan, parts: Sequence[pa.Table]) -> list[Message]:
        """All tasks of one write; in this process at once, as Spark runs them."""
        if plan.placement is Placement.DRIVER:
            with ThreadPoolExecutor(_TASKS, "headrace-check") as threads:
                return list(threads.map(self._write, [plan] * len(parts), range(len(parts)), parts))
        return [self._write(plan, i, rows) for i, rows in enumerate(parts)]

    def _write(self, plan: WritePlan, partition: int, rows: pa.Table, epoch: int | None = None) -> Message:
        try:
            return self._attempt(plan, partition, self._batches(rows), epoch)
        except (PlanError, WriteError) as error:
            self._stop(Promise.WRITING, str(error), error)
        except USER_ERRORS as error:
            self._stop(Promise.WRITING, f"{type(plan).__name__}.write raised {error_text(error)}", error)

    def _attempt(
        self, plan: WritePlan, partition: int, batches: Iterator[pa.RecordBatch], epoch: int | None = None
    ) -> Message:
        """One attempt of a task as it runs for Spark, in another process or in this one."""
        task = PlannedWrite(self.probe.table, WriteMode.APPEND).code(plan, epoch).task()
        if plan.placement is Placement.EXECUTORS:
            task = pickle.loads(pickled_task(task, by_value=False))
        message = task.receive(partition, next(self.attempts), batches)
        if next(batches, None) is not None:
            raise WriteError(f"{type(plan).__name__}.write returned before it had read all batches: rows would be lost")
        return json.loads(message)

    def _commit(self, plan: WritePlan, messages: Sequence[Message]) -> None:
        with self._reported(Promise.COMMIT, "commit", plan):
            plan.commit(messages)

    def _abort(self, plan: WritePlan, messages: Sequence[Message | None]) -> None:
        with self._reported(Promise.ABORT, "abort", plan):
            plan.abort(messages)

    def _batches(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        return iter([*self._wire(rows).to_batches(max_chunksize=4), *self.empty.to_batches()])

    def _wire(self, rows: pa.Table) -> pa.Table:
        return table_in_types(rows, wire_schema(self.schema))

    def _and(self, rows: pa.Table) -> pa.Table:
        return pa.concat_tables([self.known, self._wire(rows)])

    def _expect(self, promise: Promise, expected: pa.Table, what: str) -> None:
        found = self._read(promise)
        differs = difference(expected, found)
        if differs:
            self.findings.add(promise, clipped(f"{what}: {differs}"))
        self.known = found

    def _read(self, blame: Promise) -> pa.Table:
        reading = self.probe.read(self.probe.plan(blame), blame)
        if not reading.complete:
            self._stop(blame, f"the table has more than max_rows={self.probe.max_rows:,} rows: give it a smaller one")
        self.most = max(self.most, reading.table.num_rows)
        return reading.table

    @contextlib.contextmanager
    def _reported(self, blame: Promise, method: str, owner: object | None = None) -> Iterator[None]:
        try:
            yield
        except USER_ERRORS as error:
            name = type(self.provider if owner is None else owner).__name__
            self._stop(blame, f"{name}.{method} raised {error_text(error)}", error)

    def _stop(self, promise: Promise, message: str, cause: BaseException | None = None) -> NoReturn:
        self.findings.add(promise, clipped(message))
        raise CheckStopped from cause


def _raising(error: Exception) -> Iterator[pa.RecordBatch]:
    raise error
    yield  # a generator: it raises when it is asked for a batch
