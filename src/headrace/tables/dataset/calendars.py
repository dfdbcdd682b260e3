"""OldDays: the columns of a file that may count days in the calendar of before 1582, and the check that none does.

Runs on executors. Spark before 3.0, Spark's rebase mode LEGACY and its ORC files follow Julius Caesar's calendar up to
1582-10-14, and zones as old Javas knew them up to 1900. Arrow and Spark's own values do not. Rows are read as they are
only where both agree; an older value fails the query, instead of being another day.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.types import is_list, with_nested
from headrace.tables.dataset.int96 import leaves

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_FIRST_DAY = datetime.date(1582, 10, 15)
_FIRST_INSTANT = datetime.datetime(1900, 1, 1, tzinfo=datetime.UTC)
_VERSION = b"org.apache.spark.version"
_DATES, _INT96 = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"


@dataclass(frozen=True)
class OldDays:
    """Of one file, the columns (of ``dates``, of ``instants``) whose early values are in another calendar."""

    path: str
    dates: frozenset[str] = frozenset()
    instants: frozenset[str] = frozenset()

    @property
    def columns(self) -> frozenset[str]:
        return self.dates | self.instants

    def check(self, batch: pa.RecordBatch) -> None:
        """Raises ValueError for a date before 1582-10-15, or an instant before 1900."""
        for name in self.dates:
            self._check(batch, name, pa.types.is_date, _FIRST_DAY)
        for name in self.instants:
            self._check(batch, name, _is_instant, _FIRST_INSTANT)

    def _check(self, batch: pa.RecordBatch, name: str, is_kind: Callable[[pa.DataType], bool], first: Any) -> None:
        found = [array for array in _values(batch.column(name)) if is_kind(array.type)]
        # None is found where the dataset's schema has another type for what the file stores.
        if found and not any(pc.any(pc.less(array, pa.scalar(first).cast(array.type))).as_py() for array in found):
            return
        what = "timestamps before 1900" if is_kind is _is_instant else f"dates before {first}"
        raise ValueError(
            f"column {name!r} of file {self.path} may have {what}, which are stored in the calendar that Spark used "
            "before version 3 and mean other days in Arrow. Write the file anew with a Spark of today, as Parquet "
            "(spark.sql.parquet.datetimeRebaseModeInWrite and int96RebaseModeInWrite: CORRECTED), read it with "
            "spark.read, or leave the column out of the query"
        )


def _is_instant(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) and type_.tz)


def _values(array: pa.Array) -> Iterator[pa.Array]:
    """The values of an array that is not nested, or those of each that is in it."""
    if pa.types.is_struct(array.type):
        for field in array.flatten():
            yield from _values(field)
    elif pa.types.is_map(array.type):
        yield from _values(array.keys)
        yield from _values(array.items)
    elif is_list(array.type):
        yield from _values(array.flatten())
    else:
        yield array


def old_days(fragment: ds.Fragment, path: str, filesystem: Any, columns: Collection[str]) -> OldDays | None:
    """Those of the ``columns`` of a file that have to be checked; None without any."""
    kind = fragment.format.default_extname
    if kind == "parquet":
        dates, instants = _of_parquet(fragment.metadata, fragment.physical_schema, columns)
        return OldDays(path, dates, instants) if dates or instants else None
    if kind == "orc":
        dates = _of_orc(fragment.physical_schema, path, filesystem, columns)
        return OldDays(path, dates) if dates else None
    return None


def _of_parquet(metadata: Any, physical: pa.Schema, columns: Collection[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Columns of dates and of instants, as Spark decides it, by what the file says of its writer.

    A file that does not name a version of Spark is taken to follow Arrow's calendar, as Spark's default has it.
    """
    told = metadata.metadata or {}
    version = _version(told.get(_VERSION, b"4.0"))
    old_dates, old_int96 = version < (3, 0) or _DATES in told, version < (3, 1) or _INT96 in told
    dates, instants = set(), set()
    if _VERSION in told and (old_dates or old_int96):
        for i, ((name, *_), type_) in enumerate(leaves(physical)):
            if name not in columns:
                continue
            if pa.types.is_date(type_) and old_dates:
                dates.add(name)
            elif pa.types.is_timestamp(type_):
                is_int96 = metadata.schema.column(i).physical_type == "INT96"
                if old_int96 if is_int96 else old_dates and type_.tz:
                    instants.add(name)
    return frozenset(dates), frozenset(instants)


def _version(text: bytes) -> tuple[int, ...]:
    """The first two numbers of a version; of an unreadable one none, which is before all."""
    numbers = text.decode(errors="replace").split(".")[:2]
    return tuple(int(number) for number in numbers) if all(map(str.isdecimal, numbers)) else ()


def _of_orc(physical: pa.Schema, path: str, filesystem: Any, columns: Collection[str]) -> frozenset[str]:
    """Columns of dates, unless the writer follows Arrow's calendar. Opens the file if there are any.

    Timestamps are of no concern: pyarrow refuses those before 1677.
    """
    stored = [field for field in physical if field.name in columns]
    dates = frozenset(field.name for field in stored if any(map(pa.types.is_date, with_nested(field.type))))
    if not dates:
        return dates
    import pyarrow.orc

    with filesystem.open_input_file(path) as opened:
        return dates if pyarrow.orc.ORCFile(opened).writer == "ORC_JAVA" else frozenset()
