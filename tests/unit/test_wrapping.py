"""Tables and plans that wrap others pass on all that the inner ones can do, whatever the contract has or will have."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace
import headrace as hr
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.registry import RegisteredTable
from headrace.provider import NestedLiterals, PerScanProvider, for_scan
from headrace.tables.dataset.scan import DatasetScan
from headrace.tables.sorted import SortedPlan
from headrace.tables.wrapping import WrappingTable, contract_names, innermost, passes_on

TABLE = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})
BY_A = [hr.SortKey("a")]
CHANGED = {
    hr.SortedTable: {"schema", "scan", "supports_top_n_pushdown"},
    SortedPlan: {"ordering", "execute", "describe"},
    DatasetScan: {"schema", "scan", "supports_filters_pushdown", "supports_aggregate_pushdown", "statistics"},
}
"""What a wrapper does itself. The rest is the inner one's."""
WRAPPERS = [
    (wrapper, contract)
    for wrapper, contract in (
        (hr.SortedTable, hr.TableProvider),
        (DatasetScan, hr.TableProvider),
        (SortedPlan, hr.ExecutionPlan),
    )
]


class Everything:
    """Has a value of its own under every name."""

    def __getattr__(self, name: str) -> str:
        return f"inner {name}"


@pytest.mark.parametrize(("wrapper", "contract"), WRAPPERS, ids=lambda one: one.__name__)
def test_wrapper_every_name_of_the_contract_is_its_own_or_the_inner_ones(
    wrapper: type[Any], contract: type[Any]
) -> None:
    outer = object.__new__(wrapper)
    outer.inner = Everything()
    names = contract_names(contract)
    assert {"schema", "statistics"} <= set(names)
    passed_on = {name for name in names if getattr(outer, name) == f"inner {name}"}
    assert set(names) - passed_on == CHANGED[wrapper]


def test_wrapper_method_that_the_contract_gets_later_is_passed_on() -> None:
    class Later(hr.MemTable):
        def supports_writes(self) -> str:
            return "inner"

    class Contract(hr.TableProvider):
        def supports_writes(self) -> str:
            return "default"

    @passes_on(Contract)
    class Wrapper(Contract):  # type: ignore[misc]
        inner = Later(TABLE)

    assert Wrapper().supports_writes() == "inner"  # type: ignore[abstract]
    assert Wrapper().schema() == TABLE.schema  # type: ignore[abstract]


def modules() -> Iterator[Any]:
    root = Path(headrace.__file__).parent
    for module in pkgutil.walk_packages([str(root / "tables")], "headrace.tables."):
        yield importlib.import_module(module.name)


def test_wrapper_of_tables_each_one_is_in_this_test() -> None:
    """A class whose constructor takes a provider or a plan wraps it."""
    found = {
        value
        for module in modules()
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, (hr.TableProvider, hr.ExecutionPlan))
        and value.__module__ == module.__name__
        and {"TableProvider", "ExecutionPlan", "DatasetTable"} & set(inspect.get_annotations(value.__init__).values())
    }
    assert found == set(CHANGED)


class Remembering(PerScanProvider):
    """Asks that all questions about one scan are put to one object."""

    def schema(self) -> pa.Schema:
        return TABLE.schema

    def for_scan(self) -> hr.TableProvider:
        return RememberingScan(TABLE)

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        raise AssertionError("the scan is not asked of this one")


class RememberingScan(hr.MemTable, NestedLiterals):
    pass


class Joined(hr.MemTable, hr.JoiningProvider):
    def joined(self, join: hr.Join) -> hr.TableProvider | str:
        self.seen = join
        return "not today"


def negotiation(provider: hr.TableProvider) -> Negotiation:
    return Negotiation(RegisteredTable.of("t", provider))


def test_sorted_table_over_a_provider_for_each_scan_asks_an_object_for_the_scan() -> None:
    table = hr.SortedTable(Remembering(), BY_A)
    scan = negotiation(table)
    assert scan.takes_nested_literals
    assert isinstance(innermost(for_scan(table)), RememberingScan)
    plan = scan.plan().plan
    assert isinstance(plan, SortedPlan)
    assert plan.ordering == tuple(BY_A)


def test_sorted_table_two_scans_at_once_do_not_share_their_state() -> None:
    table = hr.SortedTable(hr.MemTable(TABLE), BY_A)
    first, second = for_scan(table), for_scan(table)
    assert first is not second
    assert isinstance(first, WrappingTable)


def test_sorted_table_over_a_joining_provider_is_asked_about_joins_as_that_one() -> None:
    left, right = Joined(TABLE), Joined(TABLE)
    one, two = negotiation(hr.SortedTable(left, BY_A)), negotiation(hr.SortedTable(right, BY_A))
    condition = hr.Comparison("=", hr.Column("a"), hr.Column("a_1"))
    offered = one.offer_join(two, "inner", ((("a", "a"),), (("a", "a_1"),)), condition)
    assert offered.why_not == "not today"
    assert left.seen.left.table is left
    assert left.seen.right.table is right


def test_sorted_table_over_one_that_does_not_join_does_not_join() -> None:
    one, two = (negotiation(hr.SortedTable(hr.MemTable(TABLE), BY_A)) for _ in range(2))
    condition = hr.Comparison("=", hr.Column("a"), hr.Column("a_1"))
    offered = one.offer_join(two, "inner", ((("a", "a"),), (("a", "a_1"),)), condition)
    assert offered.why_not == "SortedTable does not join"


class Stated(hr.ExecutionPlan):
    schema = TABLE.schema
    partitioning = hr.UnknownPartitioning(2)
    placement = hr.Placement.EXECUTORS
    runtime_filter_columns: Sequence[str] = ("a",)

    def execute(self, partition: int) -> list[pa.RecordBatch]:
        return TABLE.to_batches()

    def statistics(self) -> hr.Statistics:
        return hr.Statistics(3)


def test_sorted_plan_pickled_says_what_the_inner_plan_says() -> None:
    plan = pickle.loads(pickle.dumps(SortedPlan(Stated(), tuple(BY_A), 2)))
    assert (plan.schema, plan.partitioning, plan.placement) == (TABLE.schema, Stated.partitioning, Stated.placement)
    assert (plan.runtime_filter_columns, plan.statistics()) == (("a",), hr.Statistics(3))
    assert plan.ordering == tuple(BY_A)
    assert [batch.num_rows for batch in plan.execute(0)] == [2]
