"""A table that jobs write to: files that tasks stage by attempt, published by one rename; in both placements."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

import headrace as hr


class Written(hr.WritableProvider):
    """Rows in files of ``directory``, which all hosts see."""

    def __init__(self, directory: Path, schema: pa.Schema, placement: hr.Placement) -> None:
        self.directory = directory
        self.placement = placement
        self._schema = schema
        directory.mkdir(parents=True)

    def schema(self) -> pa.Schema:
        return self._schema

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        raise NotImplementedError("the campaign reads the files")

    def insert(self, request: hr.WriteRequest) -> hr.WritePlan:
        return WrittenPlan(self.directory, self._schema, self.placement)

    def published(self) -> list[int] | None:
        """The numbers that readers would see, sorted; None where nothing was published."""
        record = self.directory / "published"
        if not record.exists():
            return None
        numbers: list[int] = []
        for name in json.loads(record.read_text()):
            with pa.OSFile(str(self.directory / name)) as file:
                numbers += pa.ipc.open_stream(file).read_all()["n"].to_pylist()
        return sorted(numbers)


class WrittenPlan(hr.WritePlan):
    def __init__(self, directory: Path, schema: pa.Schema, placement: hr.Placement) -> None:
        self.directory = directory
        self.schema = schema
        self.placement = placement

    def write(self, task: hr.WriteTask, batches: Iterator[pa.RecordBatch]) -> hr.Message:
        name = f"{task.partition}-{task.attempt}.arrow"
        with pa.OSFile(str(self.directory / name), "wb") as file, pa.ipc.new_stream(file, self.schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
        return name

    def commit(self, messages: Sequence[hr.Message]) -> None:
        record = self.directory / "publishing"
        record.write_text(json.dumps(list(messages)))
        record.rename(self.directory / "published")
