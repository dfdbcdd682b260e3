"""Live results into polars: each batch of a running query updates a running aggregate.

Shows ``ctx.execute_stream`` over a push table. Spark filters and joins what a producer writes, batch by batch; what
passes is here a moment later, as Arrow, and polars takes it without a copy. Needs polars: pip install polars

    python examples/live_polars.py
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import pyarrow as pa

import headrace as hr

SCHEMA = pa.schema([("product", pa.int64()), ("amount", pa.int64())])
PRODUCTS = pa.table({"product": [0, 1, 2], "name": ["lamp", "desk", "chair"]})
QUERY = "SELECT name, amount FROM sales JOIN products USING (product) WHERE amount > 4"
BATCHES = 12


def sell(sink: hr.TableSink) -> None:
    """The producer: a few sales at a time."""
    with suppress(hr.StreamError), sink:  # if the query fails it says so itself
        for minute in range(BATCHES):
            amounts = [minute + product for product in range(3)]
            sink.write(pa.record_batch({"product": [0, 1, 2], "amount": amounts}, SCHEMA))
            time.sleep(0.1)


def main(ctx: hr.SessionContext | None = None) -> list[dict[str, Any]]:
    """Returns the running aggregate after each batch of the result: totals by name, and the sink's state then."""
    try:
        import polars as pl
    except ModuleNotFoundError:
        raise SystemExit("this example needs polars: pip install polars") from None
    if ctx is None:
        with hr.SessionContext() as own:
            return main(own)
    ctx.register_table("products", PRODUCTS, replace=True)
    sink = ctx.register_streaming_table("sales", SCHEMA, capacity=1)
    updates = []
    try:
        threading.Thread(target=sell, args=(sink,), daemon=True).start()
        totals = pl.DataFrame(schema={"name": pl.String, "amount": pl.Int64})
        with ctx.execute_stream(QUERY) as result:
            for batch in result:
                totals = pl.concat([totals, pl.from_arrow(batch)]).group_by("name").sum().sort("name")
                updates.append({"totals": dict(totals.iter_rows()), "state": sink.stats.state})
                print(f"{batch.num_rows} more row(s), producer {sink.stats.state}: {updates[-1]['totals']}")
    finally:
        ctx.deregister_table("sales")
        ctx.deregister_table("products")
    return updates


if __name__ == "__main__":
    main()
