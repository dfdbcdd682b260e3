"""CatalogProvider: what a user implements to bring a whole catalog of tables; runs in the driver process."""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Sequence

from headrace.provider import TableProvider


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
