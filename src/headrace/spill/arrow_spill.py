"""ArrowSpill: batches that must not wait in memory wait in files; driver Python."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from functools import partial

import pyarrow as pa

from headrace.spill.private_directory import PrivateDirectory


class ArrowSpill:
    """Where the channel puts batches that must not wait in memory: one Arrow file each, gone once it is read.

    The directory is made when first needed, is readable by this user only, and goes with ``close``, with this
    object or with the process. ``store`` raises OSError when the disk does, and after ``close``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names = itertools.count()
        self._directory: PrivateDirectory | None = None
        self._closed = False

    def store(self, batch: pa.RecordBatch) -> Callable[[], pa.RecordBatch]:
        with self._lock:
            if self._closed:
                raise OSError("the spill directory was closed")
            if self._directory is None:
                self._directory = PrivateDirectory("spill")
            path = os.path.join(self._directory.path, f"{next(self._names)}.arrow")
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, batch.schema) as writer:
            writer.write_batch(batch)
        return partial(_load, path)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            directory, self._directory = self._directory, None
        if directory is not None:
            directory.close()


def _load(path: str) -> pa.RecordBatch:
    with pa.OSFile(path) as file, pa.ipc.open_stream(file) as reader:
        batch = reader.read_next_batch()
    os.unlink(path)
    return batch
