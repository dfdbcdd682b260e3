"""Checks of the projection: each column alone, all of them reversed, none, nested fields pruned; pure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from random import Random
from typing import Any

from headrace.testing.layout import check_layout
from headrace.testing.probe import CheckStopped, Probe
from headrace.testing.report import Promise
from headrace.testing.truth import Truth

Field = dict[str, Any]
"""A column in Spark's JSON form."""


def check_projections(probe: Probe, truth: Truth, rng: Random) -> None:
    for columns in _projections(probe.all_columns, rng):
        with contextlib.suppress(CheckStopped):
            reading = probe.read(probe.plan(Promise.PROJECTION, columns), Promise.PROJECTION)
            check_layout(probe, reading)
            truth.compare(probe, reading, Promise.PROJECTION, "other values than in a scan of all columns")


def _projections(fields: list[Field], rng: Random) -> Iterator[list[Field]]:
    yield fields[::-1]
    yield from ([field] for field in fields)
    yield []
    if len(fields) > 2:
        yield rng.sample(fields, len(fields) - 1)
        yield rng.sample(fields, 2)
    for position, field in enumerate(fields):
        for which in (0, -1):
            pruned = _pruned(field, which)
            if pruned != field:
                yield [pruned]
                yield [*fields[:position], pruned, *fields[position + 1 :]]


def _pruned(field: Field, which: int) -> Field:
    return {**field, "type": _pruned_type(field["type"], which)}


def _pruned_type(type_: Any, which: int) -> Any:
    """Every struct, wherever it is nested, with only its first (0) or last (-1) field."""
    if not isinstance(type_, dict):
        return type_
    if type_["type"] == "struct" and type_["fields"]:
        return {**type_, "fields": [_pruned(type_["fields"][which], which)]}
    inner = {"array": ["elementType"], "map": ["valueType"]}.get(type_["type"], [])
    return {**type_, **{name: _pruned_type(type_[name], which) for name in inner}}
