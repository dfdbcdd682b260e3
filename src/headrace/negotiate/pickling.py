"""Pickling of plans for the executors, the user's own modules included; driver Python."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import pyarrow as pa

from headrace.arrow.batches import batch_without_columns
from headrace.errors import PlanError, RegistrationError
from headrace.execute.failure import headline_of
from headrace.execute.partition_stream import ScanTask
from headrace.execute.receiving import ReceivingTask
from headrace.negotiate.registry import RegisteredTable

_INSTALLED = tuple(
    Path(path).resolve()
    for path in {sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_SITE_DIRECTORIES = {"site-packages", "dist-packages"}
_BY_VALUE = threading.Lock()
_LOG = logging.getLogger("headrace")
_MAX_PICKLED_BYTES = 256 << 20


def pickled_task(task: ScanTask | ReceivingTask, *, by_value: bool) -> bytes:
    """Pickle a task for Spark's Python workers. Raises PlanError, naming the plan, where it cannot be, or is too large.

    Classes of the script or notebook itself always travel by value. With ``by_value`` so does every module
    that is not installed (a file beside the script): the executors of a cluster could not import it. On one
    machine they can, because the driver's search path travels along. But workers import a module once: where one
    was loaded again here, these modules travel by value from then on.
    """
    name, _, method = (f"{task.plan_name}.execute" if isinstance(task, ScanTask) else task.place).rpartition(".")
    plan = f"{name} (table {task.table!r})"
    try:
        made = pickled(task, by_value=by_value) if by_value or not _RELOADED.look() else _pickled_anew(task)
    except Exception as error:  # pickling runs user code (__reduce__, __getstate__)
        raise PlanError(
            f"{plan} cannot be pickled for Spark's Python workers: "
            f"{headline_of(error)}. Make the plan hold only what can be pickled (open connections and "
            f"files in {method}), or set placement = Placement.DRIVER to run it in this process."
        ) from error
    if len(made) > _MAX_PICKLED_BYTES:
        raise PlanError(
            f"{plan} is pickled for Spark's Python workers, and has {len(made) >> 20} MB, more than the "
            f"{_MAX_PICKLED_BYTES >> 20} MB that a plan may have. Give it paths and offsets and load the data in "
            f"{method}, or set placement = Placement.DRIVER to run it in this process, where nothing is pickled."
        )
    return made


def _pickled_anew(task: ScanTask | ReceivingTask) -> bytes:
    """By value if that is possible, else by name with a warning: workers may run code that is older than this."""
    try:
        return pickled(task, by_value=True)
    except Exception as error:  # a global of such a module that cannot be pickled, for instance
        made = pickled(task, by_value=False)
        _LOG.warning(
            "the module %s was loaded again, but Spark's Python workers go on with the code that they imported before: "
            "it cannot be sent to them (%s). Stop Spark and start it again, or set placement = Placement.DRIVER",
            ", ".join(sorted(_RELOADED.names)),
            headline_of(error),
        )
        return made


class _ReloadedModules:
    """The modules, installed ones apart, that were loaded again since plans are pickled. Each loading makes a spec."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._specs: dict[str, object] = {}
        self._installed: set[str] = set()

    def look(self) -> bool:
        """Whether there are any."""
        for name in set(sys.modules) - self._installed:
            module = sys.modules.get(name)
            if module is None or not _is_local(name, module):
                self._installed.add(name)
            elif self._specs.setdefault(name, spec := getattr(module, "__spec__", None)) is not spec:
                self.names.add(name)
        return bool(self.names)


_RELOADED = _ReloadedModules()


def pickled(value: object, *, by_value: bool) -> bytes:
    """As ``pickled_task`` does it; what pickling raises passes unchanged."""
    with _local_modules_by_value() if by_value else contextlib.nullcontext():
        buffer = io.BytesIO()
        _PlanPickler(buffer).dump(value)
        return buffer.getvalue()


def pickled_table(table: RegisteredTable) -> bytes:
    """Pickle a table for another process that plans it. Raises RegistrationError where that is impossible."""
    try:
        with _local_modules_by_value():
            buffer = io.BytesIO()
            _PlanPickler(buffer).dump(table)
            return buffer.getvalue()
    except Exception as error:  # pickling runs user code (__reduce__, __getstate__)
        raise RegistrationError(
            f"{table.provider_name} (table {table.name!r}) cannot be pickled for the process beside the Spark Connect "
            f"server: {headline_of(error)}. Make the provider hold only what can be pickled, or plan in "
            "this process (planning='client')"
        ) from error


class _PlanPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """pyarrow's own pickling forgets the rows of a batch or table without columns: ``count(*)`` would be 0."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (pa.RecordBatch, pa.Table)) and value.num_columns == 0 and value.num_rows:
            rows = batch_without_columns, (value.num_rows, value.schema.metadata)
            return rows if isinstance(value, pa.RecordBatch) else (_table_without_columns, rows[1])
        return super().reducer_override(value)


def _table_without_columns(rows: int, metadata: dict[bytes, bytes] | None) -> pa.Table:
    return pa.Table.from_batches([batch_without_columns(rows, metadata)])


@contextlib.contextmanager
def _local_modules_by_value() -> Iterator[None]:
    with _BY_VALUE:  # cloudpickle's list of such modules is global
        registered: list[ModuleType] = []
        already = cloudpickle.list_registry_pickle_by_value()
        for name, module in list(sys.modules.items()):
            if name not in already and _is_local(name, module):
                cloudpickle.register_pickle_by_value(module)
                registered.append(module)
        try:
            yield
        finally:
            for module in registered:
                cloudpickle.unregister_pickle_by_value(module)


def _is_local(name: str, module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if (
        name == "__main__"
        or name.partition(".")[0] in ("headrace", "pyspark", "cloudpickle")
        or not isinstance(file, str)
    ):
        return False
    return getattr(module, "__name__", None) == name and not _is_installed(file)


@functools.cache  # asked about every loaded module at every scan
def _is_installed(file: str) -> bool:
    path = Path(file).resolve()
    return not _SITE_DIRECTORIES.isdisjoint(path.parts) or any(path.is_relative_to(place) for place in _INSTALLED)
