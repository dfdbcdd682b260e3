"""DatasetPlan: reads the files of one partition with pyarrow's scanner, on one thread; runs on executors."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.arrow.rows import counted
from headrace.arrow.sizes import BATCH_ROWS
from headrace.arrow.types import is_list, with_nested
from headrace.errors import SchemaMismatchError
from headrace.plan import ExecutionPlan, Partitioning, Placement, Statistics
from headrace.tables.dataset.calendars import OldDays, old_days
from headrace.tables.dataset.chunks import gives_dictionaries
from headrace.tables.dataset.footers import is_parquet, row_groups_in
from headrace.tables.dataset.int96 import int96_paths, is_naive, reading_instants, type_at
from headrace.tables.dataset.row_groups import RowGroupPruning
from headrace.tables.dataset.spelling import spelled_fields, with_names_of

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_BATCHES_AHEAD = 2
_JSON_READ_BYTES = 1 << 20
_FORMATS_OF_ARROW = ("ipc", "arrow", "feather")
_FORMATS_WITH_VIEWS = ("parquet", "arrow", "feather")


@dataclass(frozen=True)
class Piece:
    """A file, or the row groups of a Parquet file whose middle lies in ``span`` (a range of bytes).

    ``partition`` is an expression that holds for all of its rows, pickled: every task gets the pieces of all, and opens
    its own. ``keys`` are the columns that it sets. Plain data: nothing is open.
    """

    path: str
    format: Any
    filesystem: Any
    partition: bytes
    row_groups: tuple[int, ...] | None = None
    size: int = 0
    span: tuple[int, int] | None = None
    keys: dict[str, Any] = dataclasses.field(default_factory=dict, compare=False)

    @property
    def bytes_to_read(self) -> int:
        return self.size if self.span is None else self.span[1] - self.span[0]

    def fragment(self, *, with_keys: bool = True) -> ds.Fragment:
        """The piece for pyarrow to scan. Opens the file if only some of its row groups are wanted.

        Without its keys it has the file's own columns only.
        """
        partition = pickle.loads(self.partition) if with_keys else None
        chosen = {} if self.row_groups is None else {"row_groups": list(self.row_groups)}
        size = {"file_size": self.size} if self.size else {}
        if self.format.default_extname == "json" and (line := self._lone_line()) is not None:
            return self.format.make_fragment(line, None, partition)
        found = self.format.make_fragment(self.path, self.filesystem, partition, **chosen, **size)
        if self.row_groups == ():  # for pyarrow's make_fragment that is all of them
            return found.subset(row_group_ids=[])
        if self.span is None:
            return found
        wanted = row_groups_in(found.metadata, self.span, self.size)
        if self.row_groups is not None:
            wanted = [i for i in wanted if i in self.row_groups]
        return found.subset(row_group_ids=wanted)

    def _lone_line(self) -> pa.Buffer | None:
        """The text of a JSON file of one line, with an end of line: without one, pyarrow reads nulls for all values."""
        parts: list[bytes] = []
        with self.filesystem.open_input_stream(self.path) as file:
            while read := file.read(_JSON_READ_BYTES):
                part = read if parts else read.lstrip()
                if b"\n" in part:
                    return None
                parts += [part] if part else []
        return pa.py_buffer(b"".join([*parts, b"\n"])) if parts else None


@dataclass(frozen=True)
class MemoryPiece:
    """Rows of a dataset that are in memory, in the types of the table; never pickled."""

    rows: pa.Table
    path: str = "in memory"

    @property
    def bytes_to_read(self) -> int:
        return int(self.rows.nbytes)

    def fragment(self) -> ds.Fragment:
        import pyarrow.dataset as ds

        (found,) = ds.dataset(self.rows).get_fragments()
        return found


class DatasetPlan(ExecutionPlan):
    """A scan of files that pyarrow reads, filters and projects; where some data is in memory, in the driver."""

    def __init__(
        self,
        *,
        schema: pa.Schema,
        dataset_schema: pa.Schema,
        condition: Any,
        condition_on_views: Any,
        filtered: Collection[str],
        limit: int | None,
        partitions: list[list[Piece | MemoryPiece]],
        partitioning: Partitioning,
        statistics: Statistics | None,
        total_files: int,
        runtime_filter_columns: Sequence[str] = (),
        repeated: Collection[str] = (),
        pruning: RowGroupPruning | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """``filtered``: the columns that rows or row groups are chosen by.

        ``repeated``: columns of text or bytes with few values, which Parquet files are to give as dictionaries.

        ``pruning``: by which Parquet row groups are skipped, beside those that pyarrow skips because of ``condition``.

        ``notes``: what else EXPLAIN is to say.
        """
        self.schema = with_dictionaries(schema, repeated)
        self._repeated = repeated
        self._pruning = pruning
        self._notes = notes
        self.partitioning = partitioning
        self.dataset_schema = dataset_schema
        self.runtime_filter_columns = runtime_filter_columns
        self._condition = condition
        self._condition_on_views = condition_on_views
        self._needed = list(dict.fromkeys([*schema.names, *filtered]))
        self._limit = limit
        self._partitions = partitions
        self._statistics = statistics
        self._total_files = total_files
        if any(isinstance(piece, MemoryPiece) for group in partitions for piece in group):
            self.placement = Placement.DRIVER

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        for piece in self._partitions[partition]:
            rows = 0
            for batch in self.piece_batches(piece, self._limit):
                yield batch
                rows += batch.num_rows
                if self._limit is not None and rows >= self._limit:
                    break  # for files that are sorted; where these rows are enough, nobody asks for the next file

    def describe(self) -> str:
        every = [piece for group in self._partitions for piece in group]
        pieces = [piece for piece in every if isinstance(piece, Piece)]
        rows = sum(piece.rows.num_rows for piece in every if isinstance(piece, MemoryPiece))
        memory = [f"{counted(rows, 'row')} in memory"] if len(pieces) < len(every) else []
        if memory and not self._total_files:
            return ", ".join([*memory, *self._notes])
        read = len({piece.path for piece in pieces})
        kinds = ", ".join(sorted({piece.format.default_extname for piece in pieces})) or "nothing"
        return ", ".join([f"{kinds}, {read:,} of {self._total_files:,} files", *memory, *self._notes])

    def statistics(self) -> Statistics | None:
        """Estimates for the files that are left, and of what the filters leave; None where the table knows better."""
        return self._statistics

    def _condition_for(self, piece: Piece | MemoryPiece, fragment: ds.Fragment) -> Any:
        """pyarrow filters a file's columns as they are stored, not as the dataset's schema has them."""
        if self._condition is None or isinstance(piece, MemoryPiece):
            return self._condition
        may_have_views = fragment.format.default_extname in _FORMATS_WITH_VIEWS
        return self._condition_on_views if may_have_views and has_views(fragment.physical_schema) else self._condition

    def pieces(self, partition: int) -> list[Piece | MemoryPiece]:
        """What a partition is made of; nothing for a partition that is not there."""
        return self._partitions[partition] if partition < len(self._partitions) else []

    def piece_batches(self, piece: Piece | MemoryPiece, missing: int | None = None) -> Iterator[pa.RecordBatch]:
        """The matching rows of one piece, in batches that are not empty; ``missing``: how many are wanted."""
        try:
            fragment, schema = self._opened(piece)
            spelled = self._spelled(piece, fragment)
            self._refuse_lists(piece, fragment, spelled)
            old = self._old_days(piece, fragment, spelled)
            afterwards = old is not None or bool(spelled) or self._reads_nothing(piece, fragment)
            if spelled:
                schema = pa.schema([_in_spelling(field, spelled) for field in schema])
            elif self._pruning is not None and isinstance(piece, Piece) and is_parquet(piece.format):
                fragment = self._pruning.narrowed(fragment, [*piece.keys, *(old.columns if old else ())])
            scanner = fragment.scanner(
                schema=schema,
                columns=[_stored_name(name, spelled) for name in self._needed] if afterwards else self.schema.names,
                filter=None if afterwards else self._condition_for(piece, fragment),
                batch_size=BATCH_ROWS if missing is None or self._condition is not None else min(missing, BATCH_ROWS),
                batch_readahead=_BATCHES_AHEAD,
                fragment_readahead=1,
                fragment_scan_options=_scan_options(piece),
                use_threads=False,
            )
            with scanner.to_reader() as reader:
                for read in reader:
                    batch = self._passing(read, old, bool(spelled)) if afterwards else read
                    if batch.num_rows:
                        yield batch if batch.schema.types == self.schema.types else self._with_dictionaries(batch)
        except (OSError, pa.ArrowException) as error:
            raise named(error, piece.path) from error

    def _refuse_lists(self, piece: Piece | MemoryPiece, fragment: ds.Fragment, spelled: Mapping[str, pa.Field]) -> None:
        """Raises SchemaMismatchError for lists of an Arrow file that are to become lists of a fixed size.

        pyarrow's cast of an empty one ends the process. It does so only with memory that came as it lies in the file.
        """
        if isinstance(piece, MemoryPiece) or fragment.format.default_extname not in _FORMATS_OF_ARROW:
            return
        is_fixed = pa.types.is_fixed_size_list
        needed = {_stored_name(name, spelled): name for name in self._needed if name not in piece.keys}
        for stored in fragment.physical_schema:
            if stored.name not in needed:
                continue
            wanted = self.dataset_schema.field(needed[stored.name]).type
            of_any_size = any(is_list(kind) and not is_fixed(kind) for kind in with_nested(stored.type))
            if stored.type != wanted and of_any_size and any(map(is_fixed, with_nested(wanted))):
                raise SchemaMismatchError(
                    f"column {stored.name!r} of file {piece.path} is stored as {stored.type}, and the table has "
                    f"{wanted}: make the dataset with a schema that has the file's type"
                )

    def _spelled(self, piece: Piece | MemoryPiece, fragment: ds.Fragment) -> dict[str, pa.Field]:
        """The needed columns that the file spells in another case, in its spelling."""
        if isinstance(piece, MemoryPiece):
            return {}
        needed = [name for name in self._needed if name not in piece.keys]
        return spelled_fields(self.dataset_schema, fragment.physical_schema, needed, piece.path) if needed else {}

    def _old_days(
        self, piece: Piece | MemoryPiece, fragment: ds.Fragment, spelled: Mapping[str, pa.Field]
    ) -> OldDays | None:
        """The needed columns whose values have to be checked. Raises SchemaMismatchError for INT96 in a wrong type."""
        if isinstance(piece, MemoryPiece) or not self._needed:
            return None
        columns = pa.schema(
            [spelled.get(name, self.dataset_schema.field(name)) for name in self._needed if name not in piece.keys]
        )
        naive = {field.name for field in columns if any(map(is_naive, with_nested(field.type)))}
        if naive and is_parquet(piece.format):
            for path in int96_paths(fragment.metadata, fragment.physical_schema):
                if path[0] in naive and is_naive(type_at(columns, path)):
                    raise SchemaMismatchError(
                        f"column {'.'.join(path)!r} of file {piece.path} is stored as INT96, which is an instant, and "
                        "the table has a timestamp without a zone for it, as the files that were looked into when it "
                        "was made did not have the column, or another type: make the dataset with a schema that has "
                        'pa.timestamp("us", "UTC") for it'
                    )
        return old_days(fragment, piece.path, piece.filesystem, set(columns.names))

    def _reads_nothing(self, piece: Piece | MemoryPiece, fragment: ds.Fragment) -> bool:
        """Whether pyarrow, in order to filter a file, may read none of its columns.

        It then may let one row too many pass: a test for NaN stands over no array that would tell its length. Of a
        nested column it does not read the fields that a file lacks, unless the column is shown.
        """
        if self._condition is None or isinstance(piece, MemoryPiece):
            return False
        stored = {field.name: field.type for field in fragment.physical_schema if field.name not in piece.keys}
        shown = self.schema.names
        return not any(
            name in shown
            or not pa.types.is_nested(stored[name])
            or stored[name] == self.dataset_schema.field(name).type
            for name in self._needed
            if name in stored
        )

    def _passing(self, batch: pa.RecordBatch, old: OldDays | None, are_spelled: bool) -> pa.RecordBatch:
        """The rows that pass, of a piece that pyarrow's scanner does not filter."""
        if old is not None:
            old.check(batch)
        if are_spelled:
            batch = with_names_of(batch, pa.schema([self.dataset_schema.field(name) for name in self._needed]))
        passing = batch if self._condition is None else batch.filter(self._condition)
        return passing.select(self.schema.names)

    def _opened(self, piece: Piece | MemoryPiece) -> tuple[ds.Fragment, pa.Schema]:
        """The piece, and the schema in which it is read: with dictionaries, unless the file stores other types."""
        if not self._repeated or isinstance(piece, MemoryPiece) or not can_read_dictionaries(piece.format):
            return piece.fragment(), self.dataset_schema
        schema = with_dictionaries(self.dataset_schema, self._repeated)
        fragment = dataclasses.replace(piece, format=_reading_dictionaries(self._repeated)).fragment()
        if all(gives_dictionaries(fragment, name, schema.field(name).type) for name in self._repeated):
            return fragment, schema
        return piece.fragment(), self.dataset_schema

    def _with_dictionaries(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            column.dictionary_encode() if name in self._repeated else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _stored_name(name: str, spelled: Mapping[str, pa.Field]) -> str:
    return spelled[name].name if name in spelled else name


def _in_spelling(field: pa.Field, spelled: Mapping[str, pa.Field]) -> pa.Field:
    """A column to be read, under the file's names; a dictionary stays one."""
    if field.name not in spelled:
        return field
    own = spelled[field.name]
    return own if pa.types.is_nested(own.type) else field.with_name(own.name)


def with_dictionaries(schema: pa.Schema, columns: Collection[str]) -> pa.Schema:
    """``schema`` with dictionaries of the type that some columns have, as Parquet gives them."""
    return pa.schema(
        [field.with_type(pa.dictionary(pa.int32(), field.type)) if field.name in columns else field for field in schema]
    )


def _reading_dictionaries(columns: Collection[str]) -> ds.ParquetFileFormat:
    import pyarrow.dataset as ds

    options = ds.ParquetReadOptions(dictionary_columns=set(columns))
    return reading_instants(ds.ParquetFileFormat(read_options=options))


def can_read_dictionaries(format: ds.FileFormat) -> bool:
    """Whether files of this format are Parquet, and nobody has said how to read them."""
    import pyarrow.dataset as ds

    return is_parquet(format) and reading_instants(format) == reading_instants(ds.ParquetFileFormat())


def has_views(schema: pa.Schema) -> bool:
    """Whether a column, or a field in one, is of string or binary views, with which pyarrow compares nothing."""
    kinds = [kind for type_ in schema.types for kind in with_nested(type_)]
    return any(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind) for kind in kinds)


def _scan_options(piece: Piece | MemoryPiece) -> Any:
    """For Parquet on this machine, columns are read as they are decoded; far away, a row group at a time.

    Reading ahead saves round trips, of which a local file has none, and costs the memory of a whole row group. What
    the user set is left alone.
    """
    import pyarrow.dataset as ds
    import pyarrow.fs

    if isinstance(piece, MemoryPiece):
        return None
    if not is_parquet(piece.format) or not isinstance(piece.filesystem, pyarrow.fs.LocalFileSystem):
        return None
    usual = ds.ParquetFragmentScanOptions()
    return (
        ds.ParquetFragmentScanOptions(pre_buffer=False) if piece.format.default_fragment_scan_options == usual else None
    )


def named(error: Exception, path: str) -> Exception:
    """The same error with the file in its text."""
    hint = (
        "it was there when the DatasetTable was made; if it was moved or deleted since, run REFRESH TABLE"
        if isinstance(error, FileNotFoundError)
        else "repair it, or leave it out of the dataset"
    )
    return type(error)(f"{error} (file {path}: {hint})")
