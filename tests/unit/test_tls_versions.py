"""Which versions of TLS the endpoint accepts; no Spark."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest

from certificates import make_identity
from headrace.transport.endpoint import Endpoint
from headrace.transport.protocol import MAGIC

EVERY_CIPHER = "ALL:@SECLEVEL=0"  # what the system itself refuses must not be what refuses here


def greeting(identity_directory: Path, version: ssl.TLSVersion) -> bytes:
    """What the endpoint says to a client that speaks this version alone."""
    identity = make_identity(identity_directory, "driver")
    identity.context.set_ciphers(EVERY_CIPHER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    client.set_ciphers(EVERY_CIPHER)
    client.minimum_version = client.maximum_version = version
    endpoint = Endpoint("127.0.0.1", "127.0.0.1", identity)
    try:
        port = endpoint.address(b"")["port"]
        with socket.create_connection(("127.0.0.1", port), 10) as plain, client.wrap_socket(plain) as encrypted:
            return encrypted.recv(len(MAGIC))
    finally:
        endpoint.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_endpoint_accepts_current_versions_of_tls(tmp_path: Path, version: ssl.TLSVersion) -> None:
    assert greeting(tmp_path, version) == MAGIC


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
def test_endpoint_refuses_old_versions_of_tls(tmp_path: Path, version: str) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        greeting(tmp_path, ssl.TLSVersion[version])
