"""Which address of this machine leads from another host to it, and whether that one is there; driver Python."""

from __future__ import annotations

import socket

_PROBE_SECONDS = 3.0
_ANY_PORT = 9


def address_towards(host: str) -> str:
    """The address of this machine from which it would connect to ``host``; nothing is sent. Raises OSError."""
    family, kind, _, _, address = socket.getaddrinfo(host, _ANY_PORT, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])


def listens(host: str, port: int) -> bool:
    """Whether something accepts connections there, within 3 seconds."""
    try:
        socket.create_connection((host, port), _PROBE_SECONDS).close()
    except OSError:
        return False
    return True


def refuses(host: str, port: int) -> bool:
    """Whether the machine is there and says that nobody listens. Silence, within 3 seconds, says nothing."""
    try:
        socket.create_connection((host, port), _PROBE_SECONDS).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False
