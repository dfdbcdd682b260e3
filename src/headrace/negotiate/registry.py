"""The tables of one session context; driver Python, thread-safe."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from headrace.arrow.types import wire_schema
from headrace.errors import RegistrationError, TableExistsError
from headrace.execute.live import LiveTable
from headrace.provider import TableProvider, declared_schema


@dataclass(frozen=True)
class RegisteredTable:
    """A provider under a name, with the schema it gave at registration. ``id`` differs for each registration.

    ``verify``: its promises are checked on a sample of the rows of each scan, or on all.
    """

    name: str
    provider: TableProvider
    schema: pa.Schema
    wire_schema: pa.Schema
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    verify: Literal["sample", "all"] | None = None

    @classmethod
    def of(cls, name: str, provider: TableProvider, verify: Literal["sample", "all"] | None = None) -> RegisteredTable:
        """Asks for the schema, on this thread; what that raises passes unchanged.

        Raises RegistrationError for what is no schema, UnsupportedTypeError for a type that Spark has no equal of.
        """
        schema = declared_schema(provider)
        if not isinstance(schema, pa.Schema):
            raise RegistrationError(
                f"{type(provider).__name__}.schema() returned {type(schema).__name__}, expected a pyarrow.Schema"
            )
        return cls(name, provider, schema, wire_schema(schema), verify=verify)

    @property
    def provider_name(self) -> str:
        return type(self.provider).__name__

    @property
    def live(self) -> LiveTable | None:
        """The provider, if it is a live table."""
        return self.provider if isinstance(self.provider, LiveTable) else None


class Registry:
    """Names are compared as Spark compares them: in lower case."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[str, RegisteredTable] = {}
        self._by_id: dict[str, RegisteredTable] = {}

    def add(self, table: RegisteredTable, *, replace: bool) -> RegisteredTable | None:
        """Returns the table that was replaced. Raises TableExistsError."""
        with self._lock:
            key = table.name.lower()
            old = self._by_name.get(key)
            if old is not None and not replace:
                raise TableExistsError(f"table {old.name!r} is registered already; pass replace=True to replace it")
            self._by_name[key] = table
            self._by_id[table.id] = table
            if old is not None:
                del self._by_id[old.id]
            return old

    def remove(self, name: str) -> RegisteredTable | None:
        with self._lock:
            table = self._by_name.pop(name.lower(), None)
            if table is not None:
                del self._by_id[table.id]
            return table

    def find(self, name: str) -> RegisteredTable | None:
        with self._lock:
            return self._by_name.get(name.lower())

    def find_id(self, table_id: str) -> RegisteredTable | None:
        with self._lock:
            return self._by_id.get(table_id)

    def tables(self) -> list[RegisteredTable]:
        with self._lock:
            return list(self._by_name.values())

    def names(self) -> list[str]:
        with self._lock:
            return sorted(table.name for table in self._by_name.values())
