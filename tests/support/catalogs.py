"""A catalog for tests, and what many analyses of its tables leave behind."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa

import headrace as hr
from leaking import at_rest
from producing import wait_until

NUMBERS = pa.table({"n": [1, 2, 3]})


class Shop(hr.CatalogProvider):
    """Two schemas, one of them with awkward names; counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.names = {"sales": ["orders"], "odd `schema`.": ["a.b", "back`tick", "größe 1"]}

    def schema_names(self) -> list[str]:
        self.asked.append("schemas")
        return list(self.names)

    def table_names(self, schema: str) -> list[str]:
        self.asked.append(f"tables of {schema}")
        return self.names[schema]

    def table(
        self, schema: str, name: str, *, version: str | None = None, timestamp: datetime.datetime | None = None
    ) -> hr.TableProvider | None:
        self.asked.append(f"{schema}.{name}")
        if name not in self.names.get(schema, []):
            return None
        if name == "orders" and version == "broken":
            raise LookupError("no such version")
        text = f"{schema}.{name}" if version is None and timestamp is None else f"{version} {timestamp}"
        return hr.MemTable(pa.table({"n": [1, 2, 3], "name": [text] * 3}))


def analyses(ctx: hr.SessionContext, count: int) -> None:
    """Analyses of all kinds of such tables; what is left of them in Python is bounded by what Spark still holds."""
    for number in range(count):
        version = f" VERSION AS OF 'v{number}'" if number % 2 else ""
        ctx.sql(f"SELECT n FROM crm.sales.orders{version}")
        ctx.sql(f"SELECT n FROM made({number})")


def assert_analyses_leave_nothing(ctx: hr.SessionContext, count: int) -> None:
    ctx.register_table_function("made", lambda number: hr.MemTable(NUMBERS))
    try:
        analyses(ctx, count)
        held: Any = ctx._attached.planner.catalogs.held

        def is_little() -> bool:  # what Spark's last plans hold; the rest has to be collected first
            at_rest(ctx)
            return len(held) <= 20

        wait_until(is_little, what="that at most 20 tables are held")
    finally:
        ctx.deregister_table_function("made")
