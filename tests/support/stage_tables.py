"""Random rows, and tables of them that know no pushdown: a provider's, and a Python Data Source's; for the tests."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

import headrace as hr
from random_predicates import DOUBLES, FLOAT_TENTH, SPECIAL, TEXTS

_EPOCH = dt.datetime(1970, 1, 1)
_TIMES = [
    dt.datetime(1, 1, 1),
    dt.datetime(1582, 10, 4, 23, 59, 59, 999_999),
    dt.datetime(1900, 1, 1),
    _EPOCH - dt.timedelta(microseconds=1),
    _EPOCH,
    dt.datetime(2024, 3, 31, 1, 30),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
]
STRUCT = pa.struct([("x", pa.int32()), ("s", pa.string())])
POOLS: dict[str, tuple[pa.DataType, str, list[Any]]] = {
    "g": (pa.int32(), "int", [0, 1, 2, 3]),
    "h": (pa.string(), "string", ["", "a", "b", "é"]),
    "b": (pa.bool_(), "boolean", [False, True]),
    "t": (pa.int8(), "tinyint", [-128, -1, 0, 1, 127]),
    "k": (pa.int16(), "smallint", [-(2**15), -1, 0, 7, 2**15 - 1]),
    "i": (pa.int32(), "int", [-(2**31), -1, 0, 1, 5, 2**31 - 1]),
    "m": (pa.int64(), "bigint", [-(2**40), -1, 0, 1, 2**33, 2**53 + 1]),
    "o": (pa.int64(), "bigint", [0, 1, 2**62, 2**63 - 1]),
    "l": (pa.int64(), "bigint", [-(2**63), -(2**62), -1, 0, 2**62, 2**63 - 1]),
    "f": (pa.float32(), "float", [*SPECIAL, 1.5, -1.5, FLOAT_TENTH]),
    "x": (pa.float64(), "double", DOUBLES),
    "e": (pa.float64(), "double", [-0.0, 0.0, 1.5, -1.5, 0.1, 1 / 3, 123456789.125, math.nan]),
    "n": (pa.decimal128(10, 2), "decimal(10,2)", [Decimal(v) for v in ("-1.50", "0.00", "0.10", "99999999.99")]),
    "w": (pa.decimal128(38, 10), "decimal(38,10)", [Decimal("-" + "9" * 26), Decimal("0.1234567891"), Decimal(0)]),
    "s": (pa.string(), "string", [*TEXTS, "a" * 3000, "é" * 1500, "z\U0010ffff", "ß", " a", "a "]),
    "y": (pa.binary(), "binary", [b"", b"\x00", b"a", b"\x7f", b"\x80", b"\xff\xff"]),
    "d": (pa.date32(), "date", [time.date() for time in _TIMES]),
    "p": (pa.timestamp("us"), "timestamp_ntz", _TIMES),
    "z": (pa.timestamp("us", tz="UTC"), "timestamp", [time.replace(tzinfo=dt.UTC) for time in _TIMES[1:-1]]),
}
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        *((name, pool[0]) for name, pool in POOLS.items()),
        ("st", STRUCT),
        ("a", pa.list_(pa.int32())),
    ]
)


def random_rows(rng: Random, rows: int) -> pa.Table:
    """A fifth of the values are null; some columns have few different ones, so that groups are large."""
    columns: list[pa.Array] = [pa.array(range(rows), pa.int64())]
    for type_, _, pool in POOLS.values():
        few = rng.sample(pool, min(len(pool), rng.choice([1, 3, 100])))
        nulls = rng.choice([0.0, 0.2, 0.2, 1.0 if rng.random() < 0.1 else 0.2])
        columns.append(pa.array([None if rng.random() < nulls else rng.choice(few) for _ in range(rows)], type_))
    structs = [None if rng.random() < 0.2 else {"x": rng.choice([None, 1, 2]), "s": "a"} for _ in range(rows)]
    columns.append(pa.array(structs, STRUCT))
    lists = [None if rng.random() < 0.2 else [rng.choice([None, 1])] * rng.randint(0, 2) for _ in range(rows)]
    columns.append(pa.array(lists, pa.list_(pa.int32())))
    return pa.table(columns, schema=SCHEMA)


class Rows(hr.ExecutionPlan):
    def __init__(self, schema: pa.Schema, parts: list[list[pa.RecordBatch]], said: dict[str, Any]) -> None:
        self.schema = schema
        self.partitioning = hr.UnknownPartitioning(len(parts))
        self._parts = parts
        for name, value in said.items():
            setattr(self, name, value)

    def execute(self, partition: int) -> Any:
        yield from self._parts[partition]


class PlainTable(hr.TableProvider):
    """Rows in partitions and batches of any size, in encodings that Spark does not see. It knows no pushdown."""

    def __init__(self, data: pa.Table, rng: Random, size: hr.Statistics | None = None) -> None:
        self._schema = _encoded_schema(data.schema, rng)
        self._size = size
        self._said: dict[str, Any] = {"placement": rng.choice(list(hr.Placement))}
        self._whole = rng.random() < 0.5
        rows = data.num_rows
        draw = rng.random()
        if draw < 0.2 and rows:
            values = data["g"].to_pylist()
            keys = list(dict.fromkeys(values))
            parts = [data.filter(pa.array([value == key for value in values])) for key in keys]
            self._said["partitioning"] = hr.KeyPartitioning(("g",), [(key,) for key in keys])
        else:
            ends = sorted(rng.randint(0, rows) for _ in range(rng.choice([0, 1, 2])))
            parts = [data.slice(a, b - a) for a, b in zip([0, *ends], [*ends, rows], strict=True)]
            parts = [] if not rows and rng.random() < 0.5 else parts
        if rng.random() < 0.3:
            order = [("h", "ascending"), ("id", "ascending")]
            parts = [part.take(pc.sort_indices(part, order, null_placement="at_start")) for part in parts]
            self._said["ordering"] = (hr.SortKey("h"), hr.SortKey("id"))
        self._parts = [_batches(_encoded(part, self._schema), rng) for part in parts]

    def schema(self) -> pa.Schema:
        return self._schema

    def statistics(self) -> hr.Statistics | None:
        return self._size

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        if self._whole:
            return Rows(self._schema, self._parts, self._said)
        parts = [[batch.select(list(request.projection)) for batch in part] for part in self._parts]
        return Rows(pa.schema([self._schema.field(name) for name in request.projection]), parts, self._said)


class FileReader(DataSourceReader):
    """Half of the file's rows in each of two partitions, all columns."""

    def __init__(self, file: str) -> None:
        self._file = file

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(half) for half in range(2)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows = pq.read_table(self._file)
        half = (rows.num_rows + 1) // 2
        yield from rows.slice(partition.value * half, half).to_batches(max_chunksize=50)


class FileSource(DataSource):
    """The file of the option ``file``, for Spark's own Python Data Source. It knows no pushdown."""

    @classmethod
    def name(cls) -> str:
        return "file_of_the_test"

    def schema(self) -> Any:
        return from_arrow_schema(pq.read_schema(self.options["file"]), prefer_timestamp_ntz=True)

    def reader(self, schema: Any) -> DataSourceReader:
        return FileReader(self.options["file"])


Road: TypeAlias = Callable[[str, Random, hr.Statistics | None], hr.TableProvider]
"""Makes the table of a Parquet file's rows: of its path, chance and what the table says of its size."""


def of_provider(file: str, rng: Random, size: hr.Statistics | None) -> hr.TableProvider:
    return PlainTable(pq.read_table(file), rng, size)


def of_data_source(file: str, rng: Random, size: hr.Statistics | None) -> hr.TableProvider:
    return hr.from_data_source(FileSource, {"file": file})


def _batches(part: pa.Table, rng: Random) -> list[pa.RecordBatch]:
    size = rng.choice([1, 7, 50, 1000])
    found = part.combine_chunks().to_batches(max_chunksize=size)
    return [batch for one in found for batch in ([one, one.slice(0, 0)] if rng.random() < 0.1 else [one])]


def _encoded_schema(schema: pa.Schema, rng: Random) -> pa.Schema:
    """With the same values to Spark, in other types of Arrow's."""
    texts = [pa.dictionary(pa.int16(), pa.string()), pa.string_view(), pa.large_string(), pa.string()]
    bytes_ = [pa.dictionary(pa.int32(), pa.binary()), pa.binary_view(), pa.large_binary(), pa.binary()]
    others = {pa.string(): texts, pa.binary(): bytes_}
    return pa.schema([field.with_type(rng.choice(others.get(field.type, [field.type]))) for field in schema])


def _encoded(data: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = []
    for column, field in zip(data.columns, schema, strict=True):
        array = column.combine_chunks()
        array = array.dictionary_encode() if pa.types.is_dictionary(field.type) else array
        columns.append(array.cast(field.type))
    return pa.table(columns, schema=schema)
