"""Providers that differ from the honest one in one thing: their schema, batches or columns break a promise."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import headrace as hr
from honest_provider import SCHEMA, HonestTable, Plan


class SchemaIsAList(HonestTable):
    def schema(self) -> Any:
        return ["city", "value"]


class SchemaChanges(HonestTable):
    calls = 0

    def schema(self) -> pa.Schema:
        self.calls += 1
        return SCHEMA if self.calls == 1 else SCHEMA.remove(1)


class SchemaSparkHasNoTypesFor(HonestTable):
    def schema(self) -> pa.Schema:
        return SCHEMA.append(pa.field("at", pa.month_day_nano_interval()))


class WrongNames(HonestTable):
    class OwnPlan(Plan):
        def projected(self, rows: pa.Table) -> pa.Table:
            rows = super().projected(rows)
            return rows.rename_columns([name.upper() for name in rows.column_names])


class WrongTypes(HonestTable):
    class OwnPlan(Plan):
        def projected(self, rows: pa.Table) -> pa.Table:
            rows = rows.set_column(1, "value", rows["value"].cast(pa.string()))
            return super().projected(rows)


class WrongPlanSchema(HonestTable):
    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.schema = pa.schema([("other", pa.int64())])


class NullsWhereNoneAreDeclared(HonestTable):
    class OwnPlan(Plan):
        def rows(self, partition: int) -> pa.Table:
            rows = super().rows(partition)
            return rows.set_column(0, "city", pa.array([None] * rows.num_rows, pa.string()))


class IgnoresProjectionOrder(HonestTable):
    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.schema = pa.schema([field for field in SCHEMA if field.name in request.projection])

        def projected(self, rows: pa.Table) -> pa.Table:
            return rows.select(self.schema.names)


class RenamesInTableOrder(HonestTable):
    """The worst kind: two columns of one type, with the requested names on the wrong values."""

    def schema(self) -> pa.Schema:
        return pa.schema([("value", pa.int64()), ("weight", pa.int64())])

    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.partitioning, self.ordering = hr.UnknownPartitioning(3), ()

        def projected(self, rows: pa.Table) -> pa.Table:
            in_table_order = [name for name in SCHEMA.names if name in self.request.projection]
            return rows.select(in_table_order).rename_columns(list(self.request.projection))


class FailsWithOneColumn(HonestTable):
    class OwnPlan(Plan):
        def projected(self, rows: pa.Table) -> pa.Table:
            rows = super().projected(rows)
            return rows if rows.num_columns > 1 else rows.slice(0, 0)


class PrunesNestedFieldsWrongly(HonestTable):
    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.schema = request.schema

        def projected(self, rows: pa.Table) -> pa.Table:
            rows = super().projected(rows)
            if rows.schema.types == self.schema.types:
                return rows
            children = self.schema.field("place").type
            nulls = pa.array([{field.name: None for field in children}] * rows.num_rows, children)
            return rows.set_column(rows.column_names.index("place"), self.schema.field("place"), nulls)
