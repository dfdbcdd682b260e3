"""Data sources of PySpark's with stream readers, of each kind, over numbers that grow in a file; for the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.types import StructType

SCHEMA = "n BIGINT, text STRING"


def grow(file: str | Path, head: int) -> None:
    """The numbers up to ``head`` are there now."""
    hidden = Path(f"{file}.new")
    hidden.write_text(str(head))
    hidden.rename(file)


def head_of(file: str) -> int:
    return int(Path(file).read_text())


class Range(InputPartition):
    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last


class NumbersReader(DataSourceStreamReader):
    """As Spark 4.0 has it: ``latestOffset`` takes nothing. It keeps an open file, which no pickle takes."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.state: Any = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        self.state = open(os.devnull)  # noqa: SIM115
        return {"n": 0}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        return {"n": head_of(self.file)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        middle = (start["n"] + end["n"]) // 2
        return [Range(start["n"], middle), Range(middle, end["n"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Range)
        for n in range(partition.first, partition.last):
            yield n, f"number {n}"

    def commit(self, end: dict[str, Any]) -> None:
        with open(f"{self.file}.commits", "a") as commits:
            commits.write(f"{end['n']}\n")

    def stop(self) -> None:
        Path(f"{self.file}.stopped").touch()


class LimitedReader(NumbersReader):
    """As Spark 4.2 has it, in Arrow."""

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        most = getattr(limit, "max_rows", None)
        head = head_of(self.file)
        return {"n": head if most is None else min(head, start["n"] + most)}

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Range)
        numbers = range(partition.first, partition.last)
        schema = pa.schema([("n", pa.int64()), ("text", pa.string())])
        yield pa.RecordBatch.from_pydict({"n": list(numbers), "text": [f"number {n}" for n in numbers]}, schema)


class SimpleReader(SimpleDataSourceStreamReader):
    """Two numbers at a time."""

    def __init__(self, file: str) -> None:
        self.file = file

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"n": 0}

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
        end = {"n": min(start["n"] + 2, head_of(self.file))}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Iterator[tuple[Any, ...]]:
        return iter([(n, f"number {n}") for n in range(start["n"], end["n"])])


class BatchReader(DataSourceReader):
    def __init__(self, file: str) -> None:
        self.file = file
        self.least = 0

    def pushFilters(self, filters: Any) -> Any:  # noqa: N802
        for filter_ in filters:
            if type(filter_).__name__ == "GreaterThan":
                self.least = filter_.value + 1
            else:
                yield filter_

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        return ((n, f"number {n}") for n in range(self.least, head_of(self.file)))


class NumbersSource(DataSource):
    stream_reader: type[Any] = NumbersReader

    @classmethod
    def name(cls) -> str:
        return cls.__name__.lower()

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return self.stream_reader(self.options["file"])


class LimitedSource(NumbersSource):
    stream_reader = LimitedReader


class SimpleSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "simplenumbers"

    def schema(self) -> str:
        return SCHEMA

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802
        return SimpleReader(self.options["file"])


class BothSource(NumbersSource):
    """Has a batch reader too, which takes filters."""

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self.options["file"])
