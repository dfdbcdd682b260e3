"""What a stranger finds open of a session at umask 002; prints what was seen as JSON."""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyspark.sql.functions import udf

import headrace as hr

CALLED: list[str] = []
TIMEOUT_S = 2


class Asked(hr.MemTable):
    """Notes that it was asked."""

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        CALLED.append("scan")
        return super().scan(request)


def own_processes() -> list[psutil.Process]:
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def open_sockets() -> dict[str, str]:
    """The paths of Unix sockets that this process and its children listen on, with the modes of their directories."""
    own = {
        connection.laddr
        for process in own_processes()
        for connection in process.net_connections(kind="unix")
        if isinstance(connection.laddr, str) and connection.laddr.startswith("/")
    }
    return {path: oct(stat.S_IMODE(os.stat(Path(path).parent).st_mode)) for path in sorted(own)}


def listening_ports() -> list[int]:
    """Of this process alone."""
    connections = psutil.Process().net_connections(kind="tcp")
    return sorted(one.laddr.port for one in connections if one.status == psutil.CONN_LISTEN)


def answer_to_a_stranger(port: int, operation: str, question: dict[str, Any]) -> list[str]:
    """What Py4J's callback server says to calls of every object that it may know."""
    answers = []
    for number in range(20):
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as stranger:
            stranger.settimeout(TIMEOUT_S)
            payload = json.dumps(question).replace("\\", "\\\\")
            stranger.sendall(f"c\np{number}\ncall\ns{operation}\ns{payload}\ne\n".encode())
            try:
                answers.append(stranger.recv(4096).decode())
            except TimeoutError:
                answers.append("silence")
    return answers


def main() -> None:
    os.umask(0o002)
    ctx = hr.SessionContext(master="local[2]")
    gateway: Any = ctx.spark.sparkContext._gateway
    ctx.register_table("rain", Asked(pa.table({"a": [1, 2, 3]})))
    plus = udf(lambda a: a + 1, "long")
    found: dict[str, Any] = {
        "rows": sorted(row[0] for row in ctx.sql("SELECT a FROM rain WHERE a > 1").select(plus("a")).collect()),
        "unix sockets": not ctx.spark.version.startswith("4.0"),
        "callback server": gateway.__dict__.get("_callback_server") is not None,
        "ports": listening_ports(),
        "sockets": open_sockets(),
    }
    ended = ctx.spark.readStream.format("rate").load().writeStream.foreachBatch(lambda frame, number: None)
    with tempfile.TemporaryDirectory() as checkpoint:
        query = ended.option("checkpointLocation", checkpoint).start()
        try:
            before = len(CALLED)
            port = gateway._callback_server.server_socket.getsockname()[1]
            question = {"catalog": "headrace", "namespace": []}
            found["answers"] = answer_to_a_stranger(port, "schemas", question)
            pool = gateway.gateway_property.pool
            found["reachable"] = sorted(
                {f"{type(one).__module__}.{type(one).__qualname__}" for one in pool.dict.values()}
            )
            found["asked"] = len(CALLED) - before
        finally:
            query.stop()
    ctx.close()
    print(json.dumps(found))


main()
