"""Spark's physical plan, walked through for Headrace's scans and what stands above each; driver Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_SCAN_CLASS = "org.headrace.spark.scan.HeadraceScan"
LIMITS = ("GlobalLimitExec", "LocalLimitExec", "CollectLimitExec", "TakeOrderedAndProjectExec")
EXCHANGES = ("ShuffleExchangeExec", "BroadcastExchangeExec")
_LONGEST = 500  # characters of a condition
_INSIDE = {"GetMapValue", "GetArrayItem", "GetArrayStructFields", "ElementAt", "ArrayContains", "ArrayExists"}
PASS_ROWS_ON = (*LIMITS, "ColumnarToRowExec", "ProjectExec", "WholeStageCodegenExec", "InputAdapter")


@dataclass(frozen=True)
class Step:
    """One operator above a scan, and which of its children leads to the scan."""

    node: Any
    child: int

    @property
    def name(self) -> str:
        return str(self.node.getClass().getSimpleName())


@dataclass(frozen=True)
class FoundScan:
    """A scan of ours in the physical plan; ``above`` runs from the scan's parent to the root."""

    scan: Any
    above: tuple[Step, ...]
    cached: bool


def scans_of(node: Any, above: tuple[Step, ...], cached: bool) -> Iterator[FoundScan]:
    """All scans below ``node``: through adaptive plans (as first planned), caches, commands and subqueries."""
    name = node.getClass().getSimpleName()
    if name in ("BatchScanExec", "MicroBatchScanExec") and node.scan().getClass().getName() == _SCAN_CLASS:
        yield FoundScan(node.scan(), above, cached)
    elif name == "AdaptiveSparkPlanExec":
        yield from scans_of(node.initialPlan(), above, cached)
    elif name == "InMemoryTableScanExec":
        yield from scans_of(node.relation().cachedPlan(), (), True)
    elif name == "CommandResultExec":
        yield from scans_of(node.commandPhysicalPlan(), (), cached)
    for index, child in enumerate(elements(node.children())):
        yield from scans_of(child, (Step(node, index), *above), cached)
    for subquery in elements(node.subqueries()):
        yield from scans_of(subquery, (), cached)


def elements(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _conjuncts(condition: Any) -> list[Any]:
    if condition.nodeName() == "And":
        return _conjuncts(condition.left()) + _conjuncts(condition.right())
    return [condition]


def _left(above: tuple[Step, ...]) -> list[Any]:
    """What Spark filters by right above the scan; all of it has to hold."""
    found = []
    for step in above:
        if step.name == "FilterExec":
            found += _conjuncts(step.node.condition())
        elif step.name not in PASS_ROWS_ON:
            break
    return found


def conditions(above: tuple[Step, ...]) -> list[str]:
    """What Spark filters by right above the scan, in its own words."""
    return [_text(condition) for condition in _left(above)]


def not_offered(above: tuple[Step, ...], jvm: Any) -> list[str]:
    """Those of the conditions that Spark could offer to no source, each with the reason."""
    builder = jvm.org.apache.spark.sql.catalyst.util.V2ExpressionBuilder  # by which Spark tells what it can offer
    untold = [condition for condition in _left(above) if builder(condition, True).buildPredicate().isEmpty()]
    return [f"{_text(condition)}: {_why_not(condition)}" for condition in untold]


def _text(condition: Any) -> str:
    text = str(condition.sql())  # a list in it may have thousands of values
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


def _why_not(condition: Any) -> str:
    names = _names(condition)
    if "ScalarSubquery" in names:
        return "its subquery has to run first"
    if names & _INSIDE:
        return "of nested values Spark offers fields of structs, not what is inside of arrays and maps"
    return "Spark has no form of it for sources"


def _names(expression: Any) -> set[str]:
    """The classes of an expression and of all that it is made of."""
    inner = (_names(child) for child in elements(expression.children()))
    return {str(expression.getClass().getSimpleName())}.union(*inner)
