"""CatalogProvider: what a user implements to bring a whole catalog of tables; runs in the driver process."""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Sequence

import pyarrow as pa

from headrace.errors import WriteError
from headrace.provider import TableProvider
from headrace.write import WritableProvider


class CatalogProvider(ABC):
    """Schemas and their tables, asked for when a query names them: ``SELECT * FROM crm.sales.orders``.

    All methods are called while Spark analyses a query, possibly on a thread that is not the caller's and from several
    at once. Answers are kept until ``SessionContext.refresh_catalog``; that a table does not exist is asked again.
    What a method raises fails the analysis, with its class and message.
    """

    @abstractmethod
    def schema_names(self) -> Sequence[str]:
        """The schemas, for SHOW SCHEMAS, and to tell whether one exists."""

    @abstractmethod
    def table_names(self, schema: str) -> Sequence[str]:
        """The tables of a schema that ``schema_names`` has, for SHOW TABLES. Others may exist."""

    @abstractmethod
    def table(
        self, schema: str, name: str, *, version: str | None = None, timestamp: datetime.datetime | None = None
    ) -> TableProvider | None:
        """The table, or None where there is none. Names come as the query writes them.

        ``version`` and ``timestamp`` (in UTC) are those of ``VERSION AS OF`` and ``TIMESTAMP AS OF``; one that has no
        such versions should raise. The provider is asked for its schema right away.
        """

    def create_table(self, schema: str, name: str, columns: pa.Schema) -> WritableProvider:
        """Make a table that does not exist yet: CREATE TABLE, CREATE TABLE AS SELECT, ``df.writeTo(name).create()``.

        Optional; called when the statement runs. From then on ``table`` should find it. The rows of AS SELECT are then
        inserted; where that fails, ``drop_table`` is called.
        """
        raise WriteError(f"{type(self).__name__} makes no tables: it has no method create_table")

    def drop_table(self, schema: str, name: str) -> bool:
        """Remove a table: DROP TABLE, a CREATE TABLE AS SELECT that failed. False where there was none. Optional."""
        raise WriteError(f"{type(self).__name__} drops no tables: it has no method drop_table")
