"""AdbcCatalog: a whole database as a catalog, through ADBC; driver Python."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.arguments import checked
from headrace.catalog import CatalogProvider
from headrace.errors import WriteError
from headrace.provider import TableProvider
from headrace.tables.adbc.access import AdbcAccess, driver_name
from headrace.tables.adbc.columns import qualified, quoted
from headrace.tables.adbc.sql_types import sql_type
from headrace.tables.adbc.table import AdbcTable
from headrace.write import WritableProvider


class AdbcCatalog(CatalogProvider):
    """The schemas of one database with their tables and views, each an AdbcTable of one partition.

    ``driver``, ``uri``, ``db_kwargs`` and ``out_of_range_as_null`` are those of AdbcTable. The database is asked for
    its names when a query first needs one, in a single question; names must be written as the database has them. Where
    a database has no schemas (SQLite) its own name stands for one: ``main``. No table has versions. Tables of
    PostgreSQL, SQLite and DuckDB can be made, with rows or without, and dropped.

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

    def create_table(self, schema: str, name: str, columns: pa.Schema) -> WritableProvider:
        """A table whose columns have these types when they are read; nulls only where ``columns`` allows them.

        Raises WriteError, naming the column, for a type that the database has no equal of.
        """
        dialect = self._access.dialect
        if dialect is None:
            raise WriteError(f"AdbcCatalog makes no tables through the driver {self._access.driver!r}")
        items = [
            f"{quoted(one.name)} {sql_type(one.type, dialect)}{'' if one.nullable else ' NOT NULL'}" for one in columns
        ]
        table = AdbcTable(self._access.driver, self._access.uri, (schema, name), **self._options)
        with self._access.connected(writes=True) as cursor:
            cursor.execute(f"CREATE TABLE {qualified((schema, name))} ({', '.join(items)})")
        for wanted, found in zip(columns, table.schema(), strict=True):
            if wanted.type != found.type:
                self.drop_table(schema, name)
                raise WriteError(
                    f"column {wanted.name!r} of {schema}.{name} would be {found.type} in the database, not "
                    f"{wanted.type}: cast it in the query"
                )
        return table

    def drop_table(self, schema: str, name: str) -> bool:
        if self._access.dialect is None:
            raise WriteError(f"AdbcCatalog drops no tables through the driver {self._access.driver!r}")
        if name not in self._objects().get(schema, []):
            return False
        with self._access.connected(writes=True) as cursor:
            cursor.execute(f"DROP TABLE {qualified((schema, name))}")
        return True

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
