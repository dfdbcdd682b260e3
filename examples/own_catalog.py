"""A service with many tables as a catalog of Spark's, and a table that takes arguments.

python examples/own_catalog.py
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import headrace as hr

TICKETS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "state": ["open", "open", "closed", "open"],
        "since": [datetime.date(2026, month, 1) for month in (1, 2, 2, 3)],
    }
)
FOLDERS = {"desk": {"tickets": TICKETS}, "sales": {"orders": pa.table({"id": [7, 8], "ticket": [2, 4]})}}


class Service(hr.CatalogProvider):
    """Asked for names, and for a table only when a query names it. ``made``: the tables that were."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def schema_names(self) -> Sequence[str]:
        return list(FOLDERS)

    def table_names(self, schema: str) -> Sequence[str]:
        return list(FOLDERS[schema])

    def table(
        self, schema: str, name: str, *, version: str | None = None, timestamp: datetime.datetime | None = None
    ) -> hr.TableProvider | None:
        rows = FOLDERS.get(schema, {}).get(name)
        if rows is None or timestamp is not None:
            return None
        self.made.append(f"{schema}.{name}" + (f" of {version}" if version else ""))
        return hr.MemTable(rows if version is None else rows.slice(0, int(version)))


def tickets(state: str, since: datetime.date = datetime.date.min) -> hr.TableProvider:
    """The arguments are constants of the query, as Python values."""
    rows = [row for row in TICKETS.to_pylist() if row["state"] == state and row["since"] >= since]
    return hr.MemTable(pa.Table.from_pylist(rows, TICKETS.schema))


def main(ctx: hr.SessionContext) -> dict[str, Any]:
    service = Service()
    ctx.register_catalog("helpdesk", service)
    ctx.register_table_function("tickets", tickets)
    found = {
        "schemas": [row.namespace for row in ctx.sql("SHOW SCHEMAS IN helpdesk").collect()],
        "joined": ctx.collect(
            "SELECT o.id, t.state FROM helpdesk.sales.orders o JOIN helpdesk.desk.tickets t ON o.ticket = t.id "
            "ORDER BY o.id"
        ).to_pylist(),
        "first two": ctx.collect("SELECT count(*) AS n FROM helpdesk.desk.tickets VERSION AS OF '2'").to_pylist(),
        "open since February": ctx.collect(
            "SELECT id FROM tickets('open', since => DATE '2026-02-01') ORDER BY id"
        ).to_pylist(),
        "made": service.made,
    }
    for what, answer in found.items():
        print(f"{what}: {answer}")
    ctx.deregister_catalog("helpdesk")
    ctx.deregister_table_function("tickets")
    return found


if __name__ == "__main__":
    with hr.SessionContext() as context:
        main(context)
