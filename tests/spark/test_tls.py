"""TLS between executors and the endpoint: encrypted, pinned to one certificate, for rows in both directions."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace as hr
import headrace.spark.attached
import headrace.spark.classic.session
from certificates import make_identity
from headrace.transport.endpoint import Endpoint
from headrace.transport.protocol import HANDSHAKE_SECONDS

ROWS = 200_000
TABLE = pa.table({"id": range(ROWS), "name": [f"row {i}" for i in range(ROWS)]})


class TcpOnlyEndpoint(Endpoint):
    """Hides the Unix socket from executors, as another host would."""

    certificate: str | None = None

    def address(self, ticket: bytes) -> dict[str, Any]:
        address = {**super().address(ticket), "path": ""}
        return address if self.certificate is None else {**address, "certificate": self.certificate}


@pytest.fixture
def endpoint(tmp_path: Path) -> TcpOnlyEndpoint:
    return TcpOnlyEndpoint("127.0.0.1", "127.0.0.1", make_identity(tmp_path, "driver"))


@pytest.fixture
def tls_ctx(
    spark: SparkSession, endpoint: TcpOnlyEndpoint, monkeypatch: pytest.MonkeyPatch
) -> Iterator[hr.SessionContext]:
    monkeypatch.setattr(headrace.spark.classic.session, "_endpoint", lambda launched: endpoint)
    with hr.SessionContext(spark) as ctx:
        yield ctx


def test_tls_driver_table_and_result_arrive_whole(tls_ctx: hr.SessionContext) -> None:
    tls_ctx.register_table("t", hr.MemTable(TABLE, partitions=3))
    result = tls_ctx.collect("SELECT id, name FROM t")
    assert result.sort_by("id").equals(TABLE.cast(result.schema))


def test_tls_streaming_table_limit_releases_the_producer(tls_ctx: hr.SessionContext) -> None:
    sink = tls_ctx.register_streaming_table("s", TABLE.schema, capacity=2)
    stream = tls_ctx.execute_stream("SELECT id FROM s LIMIT 3")
    with pytest.raises(hr.ScanEndedError):
        while True:
            sink.write(TABLE.slice(0, 100), timeout=30)
    assert sum(batch.num_rows for batch in stream) == 3


def test_tls_another_certificate_is_refused_by_the_executor(
    tls_ctx: hr.SessionContext, endpoint: TcpOnlyEndpoint, tmp_path: Path
) -> None:
    import base64

    other = make_identity(tmp_path, "impostor")
    endpoint.certificate = base64.b64encode(other.certificate_der).decode()
    tls_ctx.register_table("t", hr.MemTable(TABLE))
    with pytest.raises(Exception, match="another certificate"):
        tls_ctx.sql("SELECT count(*) FROM t").collect()


def test_tls_plaintext_client_gets_nothing_and_disturbs_nobody(
    tls_ctx: hr.SessionContext, endpoint: TcpOnlyEndpoint
) -> None:
    tls_ctx.register_table("t", hr.MemTable(TABLE))
    with socket.create_connection(("127.0.0.1", endpoint.address(b"")["port"]), timeout=5) as plain:
        plain.sendall(b"HDRC" + bytes(200))
        plain.settimeout(HANDSHAKE_SECONDS * 4)
        assert tls_ctx.sql("SELECT count(*) FROM t").collect()[0][0] == ROWS
        assert b"HDRC" not in plain.recv(1000)  # a TLS alert, or the end of the connection: never a challenge


def test_tls_with_certificate_but_no_key_is_a_named_error(spark: SparkSession) -> None:
    with pytest.raises(hr.HeadraceError, match=r"spark\.headrace\.tls\.key"):
        headrace.spark.attached.tls_identity({"spark.headrace.tls.certificate": "driver.pem"}.get)
