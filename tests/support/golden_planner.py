"""The tables behind the golden questions and answers of the planner, and a planner that has them; for the tests."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

import headrace as hr
from catalogs import Shop
from headrace.arrow.types import wire_schema
from headrace.negotiate.registry import RegisteredTable, Registry
from headrace.plan import Aggregation
from headrace.provider import Join, JoiningProvider
from headrace.spark.connect.planner_process import ServerPlanner
from headrace.transport.endpoint import Endpoint
from places import ROOT

GOLDEN = json.loads((ROOT / "connector" / "protocol" / "planner.json").read_text())
VARYING = {"path", "port", "secret", "ticket", "task", "traceback", "parts", "text"}
"""Fields of answers that differ from run to run."""

SCHEMA = pa.schema([("k", pa.int64()), ("name", pa.string()), ("price", pa.float64())])
FILTERS = {"k": hr.FilterPushdown.EXACT, "name": hr.FilterPushdown.INEXACT, "price": hr.FilterPushdown.UNSUPPORTED}


class GoldenPlan(hr.ExecutionPlan):
    """Says what its table says."""

    def __init__(self, request: hr.ScanRequest, said: dict[str, Any]) -> None:
        self.schema = request.schema
        for name, value in said.items():
            setattr(self, name, value)
        if request.runtime_filters:
            self.partitioning = hr.KeyPartitioning(("k",), [(2,)])

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        raise AssertionError("planning does not execute")


class GoldenTable(JoiningProvider):
    """Answers filters by their column, and takes all else."""

    def __init__(self, **said: Any) -> None:
        self.said = said

    def schema(self) -> pa.Schema:
        return SCHEMA

    def statistics(self) -> hr.Statistics:
        return hr.Statistics(100, 4000)

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[hr.FilterPushdown]:
        return [FILTERS["price" if isinstance(expr, hr.Not) else next(iter(expr.columns()))] for expr in filters]

    def supports_top_n_pushdown(self, order: Sequence[hr.SortKey], limit: int) -> hr.Pushdown:
        return hr.Pushdown.EXACT

    def supports_offset_pushdown(self, offset: int, limit: int | None) -> bool:
        return True

    def supports_aggregate_pushdown(self, aggregation: Aggregation) -> hr.AggregatePushdown:
        return hr.AggregatePushdown.COMPLETE if not aggregation.group_by else hr.AggregatePushdown.PARTIAL

    def joined(self, join: Join) -> hr.TableProvider | str:
        return GoldenTable() if join.how == "inner" else "only inner joins"

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        if self.said.get("raises"):
            raise LookupError("no such page")
        return GoldenPlan(request, self.said)


class GoldenPlanOfAWrite(hr.WritePlan):
    placement = hr.Placement.DRIVER

    def write(self, task: hr.WriteTask, batches: Iterator[pa.RecordBatch]) -> hr.Message:
        raise AssertionError("no task runs")

    def commit(self, messages: Sequence[hr.Message]) -> None:
        if messages != [{"rows": 3}, None]:
            raise LookupError("no such page")
        self.files_written = 1


class GoldenSink(hr.WritableProvider):
    """Can be written to in every way, and lets rows be deleted by ``k``."""

    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        raise AssertionError("nothing reads it")

    def insert(self, request: hr.WriteRequest) -> hr.WritePlan:
        return GoldenPlanOfAWrite()

    def write_modes(self) -> set[hr.WriteMode]:
        return set(hr.WriteMode)

    def can_overwrite(self, filters: Sequence[hr.Expr]) -> bool:
        return True

    def layout(self, mode: hr.WriteMode) -> hr.WriteLayout | None:
        if mode is not hr.WriteMode.OVERWRITE:
            return None
        return hr.WriteLayout(("k",), (hr.SortKey("name", descending=True, nulls_first=False),), partitions=2)

    def can_delete(self, filters: Sequence[hr.Expr]) -> bool:
        return all(expr.columns() == {"k"} for expr in filters)

    def delete(self, filters: tuple[hr.Expr, ...]) -> None:
        pass


class GoldenShop(Shop):
    """A catalog that can make tables."""

    def create_table(self, schema: str, name: str, columns: pa.Schema) -> hr.WritableProvider:
        return GoldenSink()

    def drop_table(self, schema: str, name: str) -> bool:
        return True


class GrowingTable(hr.StreamProvider):
    """Has seven rows; their numbers are its offsets."""

    def schema(self) -> pa.Schema:
        return SCHEMA

    def initial_offset(self) -> hr.Offset:
        return 0

    def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
        return min(7, start + (limit.max_rows or 7))

    def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return GoldenPlan(request, {})


def golden_planner(endpoint: Endpoint) -> ServerPlanner:
    registry = Registry()
    tables: dict[str, hr.TableProvider] = {
        "worker": GoldenTable(),
        "keyed": GoldenTable(
            placement=hr.Placement.DRIVER,
            partitioning=hr.KeyPartitioning(("k",), [(1,), (2,)]),
            ordering=(hr.SortKey("k", descending=True, nulls_first=False),),
            runtime_filter_columns=("k",),
        ),
        "hashed": GoldenTable(partitioning=hr.HashPartitioning(("k", "name"), 3, "crc32")),
        "failing": GoldenTable(raises=True),
        "growing": GrowingTable(),
        "sink": GoldenSink(),
    }
    for name, provider in tables.items():
        table = RegisteredTable(name, provider, SCHEMA, wire_schema(SCHEMA), id=f"id of {name}")
        registry.add(table)
    planner = ServerPlanner(registry, endpoint, "headrace.zip")
    planner.places.python = "python3"
    planner.catalogs.add("shop", GoldenShop())
    planner.catalogs.add_function(
        "series", lambda first, last=3: hr.MemTable(pa.table({"n": list(range(first, last))}))
    )
    return planner


def differences(expected: Any, found: Any, where: str = "") -> list[str]:
    """Where the two differ, but for what varies."""
    if isinstance(expected, dict) and isinstance(found, dict):
        if list(expected) != list(found):
            return [f"{where} has the fields {list(found)}, expected {list(expected)}"]
        varying = VARYING | {"table"} if "held" in expected else VARYING
        inner = [(key, expected[key], found[key]) for key in expected if key not in varying]
        return [line for key, one, other in inner for line in differences(one, other, f"{where}.{key}")]
    if where.endswith(".keys"):  # pyarrow may write the same batch in other bytes
        expected, found = (pa.ipc.open_stream(base64.b64decode(keys)).read_all() for keys in (expected, found))
    return [] if expected == found else [f"{where} is {found!r}, expected {expected!r}"]
