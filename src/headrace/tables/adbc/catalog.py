"""AdbcCatalog: a whole database as a catalog, through ADBC; driver Python."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.arguments import checked
from headrace.catalog import CatalogProvider
from headrace.provider import TableProvider
from headrace.tables.adbc.access import AdbcAccess, driver_name
from headrace.tables.adbc.table import AdbcTable


class AdbcCatalog(CatalogProvider):
    """The schemas of one database with their tables and views, each an AdbcTable of one partition.

    ``driver``, ``uri``, ``db_kwargs`` and ``out_of_range_as_null`` are those of AdbcTable. The database is asked for
    its names when a query first needs one, in a single question; names must be written as the database has them. Where
    a database has no schemas (SQLite) its own name stands for one: ``main``. No table has versions.

    Raises ValueError for a driver's name that cannot be one.
    """

    @checked()
    def __init__(
        self,
        driver: str,
        uri: str,
        *,
        db_kwargs: Mapping[str, str] | None = None,
        out_of_range_as_null: bool = False,
    ) -> None:
        self._access = AdbcAccess(driver_name(driver), uri, tuple((db_kwargs or {}).items()))
        self._options: dict[str, Any] = {"db_kwargs": db_kwargs, "out_of_range_as_null": out_of_range_as_null}

    def __repr__(self) -> str:
        return f"<AdbcCatalog through {self._access.driver}>"

    def schema_names(self) -> Sequence[str]:
        return list(self._objects())

    def table_names(self, schema: str) -> Sequence[str]:
        return self._objects().get(schema, [])

    def table(
        self, schema: str, name: str, *, version: str | None = None, timestamp: datetime.datetime | None = None
    ) -> TableProvider | None:
        if version is not None or timestamp is not None:
            raise ValueError(f"{schema}.{name} has no versions: it is a table of a database")
        if name not in self._objects().get(schema, []):
            return None
        return AdbcTable(self._access.driver, self._access.uri, (schema, name), **self._options)

    def _objects(self) -> dict[str, list[str]]:
        """Tables and views by schema, as the database has them now."""
        found: dict[str, list[str]] = {}
        with self._access.connected() as cursor:
            connection: Any = cursor.connection
            current = _current_catalog(connection)
            for catalog in connection.adbc_get_objects(depth="tables").read_all().to_pylist():
                if current and catalog["catalog_name"] not in (current, None, ""):
                    continue  # of PostgreSQL, another database: out of reach of this connection
                for schema in catalog["catalog_db_schemas"] or []:
                    name = schema["db_schema_name"] or catalog["catalog_name"] or "main"
                    tables = found.setdefault(name, [])
                    tables += [table["table_name"] for table in schema["db_schema_tables"] or []]
        return found


def _current_catalog(connection: Any) -> str | None:
    try:
        return connection.adbc_current_catalog or None
    except Exception:  # a driver that does not tell
        return None
