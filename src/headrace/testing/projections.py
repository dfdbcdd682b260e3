"""Checks of the projection: each column alone, all of them reversed, none, nested fields pruned; pure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from random import Random

import pyarrow as pa

from headrace.arrow.nested import with_nested_changed
from headrace.testing.probe import CheckStopped, Probe
from headrace.testing.report import Promise
from headrace.testing.stated import check_stated
from headrace.testing.truth import Truth


def check_projections(probe: Probe, truth: Truth, rng: Random) -> None:
    for columns in _projections(list(probe.table.schema), rng):
        with contextlib.suppress(CheckStopped):
            negotiation = probe.negotiate(columns=columns)
            reading = probe.read(probe.plan(Promise.PROJECTION, negotiation), Promise.PROJECTION)
            check_stated(probe, reading)
            truth.compare(probe, reading, Promise.PROJECTION, "other values than in a scan of all columns")


def _projections(fields: list[pa.Field], rng: Random) -> Iterator[list[pa.Field]]:
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


def _pruned(field: pa.Field, which: int) -> pa.Field:
    """Every struct, wherever it is nested, with only its first (0) or last (-1) field."""

    def only_one(part: str, fields: list[pa.Field]) -> list[pa.Field]:
        if part == "key" or not fields:
            return fields
        return [_pruned(fields[which], which)]

    return field.with_type(with_nested_changed(field.type, only_one))
