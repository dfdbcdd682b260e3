"""Queries that fail with one of the exceptions of ``raising``: what whoever runs them must be told; for the tests."""

from __future__ import annotations

from functools import partial

import pytest

import headrace as hr
from misbehaving import BadProvider
from producing import FunctionTable
from raising import check_told, raise_made, third_raises


def check_execute_told(ctx: hr.SessionContext, name: str, placement: hr.Placement) -> None:
    """``execute`` raises it after rows: no short result, whichever way the query is read."""
    ctx.register_table("t", FunctionTable(partial(third_raises, name), partitions=3, placement=placement))
    with pytest.raises(hr.ProviderError) as caught:
        ctx.collect("SELECT * FROM t")
    check_told(name, caught.value)
    assert (caught.value.table, caught.value.partition) == ("t", 2)
    with ctx.execute_stream("SELECT * FROM t") as stream, pytest.raises(hr.ProviderError):
        list(stream)
    with pytest.raises(hr.ProviderError):
        stream.read_next_batch()


def check_planning_told(ctx: hr.SessionContext, name: str, method: str) -> None:
    """``method`` of a provider raises it while Spark plans."""
    ctx.register_table("t", BadProvider(method, partial(raise_made, name)))
    with pytest.raises(hr.ProviderError) as caught:
        ctx.collect("SELECT * FROM t WHERE a = 1")
    check_told(name, caught.value)
