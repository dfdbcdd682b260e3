"""Work at the source: a provider without any pushdown, against Spark over its own memory and against the stage off."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

import headrace as hr
from benchmarks.bench import Bench, Rows
from benchmarks.data import FEW_KEYS
from benchmarks.harness import Case, Contender
from benchmarks.rivals import HEADRACE, MEMORY
from benchmarks.sources import Source

OFF = "work at the source off"
_SETTING = "spark.headrace.workAtSource"


@dataclass(frozen=True)
class Query:
    """A query, and the most that it may take of the time of others: of Spark's ``memory``, and of the stage ``off``.

    ``memory`` is None where that is not compared.
    """

    name: str
    text: str
    memory: float | None = None
    off: float = 1.1


QUERIES = (
    Query("GROUP BY a string of 1,000 values", "SELECT s, count(*), sum(v) FROM {t} GROUP BY s", 0.3),
    Query(f"GROUP BY an int of {FEW_KEYS} values", "SELECT k, count(*), sum(v) FROM {t} GROUP BY k", 0.6),
    Query("four columns, max(s)", "SELECT sum(id), sum(v), sum(k), max(s) FROM {t}", 0.3),
    Query("one sum", "SELECT sum(id) FROM {t}", 0.9),
    Query("filter and count", "SELECT count(*) FROM {t} WHERE v > 0.5 AND s <> 'name3' AND k >= 0 AND id >= 0", 0.8),
    Query("first 10 rows", "SELECT * FROM {t} ORDER BY v DESC, id LIMIT 10", 0.6),
    Query("rows", "SELECT sum(octet_length(s)), sum(id), sum(v), sum(k) FROM {t}"),
    Query("rows, a filter that keeps half", "SELECT sum(octet_length(s)), sum(id), sum(k) FROM {t} WHERE v > 0.5"),
    Query("rows, a filter that keeps all", "SELECT sum(octet_length(s)), sum(v), sum(k) FROM {t} WHERE id >= 0"),
    Query(
        "join that keeps one key of ten",
        "SELECT count(*), sum(f.v), sum(octet_length(f.s)) FROM {t} f JOIN few d ON f.k = d.k WHERE d.wanted = 1",
    ),
    Query(
        "join that keeps all keys",
        "SELECT count(*), sum(f.v), sum(octet_length(f.s)) FROM {t} f JOIN few d ON f.k = d.k WHERE d.wanted >= 0",
    ),
    Query(
        "GROUP BY with as many groups as rows",
        "SELECT count(*), sum(n), sum(v) FROM (SELECT id, count(*) AS n, sum(v) AS v FROM {t} GROUP BY id)",
        off=1.15,
    ),
)


@contextlib.contextmanager
def switched_off(ctx: hr.SessionContext) -> Iterator[None]:
    """Queries that are planned in here get no work at the source."""
    ctx.spark.conf.set(_SETTING, "false")
    try:
        yield
    finally:
        ctx.spark.conf.unset(_SETTING)


def cases(bench: Bench) -> list[Case]:
    ctx = bench.ctx
    source = Source(bench.rows, "numbered")
    parts = [functools.partial(source.batches, i) for i in range(source.partitions)]
    ctx.register_table("work_source", hr.StreamTable(source.schema, parts), replace=True)
    keys = range(FEW_KEYS)
    few = pa.table({"k": pa.array(keys, pa.int32()), "wanted": [int(key % 10 == 0) for key in keys]})
    ctx.register_table("few", hr.MemTable(few), replace=True)

    def without(text: str) -> Rows:
        with switched_off(ctx):
            return bench.sql(text, t="work_source")

    def case(query: Query) -> Case:
        contenders = [
            Contender(HEADRACE, lambda: bench.sql(query.text, t="work_source")),
            Contender(OFF, lambda: without(query.text)),
        ]
        bars = {OFF: 1 / query.off}
        if query.memory is not None:
            contenders.append(Contender(MEMORY, lambda: bench.sql(query.text, t=bench.in_memory(source)), limit=True))
            bars[MEMORY] = 1 / query.memory
        return Case(
            f"work: {query.name}",
            contenders,
            bars,
            rows=source.rows,
            prepare=(lambda: bench.in_memory(source)) if query.memory is not None else bench.forget_memory,
        )

    return [case(query) for query in QUERIES]
