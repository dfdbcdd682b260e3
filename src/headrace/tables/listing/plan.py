"""ListingPlan: reads a partition's files one after the other and checks what the format gives; executor Python."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from headrace.arrow.batches import indented
from headrace.arrow.conversion import to_wire
from headrace.arrow.sizes import COUNTED_ROWS
from headrace.arrow.sources import batch_iterator, close_sources, hint_for
from headrace.errors import SchemaMismatchError
from headrace.plan import ExecutionPlan, Partitioning, Placement, ScanRequest, Statistics
from headrace.tables.listing.format import DataFile, FileFormat


class PlannedFile(NamedTuple):
    """A file to read, its values of the requested partition columns, and its rows if nothing else is asked."""

    file: DataFile
    values: tuple[Any, ...]
    only_rows: int | None


class ListingPlan(ExecutionPlan):
    """A scan of the files that may hold a needed row. Carries paths, not open files."""

    def __init__(
        self,
        *,
        format: FileFormat,
        schema: pa.Schema,
        file_schema: pa.Schema,
        request: ScanRequest,
        partition_columns: tuple[str, ...],
        partitions: list[list[PlannedFile]],
        partitioning: Partitioning,
        placement: Placement,
        statistics: Statistics,
        total_files: int,
        runtime_filter_columns: tuple[str, ...] = (),
    ) -> None:
        self.schema = schema
        self.runtime_filter_columns = runtime_filter_columns
        self.partitioning = partitioning
        self.placement = placement
        self._format = format
        self._file_schema = file_schema
        self._request = request
        self._partition_columns = partition_columns
        self._partitions = partitions
        self._statistics = statistics
        self._total_files = total_files

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        limit = self._request.limit
        for planned in self._partitions[partition]:
            complete = self._completer(planned)
            rows = 0
            for batch in self._file_batches(planned):
                yield complete(batch)
                rows += batch.num_rows
                if limit is not None and rows >= limit:
                    break  # for files that are sorted; where these rows are enough, nobody asks for the next file

    def describe(self) -> str:
        """The format and how many files are left, which is what one wants to know of skipping."""
        read = len({planned.file.path for group in self._partitions for planned in group})
        return f"{self._format_name}, {read:,} of {self._total_files:,} files"

    def statistics(self) -> Statistics:
        """Of the files that are left: exact without filters inside of files, else an upper bound."""
        return self._statistics

    @property
    def _format_name(self) -> str:
        return type(self._format).__name__

    def _file_batches(self, planned: PlannedFile) -> Iterator[pa.RecordBatch]:
        """Batches with the request's columns of the file; what the format opened is closed in every case."""
        if planned.only_rows is not None:
            yield from _empty_rows(planned.only_rows)
            return
        file, where = planned.file, f"{self._format_name}.read"
        with naming(file, where):
            source = self._format.read(file, self._request)
            batches = batch_iterator(source, where)
        try:
            while True:
                with naming(file, where):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield self._selected(batch, file)
        finally:
            close_sources(batches, source)

    def _selected(self, batch: Any, file: DataFile) -> pa.RecordBatch:
        if not isinstance(batch, pa.RecordBatch):
            raise SchemaMismatchError(
                f"{self._format_name}.read yielded {type(batch).__name__} for the file {file}, "
                f"expected pyarrow.RecordBatch{hint_for(batch)}"
            )
        if not len(self._file_schema):  # the format was asked for a column, so that its batches have rows
            return batch.select([])
        wanted = self._request.schema
        columns = []
        for field, unpruned in zip(wanted, self._file_schema, strict=True):
            positions = batch.schema.get_all_field_indices(field.name)
            column = batch.column(positions[0]) if len(positions) == 1 else None
            if column is None or column.type not in (field.type, unpruned.type):
                raise SchemaMismatchError(
                    f"the file {file} does not have the table's column {field.name!r}: its schema differs from "
                    "the first file's, which is the table's; convert the file, or leave it out of the paths\n"
                    f"expected:\n{indented(self._file_schema)}\nfound:\n{indented(batch.schema)}"
                )
            columns.append(to_wire(column, field.type, field.name))
        return pa.RecordBatch.from_arrays(columns, schema=wanted)

    def _completer(self, planned: PlannedFile) -> Any:
        """A function that adds the partition columns of ``planned`` and puts all columns in the plan's order."""
        if not self._partition_columns:
            return lambda batch: batch
        constants = {
            name: _Constant(pa.scalar(value, self.schema.field(name).type))
            for name, value in zip(self._partition_columns, planned.values, strict=True)
        }

        def complete(batch: pa.RecordBatch) -> pa.RecordBatch:
            columns = [
                constants[name].array(batch.num_rows) if name in constants else batch.column(name)
                for name in self.schema.names
            ]
            return pa.RecordBatch.from_arrays(columns, schema=self.schema)

        return complete


class _Constant:
    """Arrays of one value, of any length; slices of one array that is made anew only when it is too short."""

    def __init__(self, scalar: pa.Scalar) -> None:
        self._scalar = scalar
        self._array = pa.repeat(scalar, 0)

    def array(self, length: int) -> pa.Array:
        if len(self._array) < length:
            self._array = pa.repeat(self._scalar, length)
        return self._array.slice(0, length)


@contextlib.contextmanager
def naming(file: DataFile, where: str) -> Iterator[None]:
    """Whatever is raised inside keeps its class and message, and gets a note that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        error.add_note(
            f"in {where}: the file {file} was there when the ListingTable was made; if it was moved or deleted "
            "since, run REFRESH TABLE"
        )
        raise
    except Exception as error:
        error.add_note(f"in {where} of the file {file}: repair the file, or leave it out of the paths")
        raise


def _empty_rows(count: int) -> Iterator[pa.RecordBatch]:
    """``count`` rows without columns."""
    rows = pa.RecordBatch.from_arrays([pa.nulls(min(count, COUNTED_ROWS))], names=["nothing"]).select([])
    for start in range(0, count, COUNTED_ROWS):
        yield rows.slice(0, min(COUNTED_ROWS, count - start))
