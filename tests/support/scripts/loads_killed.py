"""Three streams loaded into Parquet at once: a service, a database and a folder. Kills itself where it is told to.

    loads_killed.py DIRECTORY URL [BATCH]

With BATCH it dies when each of the three has written that micro-batch, before Spark knows that it is done.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headrace as hr

directory, url = Path(sys.argv[1]), sys.argv[2]
last = int(sys.argv[3]) if len(sys.argv) > 3 else None
together = threading.Barrier(3)

TABLES: dict[str, hr.TableProvider] = {
    "service": hr.PagedApi(
        url,
        "id BIGINT, updated_at TIMESTAMP, state STRING",
        paging=hr.ByPage(rows=20),
        filters=[hr.ApiFilter("since", "updated_at", ">=")],
        cursor="updated_at",
    ),
    "database": hr.AdbcTable("sqlite", str(directory / "orders.db"), "orders", cursor="id"),
    "folder": hr.DatasetTable(directory / "landing"),
}


def sink(name: str) -> Callable[[Any, int], None]:
    def write(frame: Any, batch: int) -> None:
        frame.write.mode("overwrite").parquet(str(directory / "loaded" / name / f"batch={batch}"))
        if batch == last:
            together.wait(120)
            os.kill(os.getpid(), signal.SIGKILL)

    return write


with hr.SessionContext(master="local[2]") as ctx:
    queries = []
    for name, table in TABLES.items():
        ctx.register_table(name, table)
        stream = ctx.stream(name, maxRowsPerTrigger=20).writeStream.foreachBatch(sink(name))
        stream = stream.option("checkpointLocation", str(directory / "checkpoints" / name))
        queries.append(stream.trigger(availableNow=True).start())
    for query in queries:
        assert query.awaitTermination(120), "a query did not end"
