"""ctx.explain of a streaming DataFrame: what is known of its streams before a query reads them; driver Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.negotiate.registry import RegisteredTable
from headrace.spark.explain.answer import Explanation
from headrace.spark.planner import Planner

_TABLE_CLASS = "org.headrace.spark.catalog.HeadraceTable"


def explain_stream(analyzed: Any, planner: Planner) -> Explanation:
    """Spark plans each micro-batch when its range is known, so there is no scan to describe yet."""
    found: dict[str, str] = {}
    for relation in _relations(analyzed):
        table = planner.catalogs.find_id(str(relation.table().id()))
        if table is not None and table.id not in found:
            found[table.id] = _block(len(found) + 1, table)
    return Explanation("\n\n".join(found.values()) or "no Headrace table is read by this streaming query")


def _relations(node: Any) -> Iterator[Any]:
    name = node.getClass().getSimpleName()
    if name == "StreamingRelationV2" and node.table().getClass().getName() == _TABLE_CLASS:
        yield node
    children = node.children()
    for index in range(children.size()):
        yield from _relations(children.apply(index))


def _block(number: int, table: RegisteredTable) -> str:
    return "\n".join(
        [
            f"stream {number}: {table.name} ({table.provider_name})",
            f"  columns       {', '.join(table.schema.names)}",
            "  plans         one for each micro-batch, with the columns and filters of the query: "
            "ctx.explain(query) describes the last one",
        ]
    )
