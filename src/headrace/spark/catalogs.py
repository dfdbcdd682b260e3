"""What the JVM asks about catalogs and table functions, from its JSON to Python and back; driver Python."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from typing import Any

from headrace.arrow.spark_types import spark_schema
from headrace.catalog import CatalogProvider
from headrace.errors import HeadraceError, PlanError
from headrace.expr.nodes import Literal
from headrace.negotiate.asking import asking
from headrace.negotiate.catalogs import CachedCatalog, HeldTables, table_of
from headrace.negotiate.registry import RegisteredTable, Registry
from headrace.provider import JoiningProvider, TableProvider
from headrace.spark.predicates import decode

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Catalogs:
    """A context's own catalog, which shows its registry, those of its CatalogProviders, and its table functions.

    Thread-safe. The ``answers`` are what the planner is asked by these names; they raise as negotiations do.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._catalogs: dict[str, CachedCatalog] = {}
        self._functions: dict[str, Callable[..., TableProvider]] = {}
        self.held = HeldTables()
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "load": self._load,
            "list": self._list,
            "schemas": self._schemas,
            "schema": self._schema,
            "table_function": self._table_function,
            "release_table": self._release_table,
        }

    def find_id(self, table_id: str) -> RegisteredTable | None:
        """A table that Spark may still know, of whichever kind."""
        return self._registry.find_id(table_id) or self.held.find_id(table_id)

    def add(self, name: str, provider: CatalogProvider) -> None:
        with self._lock:
            self._catalogs[name] = CachedCatalog(name, provider)

    def remove(self, name: str) -> bool:
        with self._lock:
            return self._catalogs.pop(name, None) is not None

    def find(self, name: str) -> CachedCatalog | None:
        with self._lock:
            return self._catalogs.get(name)

    def names(self) -> list[str]:
        with self._lock:
            return sorted(self._catalogs)

    def add_function(self, name: str, function: Callable[..., TableProvider]) -> None:
        with self._lock:
            self._functions[name.lower()] = function

    def remove_function(self, name: str) -> bool:
        with self._lock:
            return self._functions.pop(name.lower(), None) is not None

    def has_function(self, name: str) -> bool:
        with self._lock:
            return name.lower() in self._functions

    def function_names(self) -> list[str]:
        with self._lock:
            return sorted(self._functions)

    def _load(self, question: dict[str, Any]) -> dict[str, Any]:
        catalog = self.find(question["catalog"])
        version, timestamp = question.get("version"), question.get("timestamp")
        if catalog is None:
            table = self._registry.find(question["table"]) if not question["namespace"] else None
            unnamed = self.held.find_id(question["table"]) if table is None else None
            if unnamed is not None:
                return self._held_answer(unnamed)
            if table is not None and (version is not None or timestamp is not None):
                raise PlanError(f"the table {table.name!r} has no versions; those of a CatalogProvider may have")
            return {"exists": False} if table is None else _described(table)
        if len(question["namespace"]) != 1:
            return {"exists": False}
        at = None if timestamp is None else _EPOCH + datetime.timedelta(microseconds=timestamp)
        table = catalog.table(question["namespace"][0], question["table"], version, at)
        return {"exists": False} if table is None else self._held_answer(table)

    def _held_answer(self, table: RegisteredTable) -> dict[str, Any]:
        answer = {**_described(table), "held": True}
        self.held.hold(table)
        return answer

    def _list(self, question: dict[str, Any]) -> dict[str, Any]:
        catalog, namespace = self.find(question["catalog"]), question["namespace"]
        if catalog is None:
            return {"exists": not namespace, "tables": [] if namespace else self._registry.names()}
        if not namespace:
            return {"exists": True, "tables": []}
        exists = self._schema(question)["exists"]
        return {"exists": exists, "tables": catalog.tables(namespace[0]) if exists else []}

    def _schemas(self, question: dict[str, Any]) -> dict[str, Any]:
        catalog = self.find(question["catalog"])
        return {"schemas": [] if catalog is None else catalog.schemas()}

    def _schema(self, question: dict[str, Any]) -> dict[str, Any]:
        catalog, namespace = self.find(question["catalog"]), question["namespace"]
        if not namespace:
            return {"exists": True}
        return {"exists": catalog is not None and len(namespace) == 1 and namespace[0] in catalog.schemas()}

    def _table_function(self, question: dict[str, Any]) -> dict[str, Any]:
        name = question["function"]
        with self._lock:
            function = self._functions.get(name.lower())
        if function is None:
            raise HeadraceError(f"the table function {name!r} was deregistered")
        args = [_value(node, name) for node in question["args"]]
        kwargs = {key: _value(node, name) for key, node in question["kwargs"].items()}
        with asking(f"the table function {name!r}", name):
            provider = function(*args, **kwargs)
        return self._held_answer(table_of(name, provider, f"the table function {name!r}"))

    def _release_table(self, question: dict[str, Any]) -> dict[str, Any]:
        self.held.release(question["table"])
        return {}


def _described(table: RegisteredTable) -> dict[str, Any]:
    return {
        "exists": True,
        "name": table.name,
        "table": table.id,
        "schema": spark_schema(table.wire_schema, table.schema),
        "joins": isinstance(table.provider, JoiningProvider),
    }


def _value(node: dict[str, Any], function: str) -> Any:
    if node.get("literal", 0) is None:
        return None  # of whatever type
    literal = decode(node)
    if not isinstance(literal, Literal):
        raise PlanError(f"an argument of the table function {function!r} has no value in Python: {node}")
    return literal.value
