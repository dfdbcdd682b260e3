"""The archive of Spark's classes, made once per environment: a JVM that maps it starts with a third of the work.

``python tests/support/class_archive.py`` makes it, as the Makefile does. Without it, or with one of another JDK or
another Spark, the tests take longer and are the same: a JVM passes over an archive that does not fit.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
# Short queries gain nothing from the optimising compiler, which takes more processor time than they do, nor from a
# collector that works beside the program.
# One compiler alone would get a fifth of the usual room for code, and a JVM that has none left ends.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseParallelGC"
# The JVM reports about archives on its standard output, which belongs to the programs under test.
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"


def java_options() -> str:
    """What a JVM that a test starts should be given."""
    return f"{_QUICK} {_QUIET} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else _QUICK


def use() -> None:
    """Let every driver started from here on, by this process or by its children, start quickly.

    Clusters hand the options on to executors by themselves.
    """
    os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())


def make() -> None:
    """Run a Spark with a pull, a push, a write, a stream and a result, and keep the classes that were loaded.

    Raises TimeoutExpired if the JVM does not end.
    """
    ARCHIVE.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_QUICK} {_QUIET} -XX:ArchiveClassesAtExit={ARCHIVE}"
    import pyarrow as pa
    from pyspark import SparkContext

    import headrace as hr

    table = pa.table({"a": range(1000), "s": [str(n % 7) for n in range(1000)]})
    with hr.SessionContext(master="local[2]") as ctx:
        ctx.register_table("t", hr.MemTable(table, partitions=2))
        with ctx.register_streaming_table("pushed", table.schema) as sink:
            sink.write(table.to_batches()[0])
        ctx.sql("SELECT s, sum(a) FROM t WHERE a > 3 GROUP BY s ORDER BY s").collect()
        ctx.execute_stream("SELECT * FROM t JOIN pushed USING (a)").read_all()
        ctx.sql("EXPLAIN FORMATTED SELECT max(a) FROM t").collect()
        _write_and_stream(ctx, table)
    gateway: Any = SparkContext._gateway
    gateway.proc.stdin.close()  # the JVM writes the archive when it ends, and it ends with its standard input
    gateway.proc.wait(timeout=300)


def _write_and_stream(ctx: Any, table: Any) -> None:
    import pyarrow.parquet as pq

    import headrace as hr

    with tempfile.TemporaryDirectory() as directory:
        os.mkdir(f"{directory}/landing")
        pq.write_table(table, f"{directory}/landing/0.parquet")
        ctx.register_table("landing", hr.DatasetTable(f"{directory}/landing"))
        ctx.register_table("written", hr.DatasetTable(f"{directory}/written", schema=table.schema))
        ctx.sql("INSERT INTO written SELECT * FROM t")
        writer = ctx.stream("landing").writeStream.option("checkpointLocation", f"{directory}/checkpoint")
        writer.trigger(availableNow=True).toTable(f"{ctx.catalog}.written").awaitTermination(120)


if __name__ == "__main__":
    make()
    if not ARCHIVE.exists():
        sys.exit(f"the JVM made no archive at {ARCHIVE}")
