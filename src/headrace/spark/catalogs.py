"""What the JVM asks about catalogs and table functions, from its JSON to Python and back; driver Python."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from typing import Any

from headrace.arrow.ddl import schema_from_ddl
from headrace.arrow.spark_types import spark_schema
from headrace.catalog import CatalogProvider
from headrace.errors import HeadraceError, PlanError, WriteError
from headrace.expr.nodes import Literal
from headrace.negotiate.asking import asking
from headrace.negotiate.catalogs import CachedCatalog, HeldTables, table_of
from headrace.negotiate.registry import RegisteredTable, Registry
from headrace.negotiate.writing import partition_columns
from headrace.provider import JoiningProvider, TableProvider
from headrace.spark import words
from headrace.spark.predicates import decode
from headrace.spark.unknown_tables import near_names
from headrace.stream import why_no_stream
from headrace.tables.wrapping import innermost

_PLAIN_PROPERTIES = {"owner", "comment", "is_managed_location"}
"""What Spark says of a new table without being asked, and a comment, which nobody would miss."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NAMESPACE = "default"
"""Where a context's tables also stand: ``headrace.default.orders``, for who takes two names for schema and table."""


class Catalogs:
    """A context's own catalog, which shows its registry, those of its CatalogProviders, and its table functions.

    Thread-safe. The ``answers`` are what the planner is asked by these names; they raise as negotiations do.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._catalogs: dict[str, CachedCatalog] = {}
        self._functions: dict[str, tuple[str, Callable[..., TableProvider]]] = {}
        self.held = HeldTables()
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            words.LOAD: self._load,
            words.LIST: self._list,
            words.SCHEMAS: self._schemas,
            words.SCHEMA: self._schema,
            words.FUNCTIONS: self._function_names,
            words.TABLE_FUNCTION: self._table_function,
            words.RELEASE_TABLE: self._release_table,
            words.CREATE_TABLE: self._create_table,
            words.REMOVE_TABLE: self._remove_table,
            words.REFRESH_TABLE: self._refresh_table,
        }

    def find_id(self, table_id: str) -> RegisteredTable | None:
        """A table that Spark may still know, of whichever kind; not one that was replaced."""
        return self._registry.find_id(table_id) or self.held.find_id(table_id)

    def find_scanned(self, table_id: str) -> RegisteredTable | None:
        """As ``find_id``, or one that was replaced after a query of it was analysed."""
        return self.find_id(table_id) or self._registry.find_replaced(table_id)

    def add(self, name: str, provider: CatalogProvider, *, read_only: bool = False) -> None:
        with self._lock:
            self._catalogs[name] = CachedCatalog(name, provider, read_only=read_only)

    def remove(self, name: str) -> bool:
        with self._lock:
            return self._catalogs.pop(name, None) is not None

    def find(self, name: str) -> CachedCatalog | None:
        with self._lock:
            return self._catalogs.get(name)

    def names(self) -> list[str]:
        with self._lock:
            return sorted(self._catalogs)

    def add_function(
        self, name: str, function: Callable[..., TableProvider]
    ) -> tuple[str, Callable[..., TableProvider]] | None:
        """Returns name and function that it replaces, if it does."""
        with self._lock:
            replaced = self._functions.get(name.lower())
            self._functions[name.lower()] = name, function
            return replaced

    def remove_function(self, name: str) -> bool:
        with self._lock:
            return self._functions.pop(name.lower(), None) is not None

    def remove_functions(self) -> bool:
        """Whether there were any."""
        with self._lock:
            found = bool(self._functions)
            self._functions.clear()
            return found

    def has_function(self, name: str) -> bool:
        with self._lock:
            return name.lower() in self._functions

    def _load(self, question: dict[str, Any]) -> dict[str, Any]:
        catalog = self.find(question[words.CATALOG])
        version, timestamp = question.get(words.VERSION), question.get(words.TIMESTAMP)
        if catalog is None:
            table = self._registry.show(question[words.TABLE]) if _is_own(question[words.NAMESPACE]) else None
            if table is not None and (version is not None or timestamp is not None):
                raise PlanError(f"the table {table.name!r} has no versions; those of a CatalogProvider may have")
            if table is not None:
                return {**_described(table), words.HELD: True}
            unnamed = self.held.find_id(question[words.TABLE])
            if unnamed is not None:
                return self._held_answer(unnamed)
            return {words.EXISTS: False, words.NEAR: near_names(question[words.TABLE], self._registry.names())}
        if len(question[words.NAMESPACE]) != 1:
            return {words.EXISTS: False}
        at = None if timestamp is None else _EPOCH + datetime.timedelta(microseconds=timestamp)
        table = catalog.table(question[words.NAMESPACE][0], question[words.TABLE], version, at)
        return {words.EXISTS: False} if table is None else self._held_answer(table)

    def _held_answer(self, table: RegisteredTable) -> dict[str, Any]:
        answer = {**_described(table), words.HELD: True}
        self.held.hold(table)
        return answer

    def _list(self, question: dict[str, Any]) -> dict[str, Any]:
        catalog, namespace = self.find(question[words.CATALOG]), question[words.NAMESPACE]
        if catalog is None:
            exists = _is_own(namespace)
            return {words.EXISTS: exists, words.TABLES: self._registry.names() if exists else []}
        if not namespace:
            return {words.EXISTS: True, words.TABLES: []}
        exists = self._schema(question)[words.EXISTS]
        return {words.EXISTS: exists, words.TABLES: catalog.tables(namespace[0]) if exists else []}

    def _schemas(self, question: dict[str, Any]) -> dict[str, Any]:
        catalog = self.find(question[words.CATALOG])
        return {words.SCHEMAS: [_NAMESPACE] if catalog is None else catalog.schemas()}

    def _schema(self, question: dict[str, Any]) -> dict[str, Any]:
        catalog, namespace = self.find(question[words.CATALOG]), question[words.NAMESPACE]
        if catalog is None:
            return {words.EXISTS: _is_own(namespace)}
        return {words.EXISTS: not namespace or (len(namespace) == 1 and namespace[0] in catalog.schemas())}

    def _function_names(self, question: dict[str, Any]) -> dict[str, Any]:
        """Only the context's own catalog shows them: another of its catalogs is a CatalogProvider's."""
        with self._lock:
            own = question[words.CATALOG] not in self._catalogs
            return {words.FUNCTIONS: [name for name, _ in self._functions.values()] if own else []}

    def _table_function(self, question: dict[str, Any]) -> dict[str, Any]:
        name = question[words.FUNCTION]
        with self._lock:
            found = self._functions.get(name.lower())
        if found is None:
            raise HeadraceError(f"the table function {name!r} was deregistered")
        args = [_value(node, name) for node in question[words.ARGS]]
        kwargs = {key: _value(node, name) for key, node in question[words.KWARGS].items()}
        with asking(f"the table function {name!r}", name):
            provider = found[1](*args, **kwargs)
        return self._held_answer(table_of(name, provider, f"the table function {name!r}"))

    def _release_table(self, question: dict[str, Any]) -> dict[str, Any]:
        self.held.release(question[words.TABLE])
        self._registry.hide(question[words.TABLE])
        return {}

    def _create_table(self, question: dict[str, Any]) -> dict[str, Any]:
        catalog, schema = self._writable_catalog(question)
        beside = sorted(set(question[words.OPTIONS]) - _PLAIN_PROPERTIES)
        if question[words.PARTITIONS]:
            beside.append("PARTITIONED BY")
        if beside:
            raise WriteError(
                f"CREATE TABLE in the catalog {catalog.name!r} gives its provider columns alone: leave out what the "
                f"statement says beside them ({', '.join(beside)})"
            )
        columns = schema_from_ddl(question[words.COLUMNS])
        return self._held_answer(catalog.create(schema, question[words.TABLE], columns))

    def _remove_table(self, question: dict[str, Any]) -> dict[str, Any]:
        catalog, schema = self._writable_catalog(question)
        return {words.EXISTS: catalog.drop(schema, question[words.TABLE])}

    def _refresh_table(self, question: dict[str, Any]) -> dict[str, Any]:
        """Of a table that Spark knows; one that is gone, or that nobody has loaded, keeps nothing of its source."""
        catalog, namespace, name = self.find(question[words.CATALOG]), question[words.NAMESPACE], question[words.TABLE]
        table = None
        if catalog is not None:
            table = catalog.loaded(namespace[0], name) if len(namespace) == 1 else None
        elif _is_own(namespace):
            table = self._registry.find(name) or self.held.find_id(name)
        if table is not None:
            with asking(f"{table.provider_name}.refresh", table.name):
                table.provider.refresh()
        return {words.EXISTS: table is not None}

    def _writable_catalog(self, question: dict[str, Any]) -> tuple[CachedCatalog, str]:
        """The catalog and the schema in it. Raises WriteError for a context's own, and for one that is read only."""
        catalog, namespace = self.find(question[words.CATALOG]), question[words.NAMESPACE]
        if catalog is None:
            raise WriteError(
                f"tables come to the catalog {question[words.CATALOG]!r} and go from it in Python (ctx.register_table, "
                "ctx.deregister_table); SQL makes them in the catalog of a CatalogProvider with create_table "
                "(ctx.register_catalog)"
            )
        if catalog.read_only:
            raise WriteError(f"the catalog {catalog.name!r} is read-only: it was registered with read_only=True")
        if len(namespace) != 1:
            raise WriteError(f"a table of the catalog {catalog.name!r} stands in one schema, not in {namespace}")
        return catalog, namespace[0]


def _is_own(namespace: list[str]) -> bool:
    """Whether it has the tables of a context's own catalog."""
    return [part.lower() for part in namespace] in ([], [_NAMESPACE])


def _described(table: RegisteredTable) -> dict[str, Any]:
    return {
        words.EXISTS: True,
        words.NAME: table.name,
        words.TABLE: table.id,
        words.SCHEMA: spark_schema(table.wire_schema, table.schema),
        words.PUSH: table.live is not None,
        words.JOINS: isinstance(innermost(table.provider), JoiningProvider),
        words.PARTITIONING: partition_columns(table),
        words.STREAM: why_no_stream(table.provider) is None,
    }


def _value(node: dict[str, Any], function: str) -> Any:
    if node.get("literal", 0) is None:
        return None  # of whatever type
    literal = decode(node)
    if not isinstance(literal, Literal):
        raise PlanError(f"an argument of the table function {function!r} has no value in Python: {node}")
    return literal.value
