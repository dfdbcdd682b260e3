"""ToldRows: what local footers told of an aggregation, as long as the files stay what they were; driver Python."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import pyarrow as pa

from headrace.plan import Aggregation

_MOST = 32  # aggregations of one table; each has a row, and a few numbers for each of at most a thousand files
_SETTLED_NS = 2_000_000_000  # a file that was written since may be written again without a sign of it

Signature = tuple[int, int, int, int]


class ToldRows:
    """The rows of a few aggregations over local files. Any thread; a copy of it for another process is empty."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: OrderedDict[tuple[Aggregation, tuple[str, ...]], tuple[list[Signature], pa.RecordBatch]]
        self._rows = OrderedDict()

    def __reduce__(self) -> tuple[type[ToldRows], tuple[()]]:
        return ToldRows, ()

    def row(
        self, aggregation: Aggregation, paths: Sequence[str], read: Callable[[], pa.RecordBatch | None]
    ) -> pa.RecordBatch | None:
        """The row that was found for the very same files, by their inodes, sizes and times; else that of ``read()``."""
        key = aggregation, tuple(paths)
        found = _signatures(paths)
        with self._lock:
            signatures, row = self._rows.get(key, (None, None))
            if found is not None and signatures == found:
                self._rows.move_to_end(key)
                return row
        now = time.time_ns()
        row = read()
        if row is not None and found is not None and all(now - changed > _SETTLED_NS for *_, changed in found):
            with self._lock:
                self._rows[key] = found, row
                while len(self._rows) > _MOST:
                    self._rows.popitem(last=False)
        return row


def _signatures(paths: Sequence[str]) -> list[Signature] | None:
    """What differs when another file is there, or the file was written; None where one is not there at all."""
    try:
        return [(s.st_dev, s.st_ino, s.st_size, max(s.st_mtime_ns, s.st_ctime_ns)) for s in map(os.stat, paths)]
    except OSError:
        return None
