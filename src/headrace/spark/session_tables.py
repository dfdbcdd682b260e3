"""The tables of one session context, each with the temporary view that shows it; driver Python, thread-safe."""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame

from headrace.arrow.types import with_nested
from headrace.errors import (
    DeregisteredError,
    HeadraceError,
    ProducerLostError,
    RegistrationError,
    StreamError,
    TableExistsError,
    UnsupportedTypeError,
)
from headrace.negotiate.registry import RegisteredTable, Registry
from headrace.spark.attached import AttachedSpark
from headrace.spark.unknown_tables import near_names

_OPEN: weakref.WeakSet[SessionTables] = weakref.WeakSet()
"""Those of all open contexts of this process."""


class SessionTables:
    """Keeps the registry, Headrace's catalog in Spark and the session's views in step.

    A view may be dropped or replaced in Spark without a word to us: its table is then forgotten when somebody asks for
    it. Every method may be called from any thread. Errors of Spark's come out as Headrace's.
    """

    def __init__(self, attached: AttachedSpark, registry: Registry) -> None:
        self.lock = threading.RLock()
        """Held while a registration changes; the context's other registrations hold it too."""
        self._attached = attached
        self._registry = registry
        self._closed = False
        _OPEN.add(self)

    def add(self, *tables: RegisteredTable, replace: bool) -> None:
        """Add all tables or none. Raises TableExistsError, RegistrationError and UnsupportedTypeError."""
        added: list[tuple[RegisteredTable, RegisteredTable | None]] = []
        with self._attached.errors_of_spark():
            for table in tables:
                self.check_columns(table)
            with self.lock:
                try:
                    for table in tables:
                        added.append((table, self._add_with_view(table, replace=replace)))
                except BaseException:
                    for table, old in reversed(added):
                        with suppress(HeadraceError, PySparkException):  # the first error is the one to report
                            if old is None:
                                self.remove(table.name)
                            else:
                                self._add_with_view(old, replace=True)
                    raise
        for _, old in added:
            if old is not None:
                _abandon(old, DeregisteredError(f"the streaming table {old.name!r} was replaced by another table"))

    def check_columns(self, table: RegisteredTable) -> None:
        """Raises RegistrationError: two columns, or fields of a struct, that Spark does not tell apart fail queries."""
        if self._attached.spark.conf.get("spark.sql.caseSensitive") == "true":
            return
        _check_names(table.schema.names, "columns", f"table {table.name!r}")
        for column in table.schema:
            for kind in with_nested(column.type):
                if pa.types.is_struct(kind):
                    names = [kind.field(i).name for i in range(kind.num_fields)]
                    _check_names(names, "fields", f"column {column.name!r} of table {table.name!r}")

    def check_free(self, name: str) -> None:
        """Raises TableExistsError where this context has a table of this name."""
        if (table := self.find(name)) is not None:
            raise TableExistsError(
                f"table {table.name!r} is registered already in this SessionContext (catalog "
                f"{self._attached.catalog!r}); pass replace=True to replace it"
            )

    def _add_with_view(self, table: RegisteredTable, *, replace: bool) -> RegisteredTable | None:
        with self.lock:
            if not replace:
                self.check_free(table.name)
            old = self.find(table.name)  # one whose view was dropped is in nobody's way
            try:
                self._registry.add(table)
                self._attached.add_table(table)
                frame = self._attached.spark.table(self.full_name(table))
                if old is not None or replace:
                    frame.createOrReplaceTempView(_quoted(table.name))
                else:
                    frame.createTempView(_quoted(table.name))
            except BaseException as error:
                with suppress(HeadraceError, PySparkException):  # the first error is the one to tell
                    if old is None:
                        self._attached.drop_table(table.name)
                    else:
                        self._attached.add_table(old)
                if old is None:
                    self._registry.remove(table.name)
                else:
                    self._registry.add(old)
                if not isinstance(error, AnalysisException):
                    raise
                if error.getCondition() == "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS":
                    raise TableExistsError(
                        f"the session has a temporary view {table.name!r} already{self._whose(table.name)}; pass "
                        "replace=True to replace it"
                    ) from None
                own = self._attached.error_behind(error)
                if isinstance(own, UnsupportedTypeError):  # what the connector found in the table's schema
                    raise own from None
                raise RegistrationError(f"Spark refused the table {table.name!r}: {error}") from error
            return old

    def _whose(self, name: str) -> str:
        """Which other context of this process registered the view, in words; nothing where none did."""
        for other in list(_OPEN):
            same_session = other is not self and other._attached.is_session(self._attached.spark)
            if same_session and other._registry.find(name) is not None and other._attached.is_view_of_ours(name):
                return f", which another SessionContext (catalog {other._attached.catalog!r}) registered"
        return ""

    def remove(self, name: str) -> bool:
        """Whether the table was there. A push table's sink and query end."""
        with self.lock:
            table = self.find(name)
            if table is None:
                return False
            with self._attached.errors_of_spark():
                self._attached.spark.catalog.dropTempView(table.name)
            self._forget(table, "deregistered")
        return True

    def find(self, name: str) -> RegisteredTable | None:
        """The table of this name; None also where its view was dropped or replaced: then it is forgotten here, too."""
        if not isinstance(name, str):
            raise TypeError(
                f"a table's name is a string, not {type(name).__name__}; register_table gives a table its name"
            )
        with self.lock:
            table = self._registry.find(name)
            if table is None or self._closed:
                return table
            with self._attached.errors_of_spark():
                if self._attached.is_view_of_ours(table.name):
                    return table
            self._forget(table, "dropped or replaced in Spark")
        return None

    def known(self, name: str) -> RegisteredTable:
        """The table of this name. Raises HeadraceError, with names like it, if there is none."""
        table = self.find(name)
        if table is None:
            raise HeadraceError(f"no table {name!r} is registered here. {near_names(name, self.names())}")
        return table

    def names(self) -> list[str]:
        """Sorted."""
        return [name for name in self._registry.names() if self.find(name) is not None]

    def frame(self, name: str) -> DataFrame:
        """Raises HeadraceError if there is no such table."""
        table = self.known(name)
        with self._attached.errors_of_spark():
            return self._attached.spark.table(self.full_name(table))

    def full_name(self, table: RegisteredTable) -> str:
        """By which every session of the application finds it."""
        return f"{self._attached.catalog}.{_quoted(table.name)}"

    def close(self) -> None:
        """Forgets all tables; push tables end. Spark is not asked."""
        self._closed = True
        _OPEN.discard(self)
        for name in self._registry.names():
            table = self._registry.remove(name)
            if table is not None:
                _abandon(table, ProducerLostError(f"the session context of {name!r} was closed"))

    def _forget(self, table: RegisteredTable, how: str) -> None:
        with self._attached.errors_of_spark():
            self._attached.drop_table(table.name)
        self._registry.remove(table.name)
        _abandon(table, DeregisteredError(f"the streaming table {table.name!r} was {how}"))


def check_name(name: str) -> None:
    """Raises RegistrationError for what cannot be a table's name."""
    if not isinstance(name, str) or not name.strip():
        raise RegistrationError(f"a table's name must be a non-empty string, not {name!r}")
    if "." in name or "`" in name:
        raise RegistrationError(f"a table's name cannot have a dot or a backtick: {name!r}")
    if "${" in name:
        raise RegistrationError(f"a table's name cannot have '${{', which Spark replaces in every query: {name!r}")


def _check_names(names: list[str], what: str, where: str) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise RegistrationError(
                f"the {what} {other!r} and {name!r} of {where} differ in case only, and Spark does not tell them "
                "apart; rename one, or set spark.sql.caseSensitive to true"
            )


def _abandon(table: RegisteredTable, error: StreamError) -> None:
    if table.live is not None:
        table.live.abandon(error)


def _quoted(name: str) -> str:
    return f"`{name}`"
