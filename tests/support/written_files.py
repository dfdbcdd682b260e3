"""A table of files that Spark writes to, as simple as it can be right: staged by attempt, published by one rename."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import headrace as hr

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ALL_MODES = frozenset(hr.WriteMode)


def nothing(place: str, task: hr.WriteTask | None) -> None:
    """The fault that is none. Others raise, die or wait: at "write", "batch", "end", "commit", "committed", "abort"."""


@dataclass
class FileTable(hr.WritableProvider):
    """Rows in Arrow files of ``directory``; ``published`` names those that readers see. All calls are logged there."""

    directory: Path
    columns: pa.Schema = field(default_factory=lambda: SCHEMA)
    placement: hr.Placement = hr.Placement.EXECUTORS
    modes: frozenset[hr.WriteMode] = ALL_MODES
    wanted: hr.WriteLayout | None = None
    fault: Callable[[str, hr.WriteTask | None], None] = nothing
    replaceable: bool = True

    def schema(self) -> pa.Schema:
        return self.columns

    def published(self) -> list[str]:
        record = self.directory / "published"
        return list(json.loads(record.read_text())) if record.exists() else []

    def rows(self) -> list[dict[str, Any]]:
        """What readers see, sorted."""
        tables = [read(self.directory / name) for name in self.published()]
        rows = [row for table in tables for row in table.to_pylist()]
        return sorted(rows, key=lambda row: json.dumps(row, default=str, sort_keys=True))

    def calls(self, *kinds: str) -> list[list[Any]]:
        """What was called, in order, of these kinds or of all."""
        path = self.directory / "calls"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if not kinds or line[0] in kinds]

    def staged(self) -> list[str]:
        return sorted(path.name for path in self.directory.glob("*.arrow") if path.name not in self.published())

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        log(self.directory, "scan")
        return hr.MemTable(pa.Table.from_pylist(self.rows(), self.columns)).scan(request)

    def insert(self, request: hr.WriteRequest) -> hr.WritePlan:
        log(self.directory, "insert", request.mode.name, request.query_id, request.epoch, dict(request.options))
        assert request.schema == self.columns
        return FilePlan(self, request)

    def write_modes(self) -> set[hr.WriteMode]:
        return set(self.modes)

    def can_overwrite(self, filters: Sequence[hr.Expr]) -> bool:
        log(self.directory, "can_overwrite", *map(repr, filters))
        return self.replaceable

    def layout(self, mode: hr.WriteMode) -> hr.WriteLayout | None:
        return self.wanted

    def can_delete(self, filters: Sequence[hr.Expr]) -> bool:
        log(self.directory, "can_delete", *map(repr, filters))
        return self.replaceable

    def delete(self, filters: tuple[hr.Expr, ...]) -> None:
        log(self.directory, "delete", *map(repr, filters))
        table = pa.Table.from_pylist([row for row in self.rows() if not self._holds(row, filters)], self.columns)
        store(self.directory / "rest.arrow", table.to_batches(), self.columns)
        publish(self.directory, ["rest.arrow"])

    def kept(self, request: hr.WriteRequest, new: list[str]) -> list[str]:
        """The names of what stays of the rows there were; for DYNAMIC a partition is a value of the first column."""
        if request.mode is hr.WriteMode.APPEND:
            return self.published()
        if request.mode is hr.WriteMode.TRUNCATE:
            return []
        if request.mode is hr.WriteMode.OVERWRITE:
            rest = [row for row in self.rows() if not self._holds(row, request.filters)]
        else:
            key = self.columns.names[0]
            written = {row[key] for name in new for row in read(self.directory / name).to_pylist()}
            rest = [row for row in self.rows() if row[key] not in written]
        name = f"rest {request.query_id}.arrow"
        store(self.directory / name, pa.Table.from_pylist(rest, self.columns).to_batches(), self.columns)
        return [name]

    def _holds(self, row: dict[str, Any], filters: tuple[hr.Expr, ...]) -> bool:
        batch = pa.RecordBatch.from_pylist([row], self.columns)
        return all(one.evaluate(batch)[0].as_py() is True for one in filters)


class FilePlan(hr.WritePlan):
    def __init__(self, table: FileTable, request: hr.WriteRequest) -> None:
        self.placement = table.placement
        self.table = table
        self.request = request

    def write(self, task: hr.WriteTask, batches: Iterator[pa.RecordBatch]) -> hr.Message:
        directory, fault = self.table.directory, self.table.fault
        log(directory, "write", task.partition, task.attempt, task.epoch)
        fault("write", task)
        taken = []
        for batch in batches:
            assert batch.schema.equals(self.request.schema, check_metadata=True), batch.schema
            taken.append(batch)
            fault("batch", task)
        name = f"{self.request.query_id} {task.epoch} {task.partition} {task.attempt}.arrow"
        store(directory / name, taken, self.request.schema)
        log(directory, "written", task.partition, task.attempt)
        fault("end", task)
        return {"file": name, "rows": sum(batch.num_rows for batch in taken)}

    def commit(self, messages: Sequence[hr.Message]) -> None:
        log(self.table.directory, "commit", len(messages))
        self.table.fault("commit", None)
        new = [message["file"] for message in messages]
        kept = self.table.kept(self.request, new)
        publish(self.table.directory, [*kept, *(name for name in new if name not in kept)])
        self.table.fault("committed", None)

    def abort(self, messages: Sequence[hr.Message | None]) -> None:
        log(self.table.directory, "abort", [message is not None for message in messages])
        published = self.table.published()
        for message in messages:
            if message is not None and message["file"] not in published:
                (self.table.directory / message["file"]).unlink(missing_ok=True)
        self.table.fault("abort", None)


def read(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_stream(file).read_all()


def store(path: Path, batches: list[pa.RecordBatch], schema: pa.Schema) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)


def publish(directory: Path, names: list[str]) -> None:
    record = directory / "publishing"
    record.write_text(json.dumps(names))
    record.rename(directory / "published")


def log(directory: Path, *words: Any) -> None:
    line = json.dumps(words) + "\n"
    file = os.open(directory / "calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(file, line.encode())  # whole lines, whichever process writes
    finally:
        os.close(file)
