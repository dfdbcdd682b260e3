"""Two hosts and a router between them that can go silent: network namespaces of Linux, for whoever is root."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_numbers = itertools.count()


class Network:
    """Hosts ``a`` and ``b``; the router forwards until ``cut``, then drops everything without a word."""

    def __init__(self, number: int) -> None:
        self.a, self.b, self.router = (f"hr{number}{host}" for host in "abr")
        self.address_a = "10.77.1.2"

    def on(self, host: str, *command: str) -> list[str]:
        """``command`` as it is run on ``host``."""
        return ["ip", "netns", "exec", host, *command]

    def cut(self) -> None:
        self._forward(0)

    def mend(self) -> None:
        self._forward(1)

    def _forward(self, value: int) -> None:
        _run(*self.on(self.router, "sh", "-c", f"echo {value} > /proc/sys/net/ipv4/ip_forward"))


@contextmanager
def network() -> Iterator[Network]:
    """A network of its own; skips the test, and says so, where this process may not make one."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and iproute2: a network that goes silent is made of network namespaces")
    net = Network(os.getpid() * 10 + next(_numbers))
    try:
        for host in (net.a, net.b, net.router):
            _run("ip", "netns", "add", host)
            _run("ip", "-n", host, "link", "set", "lo", "up")
        for host, subnet in ((net.a, 1), (net.b, 2)):
            _run("ip", "-n", host, "link", "add", "eth0", "type", "veth", "peer", f"to{subnet}", "netns", net.router)
            _run("ip", "-n", host, "address", "add", f"10.77.{subnet}.2/24", "dev", "eth0")
            _run("ip", "-n", net.router, "address", "add", f"10.77.{subnet}.1/24", "dev", f"to{subnet}")
            _run("ip", "-n", host, "link", "set", "eth0", "up")
            _run("ip", "-n", net.router, "link", "set", f"to{subnet}", "up")
            _run("ip", "-n", host, "route", "add", "default", "via", f"10.77.{subnet}.1")
        net.mend()
        yield net
    finally:
        for host in (net.a, net.b, net.router):
            subprocess.run(["ip", "netns", "del", host], check=False, capture_output=True)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
