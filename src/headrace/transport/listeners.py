"""Where the endpoint listens: a private Unix socket, a TCP port, and with which certificate; driver Python."""

from __future__ import annotations

import os
import socket
import ssl
from pathlib import Path

from headrace.errors import TransportError
from headrace.spill.private_directory import PrivateDirectory

SOCKET_NAME = "endpoint.sock"
_MAX_SOCKET_PATH_CHARS = 100
_WILDCARDS = ("0.0.0.0", "::")
_TRY_SECONDS = 5


class TlsIdentity:
    """The certificate and key with which the endpoint proves itself over TCP. Raises OSError for unreadable files."""

    def __init__(self, certificate_file: str, key_file: str) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.load_cert_chain(certificate_file, key_file)
        pem = Path(certificate_file).read_text()
        first = pem[pem.index("-----BEGIN CERTIFICATE-----") : pem.index("-----END CERTIFICATE-----")]
        self.certificate_der = ssl.PEM_cert_to_DER_cert(first + "-----END CERTIFICATE-----\n")


def private_directory() -> PrivateDirectory:
    directory = PrivateDirectory("endpoint")
    if len(os.path.join(directory.path, SOCKET_NAME)) > _MAX_SOCKET_PATH_CHARS:
        directory.close()
        directory = PrivateDirectory("endpoint", "/tmp")
    return directory


def unix_listener(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(1024)
    listener.setblocking(False)
    return listener


def tcp_listener(host: str, advertised: str | None) -> socket.socket:
    """Listens on ``host``; where that means all interfaces (the user told Spark so), on ``advertised`` if possible."""
    hosts = [advertised, host] if advertised and host in _WILDCARDS else [host]
    refusals: list[str] = []
    for candidate in hosts:
        try:
            family = socket.getaddrinfo(candidate, None)[0][0]
            listener = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            refusals.append(f"{candidate}: {error}")
            continue
        try:
            listener.bind((candidate, 0))
            listener.listen(1024)
            listener.setblocking(False)
            return listener
        except OSError as error:
            listener.close()
            refusals.append(f"{candidate}: {error}")
    raise TransportError(
        f"cannot listen for the executors on the driver's address ({'; '.join(refusals)}); set "
        "spark.driver.bindAddress to an address of this machine"
    )


def try_sockets() -> str:
    """Connect once over loopback and once over a private Unix socket; returns where those are. Raises OSError."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=_TRY_SECONDS).close()
    directory = private_directory()
    try:
        path = os.path.join(directory.path, SOCKET_NAME)
        with unix_listener(path), socket.socket(socket.AF_UNIX) as client:
            client.settimeout(_TRY_SECONDS)
            client.connect(path)
    finally:
        directory.close()
    return os.path.dirname(directory.path)
