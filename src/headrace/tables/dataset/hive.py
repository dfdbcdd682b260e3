"""Hive partitions in paths (``year=2024/city=K%C3%B6ln``): written, and read back; driver and executors, pure.

Names and values are escaped as Spark and Hive do it, which pyarrow and DuckDB read as well: only ASCII characters are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import WriteError

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
NAME_BYTES = 255  # that a directory's name may have
_ESCAPED = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{}\[\]^]""")


def can_partition(type_: pa.DataType) -> bool:
    """Whether every reader finds the same value in a path again."""
    return bool(pa.types.is_integer(type_) or pa.types.is_string(type_) or pa.types.is_date32(type_))


def hive_path(values: Mapping[str, Any]) -> str:
    """The folder of these values. Raises WriteError for a text that is too long, or that readers take for a null."""
    for name, value in values.items():
        if value == "":
            raise WriteError(f"partition column {name!r} has an empty text, and no folder is named so: use NULL")
        if value == NO_VALUE:
            raise WriteError(f"partition column {name!r} has the text {NO_VALUE}, which every reader takes for NULL")
    directories = [f"{_escaped(name)}={_text(value)}" for name, value in values.items()]
    for name, directory in zip(values, directories, strict=True):
        if (length := len(directory.encode("utf-8", "surrogateescape"))) > NAME_BYTES:
            raise WriteError(
                f"partition column {name!r} has a value whose directory would have a name of {length:,} bytes "
                f"({directory[:40]}...), and file systems allow {NAME_BYTES}: shorten it, or partition by another one"
            )
    return "/".join(directories)


def hive_columns(path: str) -> tuple[str, ...]:
    """The columns that a file's path sets."""
    return tuple(unquote(part.partition("=")[0]) for part in path.split("/")[:-1] if "=" in part)


def hive_values(path: str, types: Mapping[str, pa.DataType]) -> dict[str, Any]:
    """What a file's path says of the columns of ``types``. Raises pa.ArrowInvalid for what is no value of its type."""
    parts = (part.partition("=") for part in path.split("/")[:-1] if "=" in part)
    texts = {unquote(name): None if value == NO_VALUE else unquote(value) for name, _, value in parts}
    return {name: pa.scalar(texts.get(name)).cast(type_).as_py() for name, type_ in types.items()}


def partitions_of(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """The rows of each partition with its values. Rows that lie together are not copied."""
    if not columns:
        yield (), batch
        return
    number = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
    for name in columns:
        encoded = batch.column(name).dictionary_encode(null_encoding="encode")
        number = pc.add(pc.multiply(number, len(encoded.dictionary) + 1), encoded.indices.cast(pa.int64()))
        number = pc.dictionary_encode(number).indices.cast(pa.int64())  # small again, for the next column
    ends = pc.run_end_encode(number).run_ends.to_pylist()
    if len(ends) > pc.count_distinct(number).as_py():
        order = pc.sort_indices(number)
        batch, number = batch.take(order), number.take(order)
        ends = pc.run_end_encode(number).run_ends.to_pylist()
    start = 0
    for end in ends:
        yield tuple(_value(batch.column(name)[start], name) for name in columns), batch.slice(start, end - start)
        start = end


def _value(value: pa.Scalar, column: str) -> Any:
    """Raises WriteError for a date that Python has none of, and pyarrow would not read from a path."""
    try:
        return value.as_py()
    except OverflowError:
        days = value.cast(pa.int32()).as_py()
        raise WriteError(
            f"partition column {column!r} has a date of a year outside of 1 to 9999 (day {days:,} from 1970-01-01), of "
            "which no folder is made: readers would not find the value again"
        ) from None


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found.group()):02X}", text)


def _text(value: Any) -> str:
    return NO_VALUE if value is None else _escaped(str(value))
