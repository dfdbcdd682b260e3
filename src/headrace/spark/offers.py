"""What Spark's planner offers for a scan, from the connector's JSON to a Negotiation's own objects; driver Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.arrow.spark_types import pruned_schema, spark_schema
from headrace.expr.nodes import Expr
from headrace.negotiate.aggregates import OfferedFunction
from headrace.negotiate.filters import MOST_RUNTIME_VALUES
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.partitioning import BUCKETING, ScanSettings
from headrace.plan import SortKey
from headrace.spark import words
from headrace.spark.predicates import decode


def take_offers(
    negotiation: Negotiation, offers: dict[str, Any], find: Callable[[dict[str, Any]], Negotiation]
) -> dict[str, Any]:
    """Make the offers, in their order; returns the answers by kind, as JSON. Raises as Negotiation does.

    ``find``: the negotiation that a question is about, for an offer of two scans.
    """
    answers: dict[str, Any] = {}
    for kind, value in offers.items():
        if kind == words.JOIN:
            other = find(value[words.OTHER])
            take_offers(other, value[words.OTHER][words.OFFERS], find)
            answers[kind] = _join(negotiation, other, value)
        else:
            answers[kind] = _OFFERS[kind](negotiation, value)
    return answers


def _join(negotiation: Negotiation, other: Negotiation, join: dict[str, Any]) -> dict[str, Any]:
    """Spark's schema of the joined rows; None where the join was not taken."""
    left, right = (tuple((old, new) for old, new in join[side]) for side in (words.LEFT, words.RIGHT))
    condition = None if join[words.CONDITION] is None else decode(join[words.CONDITION])
    joined = negotiation.offer_join(other, join[words.HOW], (left, right), condition).joined
    return {words.SCHEMA: None if joined is None else spark_schema(joined.wire_schema, joined.schema)}


def _filters(negotiation: Negotiation, nodes: list[dict[str, Any] | None]) -> list[str]:
    filters = [decode(node, nested=negotiation.takes_nested_literals) for node in nodes]
    return [offered.word for offered in negotiation.offer_filters(filters)]


def _columns(negotiation: Negotiation, struct: dict[str, Any]) -> None:
    negotiation.offer_columns(pruned_schema(negotiation.table.schema, struct))


def _top_n(negotiation: Negotiation, top_n: dict[str, Any]) -> str:
    order = [SortKey(key[words.COLUMN], key[words.DESCENDING], key[words.NULLS_FIRST]) for key in top_n[words.ORDER]]
    return negotiation.offer_top_n(order, top_n[words.LIMIT]).answer.value


def _asked_aggregation(negotiation: Negotiation, aggregation: dict[str, Any]) -> str:
    parts = _aggregation_parts(aggregation)
    return words.UNSUPPORTED if parts is None else negotiation.ask_aggregation(*parts).answer.value


def _aggregation(negotiation: Negotiation, aggregation: dict[str, Any]) -> dict[str, Any]:
    """The answer, and Spark's schema of the rows that come."""
    parts = _aggregation_parts(aggregation)
    if parts is None:
        return {words.ANSWER: words.UNSUPPORTED}
    offered = negotiation.offer_aggregation(*parts)
    schema = None if offered.aggregation is None else spark_schema(offered.aggregation.schema)
    return {words.ANSWER: offered.answer.value, words.SCHEMA: schema}


def _aggregation_parts(aggregation: dict[str, Any]) -> tuple[list[Expr], list[OfferedFunction]] | None:
    groups = [decode(node) for node in aggregation[words.GROUPS]]
    decoded = [group for group in groups if group is not None]
    functions: list[OfferedFunction] = []
    for one in aggregation[words.FUNCTIONS]:
        operand = None if one[words.OPERAND] is None else decode(one[words.OPERAND])
        if one[words.OPERAND] is not None and operand is None:
            return None
        functions.append(OfferedFunction(one[words.NAME], operand, one[words.DISTINCT]))
    return (decoded, functions) if len(decoded) == len(groups) else None


def _runtime_filters_left_out(negotiation: Negotiation, left_out: list[dict[str, Any]]) -> None:
    negotiation.leave_out_runtime_filters([_WHY_LEFT_OUT[one[words.REASON]](one) for one in left_out])


_WHY_LEFT_OUT: dict[str, Callable[[dict[str, Any]], str]] = {
    words.LONG_LIST: lambda one: f"a list of {one[words.VALUES]:,} values, more than {MOST_RUNTIME_VALUES:,}",
    words.NO_FORM: lambda one: "a filter of Spark's that has no form here",
    words.DEEP: lambda one: (
        f"the one on {one[words.COLUMN]}, as it would be learnt in more than two steps, each a query to plan"
    ),
}


def _settings(negotiation: Negotiation, settings: dict[str, Any]) -> None:
    negotiation.settings = ScanSettings(
        bucketing=settings[f"{BUCKETING}.enabled"],
        subset_of_keys=settings[f"{BUCKETING}.allowKeysSubsetOfPartitionKeys.enabled"],
        compatible_transforms=settings[f"{BUCKETING}.allowCompatibleTransforms.enabled"],
        shuffle_one_side=settings[f"{BUCKETING}.shuffle.enabled"],
        filters_back_bytes=settings[words.FILTERS_BACK_BYTES],
        broadcast_bytes=settings[words.BROADCAST_BYTES],
        work_at_source=settings[words.WORK_AT_SOURCE],
        ansi=settings[words.ANSI],
    )


_OFFERS: dict[str, Callable[[Negotiation, Any], Any]] = {
    words.FILTERS: _filters,
    words.COLUMNS: _columns,
    words.LIMIT: Negotiation.offer_limit,
    words.TOP_N: _top_n,
    words.OFFSET: Negotiation.offer_offset,
    words.ASKED_AGGREGATION: _asked_aggregation,
    words.AGGREGATION: _aggregation,
    words.RUNTIME_FILTERS_LEFT_OUT: _runtime_filters_left_out,
    words.SETTINGS: _settings,
}
"""The kinds that ``org.headrace.spark.scan.Negotiation`` sends, by name."""
