"""The tables of one session context; driver Python, thread-safe."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from headrace.arrow.types import wire_schema
from headrace.errors import RegistrationError
from headrace.execute.live import LiveTable
from headrace.provider import TableProvider, declared_schema

_MOST_REPLACED = 8
"""Of one name: each may hold a frame in memory, and the JVM may collect its objects late."""


@dataclass(frozen=True)
class RegisteredTable:
    """A provider under a name, with the schema it gave at registration. ``id`` differs for each registration.

    ``verify``: its promises are checked on a sample of the rows of each scan, or on all. ``read_only``: nothing is
    written to it, whatever the provider can do.
    """

    name: str
    provider: TableProvider
    schema: pa.Schema
    wire_schema: pa.Schema
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    verify: Literal["sample", "all"] | None = None
    read_only: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        provider: TableProvider,
        verify: Literal["sample", "all"] | None = None,
        *,
        read_only: bool = False,
    ) -> RegisteredTable:
        """Asks for the schema, on this thread; what that raises passes unchanged.

        Raises RegistrationError for what is no schema, UnsupportedTypeError for a type that Spark has no equal of.
        """
        schema = declared_schema(provider)
        if not isinstance(schema, pa.Schema):
            raise RegistrationError(
                f"{type(provider).__name__}.schema() returned {type(schema).__name__}, expected a pyarrow.Schema"
            )
        return cls(name, provider, schema, wire_schema(schema), verify=verify, read_only=read_only)

    @property
    def provider_name(self) -> str:
        return type(self.provider).__name__

    @property
    def live(self) -> LiveTable | None:
        """The provider, if it is a live table."""
        return self.provider if isinstance(self.provider, LiveTable) else None


class Registry:
    """Names are compared as Spark compares them: in lower case.

    A table that was replaced is kept for as long as the JVM has objects for it: a query may be analysed before the
    replacement and planned after it. Deregistering the name ends that, and the last eight of a name are kept at most:
    of those before them only the name and the columns are kept, and queries of them scan the newest table, if it has
    these columns. A push table is not kept: its stream has ended.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[str, RegisteredTable] = {}
        self._by_id: dict[str, RegisteredTable] = {}
        self._replaced: dict[str, RegisteredTable] = {}
        self._superseded: dict[str, tuple[str, pa.Schema]] = {}
        self._shown: dict[str, int] = {}

    def add(self, table: RegisteredTable) -> RegisteredTable | None:
        """Returns the table that it replaces, if there is one."""
        with self._lock:
            key = table.name.lower()
            old = self._by_name.get(key)
            self._by_name[key] = table
            self._by_id[table.id] = table
            self._replaced.pop(table.id, None)
            self._superseded.pop(table.id, None)
            if old is not None and old.id != table.id:
                del self._by_id[old.id]
                if old.live is None and old.id in self._shown:
                    self._replaced[old.id] = old
                    of_name = [id for id, other in self._replaced.items() if other.name.lower() == key]
                    for id in of_name[:-_MOST_REPLACED]:
                        self._superseded[id] = (key, self._replaced.pop(id).schema)
            return old

    def remove(self, name: str) -> RegisteredTable | None:
        with self._lock:
            key = name.lower()
            self._replaced = {id: old for id, old in self._replaced.items() if old.name.lower() != key}
            self._superseded = {id: old for id, old in self._superseded.items() if old[0] != key}
            table = self._by_name.pop(key, None)
            if table is not None:
                del self._by_id[table.id]
            return table

    def show(self, name: str) -> RegisteredTable | None:
        """The table of this name, for which the JVM makes one more object; ``hide`` follows when that is garbage."""
        with self._lock:
            table = self._by_name.get(name.lower())
            if table is not None:
                self._shown[table.id] = self._shown.get(table.id, 0) + 1
            return table

    def hide(self, table_id: str) -> None:
        """One of the JVM's objects for a table is garbage; the table may be of another kind, or gone."""
        with self._lock:
            count = self._shown.pop(table_id, 0)
            if count > 1:
                self._shown[table_id] = count - 1
            else:
                self._replaced.pop(table_id, None)
                self._superseded.pop(table_id, None)

    def find(self, name: str) -> RegisteredTable | None:
        with self._lock:
            return self._by_name.get(name.lower())

    def find_id(self, table_id: str) -> RegisteredTable | None:
        with self._lock:
            return self._by_id.get(table_id)

    def find_replaced(self, table_id: str) -> RegisteredTable | None:
        """A table that was replaced and that a query may still scan, or the newest one in its place."""
        with self._lock:
            if table_id not in self._superseded:
                return self._replaced.get(table_id)
            key, schema = self._superseded[table_id]
            newest = self._by_name[key]
            return newest if newest.live is None and newest.schema == schema else None

    def tables(self) -> list[RegisteredTable]:
        with self._lock:
            return list(self._by_name.values())

    def names(self) -> list[str]:
        with self._lock:
            return sorted(table.name for table in self._by_name.values())
