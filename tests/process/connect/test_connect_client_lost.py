"""A Spark Connect client that is killed, and what a server's log has of clients that are not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import headrace as hr
from connect_server import ConnectServer
from places import SUPPORT
from producing import wait_until


def test_connect_jobs_of_a_killed_client_are_cancelled(
    server: ConnectServer, ctx: hr.SessionContext, tmp_path: Path
) -> None:
    ctx.register_table("orders", [{"id": 1}])
    script = SUPPORT / "scripts" / "slow_client.py"
    client = subprocess.Popen([sys.executable, str(script), server.url, str(tmp_path)])
    try:
        wait_until((tmp_path / "read").exists, 120)
        assert ctx.sql("SELECT count(*) AS c FROM orders").toArrow().to_pylist() == [{"c": 1}]
        assert not (tmp_path / "closed").exists()
    finally:
        client.kill()
        client.wait()
    wait_until((tmp_path / "closed").exists, 60)
    assert ctx.sql("SELECT count(*) AS c FROM orders").toArrow().to_pylist() == [{"c": 1}]


def test_connect_server_does_not_warn_of_metrics_that_it_cannot_load(
    server: ConnectServer, ctx: hr.SessionContext
) -> None:
    ctx.register_table("orders", hr.MemTable({"id": [1, 2, 3]}))
    ctx.spark.sql("INSERT INTO orders VALUES (4)")
    assert ctx.sql("SELECT sum(id) AS s FROM orders").toArrow().to_pylist() == [{"s": 10}]
    ctx.spark.range(3).collect()  # Spark's listener is behind by no more than this
    assert "HeadraceMetric" not in server.log
