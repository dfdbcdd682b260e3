"""A write as it is planned and begun: what its provider is asked, and whether it can do that; driver Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.arrow.rows import counted
from headrace.arrow.spark_types import spark_schema
from headrace.errors import SchemaMismatchError, WriteError
from headrace.execute.writing import WriteCode
from headrace.expr.nodes import Expr
from headrace.negotiate.asking import asking, kind_of
from headrace.negotiate.registry import RegisteredTable
from headrace.plan import Placement, SortKey
from headrace.tables.wrapping import innermost
from headrace.write import WritableProvider, WriteLayout, WriteMode, WritePlan, WriteRequest

_DOORS = {
    WriteMode.APPEND: "INSERT INTO",
    WriteMode.TRUNCATE: "INSERT OVERWRITE, which replaces all rows,",
    WriteMode.OVERWRITE: "REPLACE WHERE, overwrite(condition),",
    WriteMode.DYNAMIC: "overwritePartitions()",
}
"""How a statement of each mode is written."""


@dataclass(frozen=True)
class PlannedWrite:
    """One write that the provider can do."""

    table: RegisteredTable
    mode: WriteMode
    filters: tuple[Expr, ...] = ()
    layout: WriteLayout | None = None

    @property
    def provider(self) -> WritableProvider:
        return writable(self.table)

    def description(self) -> str:
        """One line, for EXPLAIN."""
        parts = [self.table.provider_name, f"table={self.table.name}", f"mode={self.mode.name}"]
        if self.mode is WriteMode.OVERWRITE:
            parts.append(f"where=[{', '.join(map(repr, self.filters))}]")
        if self.layout is not None:
            parts.append(f"layout=[{layout_text(self.layout)}]")
        return " ".join(parts)

    def begin(self, query_id: str, epoch: int | None = None, options: Mapping[str, str] | None = None) -> WritePlan:
        """Ask the provider for a plan. Raises WriteError, ProviderRaised."""
        where = f"{self.table.provider_name}.insert"
        request = WriteRequest(self.table.schema, self.mode, self.filters, query_id, epoch, options or {})
        with asking(where, self.table.name):
            plan = self.provider.insert(request)
        if not isinstance(plan, WritePlan):
            raise WriteError(f"{where} returned {kind_of(plan)}, expected a WritePlan (table {self.table.name!r})")
        if not isinstance(plan.placement, Placement):
            raise WriteError(
                f"{type(plan).__name__}.placement is {plan.placement!r}, expected a Placement "
                f"(table {self.table.name!r})"
            )
        return plan

    def code(self, plan: WritePlan, epoch: int | None = None) -> WriteCode:
        """What Spark's tasks run."""
        return WriteCode(plan, self.table.name, self.table.schema, self.table.wire_schema, epoch)


def planned_write(table: RegisteredTable, mode: WriteMode, filters: Sequence[Expr] = ()) -> PlannedWrite:
    """Ask the provider whether it can write so, and how. Raises WriteError, by name, where not; ProviderRaised."""
    provider, name = writable(table), table.provider_name
    with asking(f"{name}.write_modes", table.name):
        modes = provider.write_modes()
    if not isinstance(modes, (set, frozenset)) or not all(isinstance(one, WriteMode) for one in modes):
        raise WriteError(
            f"{name}.write_modes returned {kind_of(modes)}, expected a set of WriteMode (table {table.name!r})"
        )
    if mode not in modes:
        can = ", ".join(one.name for one in WriteMode if one in modes) or "none"
        raise WriteError(
            f"the table {table.name!r} takes no {_DOORS[mode]} as {name}.write_modes has no {mode.name} "
            f"(it has: {can}); nothing was written"
        )
    if mode is WriteMode.OVERWRITE and not _agrees(table, "can_overwrite", filters):
        raise WriteError(
            f"the table {table.name!r} cannot replace the rows where {_text(filters)}: {name}.can_overwrite says no; "
            "nothing was written"
        )
    return PlannedWrite(table, mode, tuple(filters), _layout(table, provider, mode))


def checked_columns(table: RegisteredTable, found: dict[str, Any]) -> None:
    """Raises SchemaMismatchError where the query's columns, Spark's in JSON, are not the table's in names and types.

    Spark itself sees to that where a statement writes, and not where a streaming query does.
    """
    expected = spark_schema(table.wire_schema, table.schema)
    if _bare(found) != _bare(expected):
        raise SchemaMismatchError(
            f"the columns that are written to table {table.name!r} are not its own\nexpected:\n{_columns(expected)}\n"
            f"found:\n{_columns(found)}\nSelect the columns in the table's order, and cast them to its types"
        )


def planned_deletion(table: RegisteredTable, filters: Sequence[Expr]) -> None:
    """Ask the provider whether it can delete. Raises WriteError, by name, where not; ProviderRaised."""
    if not _agrees(table, "can_delete", filters):
        what = f"the rows where {_text(filters)}" if filters else "all rows"
        raise WriteError(
            f"the table {table.name!r} cannot delete {what}: {table.provider_name}.can_delete says no; "
            "nothing was deleted"
        )


def delete(table: RegisteredTable, filters: Sequence[Expr]) -> None:
    """After ``planned_deletion``. Raises ProviderRaised."""
    with asking(f"{table.provider_name}.delete", table.name):
        writable(table).delete(tuple(filters))


def partition_columns(table: RegisteredTable) -> list[str]:
    """The columns that INSERT may name as a partition; none of a read-only table. Raises as ``planned_write``."""
    provider, where = innermost(table.provider), f"{table.provider_name}.partition_columns"
    if not isinstance(provider, WritableProvider):
        return []
    with asking(where, table.name):
        columns = provider.partition_columns()
    if not isinstance(columns, (list, tuple)) or not all(column in table.schema.names for column in columns):
        raise WriteError(
            f"{where} returned {kind_of(columns)}, expected a list of columns that the table {table.name!r} has"
        )
    return list(columns)


def writable(table: RegisteredTable) -> WritableProvider:
    """The provider as one that can be written to. Raises WriteError, by name, for one that cannot."""
    provider = innermost(table.provider)
    if isinstance(provider, WritableProvider):
        return provider
    if table.live is not None:
        raise WriteError(
            f"the table {table.name!r} is a push table: its rows come from its sink (sink.write), not from INSERT INTO"
        )
    raise WriteError(
        f"the table {table.name!r} is read-only: its provider {type(provider).__name__} is no WritableProvider. To "
        "make it writable, derive its class from headrace.WritableProvider and give it a method insert"
    )


def layout_text(layout: WriteLayout) -> str:
    parts = [f"cluster by {', '.join(layout.cluster_by)}"] if layout.cluster_by else []
    if layout.order_by:
        parts.append(f"order by {', '.join(map(_key_text, layout.order_by))}")
    if layout.partitions is not None:
        parts.append(counted(layout.partitions, "task"))
    return "; ".join(parts) or "as they come"


def _key_text(key: SortKey) -> str:
    return f"{key.column} {'DESC' if key.descending else 'ASC'}"


def _agrees(table: RegisteredTable, method: str, filters: Sequence[Expr]) -> bool:
    provider, where = writable(table), f"{table.provider_name}.{method}"
    with asking(where, table.name):
        answer = getattr(provider, method)(tuple(filters))
    if not isinstance(answer, bool):
        raise WriteError(f"{where} returned {kind_of(answer)}, expected True or False (table {table.name!r})")
    return answer


def _layout(table: RegisteredTable, provider: WritableProvider, mode: WriteMode) -> WriteLayout | None:
    where = f"{table.provider_name}.layout"
    with asking(where, table.name):
        layout = provider.layout(mode)
    if layout is None:
        return None
    if not isinstance(layout, WriteLayout):
        raise WriteError(f"{where} returned {kind_of(layout)}, expected a WriteLayout or None (table {table.name!r})")
    named = [*layout.cluster_by, *(key.column for key in layout.order_by)]
    unknown = [column for column in named if column not in table.schema.names]
    if unknown:
        raise WriteError(f"{where} names the column {unknown[0]!r}, which the table {table.name!r} has not")
    if layout.partitions is not None and (layout.partitions < 1 or not layout.cluster_by):
        raise WriteError(
            f"{where} wants {layout.partitions} partitions (table {table.name!r}): give a number of at least 1, and "
            "the columns to cluster by"
        )
    return layout


def _text(filters: Sequence[Expr]) -> str:
    return " AND ".join(map(repr, filters))


def _bare(type_: Any) -> Any:
    """A type in Spark's JSON without what is nullable, and without comments."""
    if isinstance(type_, dict):
        dropped = {"nullable", "containsNull", "valueContainsNull", "metadata"}
        return {key: _bare(value) for key, value in type_.items() if key not in dropped}
    return [_bare(one) for one in type_] if isinstance(type_, list) else type_


def _columns(struct: dict[str, Any]) -> str:
    fields = [(field["name"], field["type"]) for field in struct["fields"]]
    lines = [f"  {name}: {type_ if isinstance(type_, str) else type_['type']}" for name, type_ in fields]
    return "\n".join(lines) or "  (no columns)"
