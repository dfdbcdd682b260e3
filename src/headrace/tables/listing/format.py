"""DataFile and FileFormat: a file of a table, and how files of one's own format are read; driver and executors."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

from headrace.arguments import check_fields
from headrace.arrow.schemas import SchemaLike
from headrace.arrow.sources import BatchSource
from headrace.expr.nodes import Expr
from headrace.plan import ScanRequest
from headrace.provider import FilterPushdown
from headrace.pruning.container_stats import ContainerStats


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file as it was listed, or one part of it. Plain data that travels to the executors; nothing is open.

    ``path``: an absolute local path, or a URL where the file was found through fsspec. ``part``: None for a whole
    file, else what the format's ``split`` put there.
    """

    path: str
    size_in_bytes: int
    part: Any = None
    filesystem: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)

    def open(self) -> BinaryIO:
        """The whole file, for reading bytes; the caller closes it. Raises OSError as ``open`` does."""
        if self.filesystem is None:
            return open(self.path, "rb")
        return cast(BinaryIO, self.filesystem.open(self.path, "rb"))

    def with_part(self, part: Any, size_in_bytes: int) -> DataFile:
        """The same file, of which only ``part`` is meant; ``part`` is anything that can be pickled but None."""
        return dataclasses.replace(self, part=part, size_in_bytes=size_in_bytes)

    def __str__(self) -> str:
        return self.path if self.part is None else f"{self.path} (part {self.part!r})"


class FileFormat(ABC):
    """How files of one format become record batches. Two methods are needed, the others have safe defaults.

    ``schema``, ``split`` and ``statistics`` are called in the driver while the ListingTable is made, never while
    Spark plans; ``read`` where the plan runs. The format is pickled with the plan: it holds settings, no open
    files. Whatever a method raises reaches the user with its class and a note that names the file.
    """

    @abstractmethod
    def schema(self, file: DataFile) -> SchemaLike:
        """The file's columns: a ``pa.schema``, DDL text, or a list of pairs of name and type.

        Called once, with the first file: its schema is the table's.
        """

    @abstractmethod
    def read(self, file: DataFile, request: ScanRequest) -> BatchSource:
        """The rows of ``file`` (if ``file.part`` is not None: of that part), lazily, batch by batch.

        ``request`` has what is needed of this file: no partition columns in it, nor filters that mention one;
        ``limit`` is how many rows are needed at most; ``runtime_filters`` may be used to skip rows. A batch holds at
        least the columns of ``request.schema`` (nested fields pruned or not); others are ignored. Where no column is
        needed, the request has the cheapest one, and only the number of rows counts. A column that is missing or has
        another type fails the query with SchemaMismatchError.

        Called once for each file that may hold a matching row, in a Spark Python worker (or, with
        ``Placement.DRIVER``, on any thread); again for the same file when a task is retried, with the same result.
        What it returns is closed when Spark stops early.
        """

    def statistics(self, file: DataFile) -> ContainerStats | None:
        """What is known of ``file`` (or of ``file.part``) without reading it all; None where nothing is.

        It is relied on: a file whose statistics rule out a match is not read, and ``row_count`` must be the
        exact number of rows, or None. Called once for each file or part, from several threads at once. Default:
        None.
        """
        return None

    def split(self, file: DataFile) -> Sequence[DataFile]:
        """``file`` as parts that can be read each on its own: ``file.with_part(part, size_in_bytes)`` for each.

        Together the parts hold every row once. Called once for each file that is larger than the table's
        ``partition_bytes``, from several threads at once. Default: the whole file.
        """
        return (file,)

    def supports_filters_pushdown(self, filters: Sequence[Expr]) -> Sequence[FilterPushdown]:
        """What ``read`` does with each filter, in order; the rules are those of ``TableProvider``.

        Skipping files by their statistics needs no answer here. Called once per scan, at planning, with the
        filters that mention no partition column. Default: all UNSUPPORTED.
        """
        return [FilterPushdown.UNSUPPORTED] * len(filters)
