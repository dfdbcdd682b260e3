"""check_provider: filters with arithmetic, division and casts of text are among those it makes, and lies are found."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headrace as hr
from checking import check_provider, errors
from headrace.testing import Promise

D = decimal.Decimal
ROWS = pa.table(
    {
        "price": pa.array([D("1.50"), None, D("-3.25"), D("7.00"), D("0.01")], pa.decimal128(10, 2)),
        "text": ["1", None, " 22 ", "-3", "007"],
        "count": [1, None, 5, -4, 7],
    }
)
Lie = Callable[[hr.Expr], bool]


class Evaluating(hr.TableProvider):
    """Takes every filter; one for which ``lie`` is true is not used, but for its nulls."""

    def __init__(self, lie: Lie) -> None:
        self.lie = lie

    def schema(self) -> pa.Schema:
        return ROWS.schema

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> list[hr.FilterPushdown]:
        return [hr.FilterPushdown.EXACT for _ in filters]

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return EvaluatingPlan(self.lie, request)


class EvaluatingPlan(hr.ExecutionPlan):
    placement = hr.Placement.DRIVER

    def __init__(self, lie: Lie, request: hr.ScanRequest) -> None:
        self.schema = ROWS.schema
        self.lie = lie
        self.filters = request.filters

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        for whole in ROWS.to_batches():
            batch = whole
            for expr in self.filters:
                answers = expr.evaluate(batch)
                batch = batch.filter(pc.is_valid(answers) if self.lie(expr) else answers)
            yield batch


def compares(expr: hr.Expr, kind: type[hr.Expr]) -> bool:
    return isinstance(expr, hr.Comparison) and isinstance(expr.left, kind)


def of_decimals(operation: str) -> Lie:
    return lambda expr: repr(expr).startswith(f"price {operation} ")


def cast_of_text(target: str) -> Lie:
    return lambda expr: compares(expr, hr.Cast) and repr(expr).startswith(f"CAST(text AS {target}")


LIES: dict[str, Lie] = {
    **{f"decimals {operation}": of_decimals(operation) for operation in ("+", "-", "*", "/", "%")},
    **{f"text as {target}": cast_of_text(target) for target in ("int", "bigint", "double", "decimal")},
    "integers divided": lambda expr: repr(expr).startswith("CAST(count AS double) / "),
    "integers as decimals": lambda expr: repr(expr).startswith("CAST(count AS decimal(20,0)) + "),
}


def test_provider_that_evaluates_every_filter_passes() -> None:
    report = check_provider(Evaluating(lambda _: False), samples=1)
    assert report.ok, str(report)


@pytest.mark.daily("decimals /", "text as int", "integers divided")
@pytest.mark.parametrize("lie", LIES)
def test_provider_that_computes_wrongly_is_caught(lie: str) -> None:
    report = check_provider(Evaluating(LIES[lie]), samples=1)
    found = errors(report.about(Promise.FILTERS))
    assert found, str(report)
    assert "for which it is not true" in found[0].message
