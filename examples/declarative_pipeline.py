"""A Declarative Pipeline that reads live Python objects and writes to one: source and sink by the format name.

This process has the tables, and Spark with a Spark Connect server in it, to which ``spark-pipelines run`` connects. The
pipeline's definitions are in pipeline/shop.py. Needs Spark 4.1 or newer, PyYAML, and what Spark Connect needs:
``pip install 'headrace[connect]' pyyaml``.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark

import headrace as hr

DEFINITIONS = Path(__file__).with_name("pipeline") / "shop.py"
CUSTOMERS = {"customer": ["ann", "bob", "cy"], "town": ["Ghent", "Lund", "Ghent"]}
ORDERS = pa.schema([("customer", pa.string()), ("euros", pa.int64())])
SPEC = """
name: shop
storage: file://{directory}/storage
libraries:
  - glob:
      include: shop.py
"""


class Incoming(hr.StreamProvider):
    """Orders that this process takes in; an offset is how many there were."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, customer: str, euros: int) -> None:
        self.rows.append({"customer": customer, "euros": euros})
        self.advanced()

    def schema(self) -> pa.Schema:
        return ORDERS

    def initial_offset(self) -> hr.Offset:
        return 0

    def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
        return len(self.rows) if limit.until is None else limit.until

    def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return hr.MemTable(pa.Table.from_pylist(self.rows[start:end], ORDERS)).scan(request)


def main() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Runs the pipeline twice, the second time after more orders. Returns the turnover, and the alerts that came."""
    alerts: list[dict[str, Any]] = []

    def alert(batches: Iterator[pa.RecordBatch]) -> None:
        for batch in batches:
            alerts.extend(batch.to_pylist())

    with tempfile.TemporaryDirectory() as directory, context(directory) as ctx:
        incoming = Incoming()
        ctx.register_table("incoming", incoming)
        ctx.register_table("customers", CUSTOMERS)
        ctx.register_table("alerts", hr.FunctionSink(ORDERS, alert))
        incoming.add("ann", 30)
        incoming.add("bob", 120)
        run_pipeline(ctx, directory)
        incoming.add("cy", 200)
        run_pipeline(ctx, directory)
        turnover = ctx.collect("SELECT town, euros FROM spark_catalog.default.turnover ORDER BY town")
        return turnover.to_pylist(), alerts


def context(directory: str) -> hr.SessionContext:
    """Spark, with a Spark Connect server in it at a free port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    connect = {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin"}
    connect |= {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    return hr.SessionContext(master="local[2]", config={**connect, "spark.sql.warehouse.dir": f"{directory}/tables"})


def run_pipeline(ctx: hr.SessionContext, directory: str) -> None:
    """``spark-pipelines run``, as from a shell. Raises RuntimeError with what it said where it fails."""
    specification = Path(directory) / "spark-pipeline.yml"
    specification.write_text(SPEC.format(directory=directory))
    shutil.copy(DEFINITIONS, directory)
    home = Path(pyspark.__file__).parent
    server = f"sc://127.0.0.1:{ctx.spark.conf.get('spark.connect.grpc.binding.port')}"
    done = subprocess.run(
        [home / "bin" / "spark-pipelines", "run", "--remote", server, "--spec", specification],
        env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if "Run is COMPLETED" not in done.stdout:
        raise RuntimeError(f"the pipeline failed:\n{done.stdout}\n{done.stderr}")


if __name__ == "__main__":
    turnover, alerts = main()
    print("turnover:", turnover)
    print("alerts:", alerts)
