"""What Spark's planner offers for a scan, from the connector's JSON to a Negotiation's own objects; driver Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.arrow.spark_types import pruned_schema
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.partitioning import BUCKETING, ScanSettings
from headrace.spark.predicates import decode


def take_offers(negotiation: Negotiation, offers: dict[str, Any]) -> dict[str, Any]:
    """Make the offers, in their order; returns the answers by kind, as JSON. Raises as Negotiation does."""
    return {kind: _OFFERS[kind](negotiation, value) for kind, value in offers.items()}


def _filters(negotiation: Negotiation, nodes: list[dict[str, Any] | None]) -> list[str]:
    return [offered.word for offered in negotiation.offer_filters([decode(node) for node in nodes])]


def _columns(negotiation: Negotiation, struct: dict[str, Any]) -> None:
    negotiation.offer_columns(pruned_schema(negotiation.table.schema, struct))


def _limit(negotiation: Negotiation, limit: int) -> None:
    negotiation.offer_limit(limit)


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
    "settings": _settings,
}
"""The kinds that ``org.headrace.spark.scan.Negotiation`` sends, by name."""
