"""Tables that are not registered one by one: of catalogs and of table functions; driver Python, thread-safe."""

from __future__ import annotations

import datetime
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from headrace.catalog import CatalogProvider
from headrace.errors import HeadraceError, PlanError, WriteError
from headrace.negotiate.asking import asking, kind_of
from headrace.negotiate.registry import RegisteredTable
from headrace.provider import TableProvider
from headrace.write import WritableProvider

_VERSIONS_KEPT = 64


class CachedCatalog:
    """A CatalogProvider and its answers. Spark asks often, eight times for one statement: a provider is asked once.

    No lock is held while user code runs: it may query the catalog itself. Of two answers at once the first is kept, and
    none that was asked for before a ``refresh``.
    """

    def __init__(self, name: str, provider: CatalogProvider, *, read_only: bool = False) -> None:
        self.name = name
        self.provider = provider
        self.read_only = read_only
        self._lock = threading.Lock()
        self._refreshed = 0
        self.refresh()

    def refresh(self) -> None:
        """Forget all answers. Queries under way go on with the tables they have."""
        with self._lock:
            self._refreshed += 1
            self._schemas: list[str] | None = None
            self._tables: dict[str, list[str]] = {}
            self._loaded: dict[tuple[str, str], RegisteredTable] = {}
            self._versions: OrderedDict[tuple[Any, ...], RegisteredTable] = OrderedDict()

    def schemas(self) -> list[str]:
        """Raises PlanError, ProviderRaised, as all methods do."""
        asked, cached = self._refreshed, self._schemas
        if cached is None:
            cached = self._names("schema_names", self.provider.schema_names)
            with self._lock:
                if asked == self._refreshed:
                    self._schemas = cached
        return cached

    def tables(self, schema: str) -> list[str]:
        asked, cached = self._refreshed, self._tables.get(schema)
        if cached is None:
            cached = self._names("table_names", lambda: self.provider.table_names(schema))
            with self._lock:
                if asked == self._refreshed:
                    self._tables[schema] = cached
        return cached

    def table(
        self, schema: str, name: str, version: str | None, timestamp: datetime.datetime | None
    ) -> RegisteredTable | None:
        """The table, the same object each time until ``refresh``; None where there is none."""
        key = schema, name, version, timestamp
        plain = version is None and timestamp is None
        with self._lock:
            asked = self._refreshed
            cached = self._loaded.get((schema, name)) if plain else self._versions.get(key)
        if cached is not None:
            return cached
        full_name = f"{self.name}.{schema}.{name}"
        with self._asking("table"):
            provider = self.provider.table(schema, name, version=version, timestamp=timestamp)
        if provider is None:
            return None
        where = f"{type(self.provider).__name__}.table"
        table = table_of(full_name, provider, where, read_only=self.read_only)
        with self._lock:
            if asked != self._refreshed:
                return table  # of before the refresh: for this query alone
            if plain:
                return self._loaded.setdefault((schema, name), table)
            while len(self._versions) >= _VERSIONS_KEPT:
                self._versions.popitem(last=False)
            return self._versions.setdefault(key, table)

    def loaded(self, schema: str, name: str) -> RegisteredTable | None:
        """The table, if it was asked for before."""
        with self._lock:
            return self._loaded.get((schema, name))

    def create(self, schema: str, name: str, columns: pa.Schema) -> RegisteredTable:
        """Have the provider make a table. Raises WriteError for what it is not; ProviderRaised."""
        where = f"{type(self.provider).__name__}.create_table"
        with asking(where, f"{self.name}.{schema}.{name}"):
            provider = self.provider.create_table(schema, name, columns)
        if not isinstance(provider, WritableProvider):
            raise WriteError(
                f"{where} returned {kind_of(provider)}, expected a WritableProvider ({self.name}.{schema}.{name})"
            )
        table = table_of(f"{self.name}.{schema}.{name}", provider, where)
        with self._lock:
            self._tables.pop(schema, None)
            self._loaded[schema, name] = table
        return table

    def drop(self, schema: str, name: str) -> bool:
        """Have the provider remove a table, of which all answers are forgotten. Raises WriteError, ProviderRaised."""
        with asking(f"{type(self.provider).__name__}.drop_table", f"{self.name}.{schema}.{name}"):
            dropped = self.provider.drop_table(schema, name)
        self.refresh()
        return bool(dropped)

    def _names(self, method: str, ask: Callable[[], Sequence[str]]) -> list[str]:
        with self._asking(method):
            answer = ask()
            names = None if isinstance(answer, str) else list(answer)
        if names is None or not all(isinstance(name, str) for name in names):
            raise PlanError(
                f"{type(self.provider).__name__}.{method} returned {kind_of(answer)}, expected names "
                f"(catalog {self.name!r})"
            )
        return names

    def _asking(self, method: str) -> Any:
        return asking(f"{type(self.provider).__name__}.{method}", self.name)


def table_of(name: str, provider: Any, where: str, *, read_only: bool = False) -> RegisteredTable:
    """A provider that user code returned, as a table; its schema is asked for. Raises PlanError, ProviderRaised."""
    if not isinstance(provider, TableProvider):
        hint = "; wrap it in hr.MemTable(...)" if hasattr(provider, "__arrow_c_stream__") else ""
        raise PlanError(f"{where} returned {kind_of(provider)}, expected a TableProvider{hint} ({name})")
    try:
        with asking(f"{type(provider).__name__}.schema", name):
            return RegisteredTable.of(name, provider, read_only=read_only)
    except HeadraceError as error:
        cause = error.__cause__
        if isinstance(cause, HeadraceError):  # a type that Spark has no equal of is no error of the user's code
            raise cause from None
        raise


class HeldTables:
    """The tables of catalogs and table functions, and those without a name, for as long as the JVM knows them.

    Every analysis makes objects for such tables anew. The JVM tells when one of them is garbage.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, tuple[RegisteredTable, int]] = {}
        self._dropped: deque[str] = deque()

    def __len__(self) -> int:
        self._take_dropped()
        return len(self._held)

    def hold(self, table: RegisteredTable) -> None:
        """The JVM is about to make one more object for the table."""
        self._take_dropped()
        with self._lock:
            _, count = self._held.get(table.id, (table, 0))
            self._held[table.id] = table, count + 1

    def release(self, table_id: str) -> None:
        """One of the JVM's objects for the table is gone."""
        with self._lock:
            table, count = self._held.get(table_id, (None, 0))
            if table is not None and count > 1:
                self._held[table_id] = table, count - 1
            else:
                self._held.pop(table_id, None)

    def release_soon(self, table_id: str) -> None:
        """As ``release``, for finalizers, which may interrupt any of these methods: done before the next ``hold``."""
        self._dropped.append(table_id)

    def _take_dropped(self) -> None:
        while self._dropped:
            with suppress(IndexError):  # another thread was faster
                self.release(self._dropped.popleft())

    def find_id(self, table_id: str) -> RegisteredTable | None:
        with self._lock:
            held = self._held.get(table_id)
        return None if held is None else held[0]
