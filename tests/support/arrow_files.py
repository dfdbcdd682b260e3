"""Arrow files and a format of our own that reads them, for the tests of ListingTable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


class ArrowFormat(hr.FileFormat):
    """Arrow IPC files; one record batch is a part. Leaves a marker beside ``opened`` for each file that is read."""

    def __init__(self, opened: Path | None = None, exact: bool = False, known: bool = True) -> None:
        self.opened, self.exact, self.known = opened, exact, known

    def schema(self, file: hr.DataFile) -> pa.Schema:
        with file.open() as opened, pa.ipc.open_file(opened) as reader:
            return reader.schema

    def statistics(self, file: hr.DataFile) -> hr.ContainerStats | None:
        if not self.known:
            return None
        table = pa.Table.from_batches(list(self._batches(file)))
        ids = table.column("id")
        bounds = pc.min_max(ids).as_py()
        column = hr.ColumnStats(bounds["min"], bounds["max"], ids.null_count)
        return hr.ContainerStats({"id": column}, table.num_rows)

    def split(self, file: hr.DataFile) -> Sequence[hr.DataFile]:
        with file.open() as opened, pa.ipc.open_file(opened) as reader:
            count = reader.num_record_batches
        return [file.with_part(i, file.size_in_bytes // count) for i in range(count)]

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[hr.FilterPushdown]:
        return [hr.FilterPushdown.EXACT if self.exact else hr.FilterPushdown.UNSUPPORTED] * len(filters)

    def read(self, file: hr.DataFile, request: hr.ScanRequest) -> Iterator[pa.RecordBatch]:
        if self.opened is not None:
            (self.opened / Path(file.path).name).touch()
        for batch in self._batches(file):
            for expr in request.filters if self.exact else ():
                batch = batch.filter(expr.evaluate(batch))
            yield batch

    def _batches(self, file: hr.DataFile) -> Iterator[pa.RecordBatch]:
        with file.open() as opened, pa.ipc.open_file(opened) as reader:
            for i in range(reader.num_record_batches):
                if file.part in (None, i):
                    yield reader.get_batch(i)


def write(path: Path, ids: Sequence[int | None], *, chunk: int = 1000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": ids, "name": [f"n{i}" for i in ids]}, SCHEMA)
    with pa.ipc.new_file(path, SCHEMA) as writer:
        writer.write_table(table, max_chunksize=chunk)
    return path


def request(
    provider: hr.TableProvider, *names: str, filters: tuple[hr.Expr, ...] = (), limit: int | None = None
) -> hr.ScanRequest:
    schema = provider.schema()
    return hr.ScanRequest(pa.schema([schema.field(name) for name in names]), names, filters, limit)


def count(plan: hr.ExecutionPlan) -> int:
    return sum(batch.num_rows for i in range(plan.partitioning.n) for batch in plan.execute(i))


def column(name: str, op: str, value: Any, type_: pa.DataType | None = None) -> hr.Expr:
    return hr.Comparison(op, hr.Column(name), hr.Literal(value, type_ or pa.scalar(value).type))  # type: ignore[arg-type]


def opened_files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())
