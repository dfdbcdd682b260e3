"""What Spark's planner offers for a scan, from the connector's JSON to a Negotiation's own objects; driver Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.arrow.spark_types import pruned_schema, spark_schema
from headrace.expr.nodes import Expr
from headrace.negotiate.aggregates import OfferedFunction
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.partitioning import BUCKETING, ScanSettings
from headrace.plan import SortKey
from headrace.spark.predicates import decode


def take_offers(
    negotiation: Negotiation, offers: dict[str, Any], find: Callable[[dict[str, Any]], Negotiation]
) -> dict[str, Any]:
    """Make the offers, in their order; returns the answers by kind, as JSON. Raises as Negotiation does.

    ``find``: the negotiation that a question is about, for an offer of two scans.
    """
    answers: dict[str, Any] = {}
    for kind, value in offers.items():
        if kind == "join":
            other = find(value["other"])
            take_offers(other, value["other"]["offers"], find)
            answers[kind] = _join(negotiation, other, value)
        else:
            answers[kind] = _OFFERS[kind](negotiation, value)
    return answers


def _join(negotiation: Negotiation, other: Negotiation, join: dict[str, Any]) -> dict[str, Any]:
    """Spark's schema of the joined rows; None where the join was not taken."""
    left, right = (tuple((old, new) for old, new in join[side]) for side in ("left", "right"))
    condition = None if join["condition"] is None else decode(join["condition"])
    joined = negotiation.offer_join(other, join["how"], (left, right), condition).joined
    return {"schema": None if joined is None else spark_schema(joined.wire_schema, joined.schema)}


def _filters(negotiation: Negotiation, nodes: list[dict[str, Any] | None]) -> list[str]:
    filters = [decode(node, nested=negotiation.takes_nested_literals) for node in nodes]
    return [offered.word for offered in negotiation.offer_filters(filters)]


def _columns(negotiation: Negotiation, struct: dict[str, Any]) -> None:
    negotiation.offer_columns(pruned_schema(negotiation.table.schema, struct))


def _limit(negotiation: Negotiation, limit: int) -> None:
    negotiation.offer_limit(limit)


def _top_n(negotiation: Negotiation, top_n: dict[str, Any]) -> str:
    order = [SortKey(key["column"], key["descending"], key["nulls_first"]) for key in top_n["order"]]
    return negotiation.offer_top_n(order, top_n["limit"]).answer.value


def _offset(negotiation: Negotiation, offset: int) -> bool:
    return negotiation.offer_offset(offset)


def _asked_aggregation(negotiation: Negotiation, aggregation: dict[str, Any]) -> str:
    parts = _aggregation_parts(aggregation)
    return "unsupported" if parts is None else negotiation.ask_aggregation(*parts).answer.value


def _aggregation(negotiation: Negotiation, aggregation: dict[str, Any]) -> dict[str, Any]:
    """The answer, and Spark's schema of the rows that come."""
    parts = _aggregation_parts(aggregation)
    if parts is None:
        return {"answer": "unsupported"}
    offered = negotiation.offer_aggregation(*parts)
    schema = None if offered.aggregation is None else spark_schema(offered.aggregation.schema)
    return {"answer": offered.answer.value, "schema": schema}


def _aggregation_parts(aggregation: dict[str, Any]) -> tuple[list[Expr], list[OfferedFunction]] | None:
    groups = [decode(node) for node in aggregation["groups"]]
    functions = [(one, None if one["operand"] is None else decode(one["operand"])) for one in aggregation["functions"]]
    if any(one["operand"] is not None and operand is None for one, operand in functions):
        return None
    known = [group for group in groups if group is not None]
    if len(known) < len(groups):
        return None
    return known, [OfferedFunction(one["name"], operand, one["distinct"]) for one, operand in functions]


def _runtime_filters(negotiation: Negotiation, nodes: list[dict[str, Any] | None]) -> None:
    negotiation.offer_runtime_filters([decode(node) for node in nodes])


def _runtime_filters_left_out(negotiation: Negotiation, why: list[str]) -> None:
    negotiation.leave_out_runtime_filters(why)


def _is_small(negotiation: Negotiation, most_bytes: int) -> bool:
    return negotiation.is_small(most_bytes)


def _settings(negotiation: Negotiation, settings: dict[str, bool]) -> None:
    negotiation.settings = ScanSettings(
        bucketing=settings[f"{BUCKETING}.enabled"],
        subset_of_keys=settings[f"{BUCKETING}.allowKeysSubsetOfPartitionKeys.enabled"],
        compatible_transforms=settings[f"{BUCKETING}.allowCompatibleTransforms.enabled"],
        shuffle_one_side=settings[f"{BUCKETING}.shuffle.enabled"],
    )


_OFFERS: dict[str, Callable[[Negotiation, Any], Any]] = {
    "filters": _filters,
    "columns": _columns,
    "limit": _limit,
    "top_n": _top_n,
    "offset": _offset,
    "asked_aggregation": _asked_aggregation,
    "aggregation": _aggregation,
    "runtime_filters": _runtime_filters,
    "runtime_filters_left_out": _runtime_filters_left_out,
    "is_small": _is_small,
    "settings": _settings,
}
"""The kinds that ``org.headrace.spark.scan.Negotiation`` sends, by name."""
