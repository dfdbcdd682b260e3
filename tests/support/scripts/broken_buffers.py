"""What becomes of broken batches, from providers and from a sink; prints an outcome for each, as it comes, as JSON.

Its argument: pairs of a way and a batch's name, as JSON.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))
import broken_arrays
import headrace as hr


def provide(ctx: hr.SessionContext, table: str, name: str, placement: hr.Placement) -> None:
    schema = broken_arrays.broken_batch(name).schema
    ctx.register_table(table, hr.SimpleTable(schema, lambda: [broken_arrays.broken_batch(name)], placement=placement))
    ctx.collect(f"SELECT c FROM {table}")


def push(ctx: hr.SessionContext, table: str, name: str) -> None:
    batch = broken_arrays.broken_batch(name)
    sink = ctx.register_streaming_table(table, batch.schema)
    sink.write(batch)
    sink.close()
    ctx.collect(f"SELECT c FROM {table}")


def limited(ctx: hr.SessionContext, table: str, name: str) -> None:
    """A limit cuts between the offsets."""
    schema = broken_arrays.broken_batch(name).schema
    ctx.register_table(table, hr.SimpleTable(schema, lambda: [broken_arrays.broken_batch(name)]))
    ctx.collect(f"SELECT c FROM {table} LIMIT 2")


WAYS: dict[str, Callable[[hr.SessionContext, str, str], None]] = {
    "EXECUTORS": functools.partial(provide, placement=hr.Placement.EXECUTORS),
    "DRIVER": functools.partial(provide, placement=hr.Placement.DRIVER),
    "sink": push,
    "limit": limited,
}


def main(wanted: list[tuple[str, str]]) -> None:
    with hr.SessionContext() as ctx:
        ctx.register_table("whole", hr.MemTable(pa.table({"a": [1, 2, 3]})))
        for number, (way, name) in enumerate(wanted):
            table = f"{way}_{number}".lower()
            print("RUNNING", json.dumps([way, name]), flush=True)
            try:
                WAYS[way](ctx, table, name)
                found = ["no error", ""]
            except Exception as error:
                found = [type(error).__name__, str(error)]
            alive = ctx.collect("SELECT sum(a) AS s FROM whole").to_pydict() == {"s": [6]}
            print("FOUND", json.dumps([way, name, table, *found, alive]), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
