"""The hosts of a test cluster: network and mount namespaces where root may make them, loopback addresses elsewhere.

The driver, the master and each worker get a network namespace of their own, joined by a bridge in yet another one,
so that nothing of a campaign crosses the machine's own network. Workers do not see the package, nor the driver's
temporary files: what they run of Headrace is what was shipped to them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_NETWORK = "192.0.2"  # set aside for documentation: in use nowhere


@dataclass(frozen=True)
class Host:
    """``address`` is reachable from the other hosts; ``namespace`` is empty for a loopback address."""

    name: str
    address: str
    namespace: str = ""

    def command(self, arguments: Sequence[str], *, hide: Sequence[Path] = ()) -> list[str]:
        """``arguments`` as run on this host, where the directories ``hide`` are empty."""
        if not self.namespace:
            return list(arguments)
        covered = "".join(f"mount -t tmpfs tmpfs '{path}' && " for path in hide)
        inside = ["unshare", "--mount", "sh", "-c", f'{covered}exec "$@"', "sh", *arguments] if hide else arguments
        return ["ip", "netns", "exec", self.namespace, *inside]


def can_isolate() -> bool:
    """Whether this machine can make namespaces. Root on Debian installs the tools that are missing."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    tools = {"ip": "iproute2", "nft": "nftables"}
    missing = [package for tool, package in tools.items() if shutil.which(tool) is None]
    if missing and shutil.which("apt-get") is not None:
        subprocess.run(["apt-get", "update", "-qq"], check=False, capture_output=True, timeout=120)
        subprocess.run(["apt-get", "install", "-y", "-qq", *missing], check=False, capture_output=True, timeout=240)
    if not all(map(shutil.which, tools)):
        return False
    probe = f"hr{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], check=False, capture_output=True, timeout=10).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", probe], check=False, timeout=10)
    return made


class Hosts:
    """Makes the namespaces of one campaign; ``close`` removes them. ``isolated`` says whether there are any."""

    def __init__(self, workers: int) -> None:
        self.isolated = can_isolate()
        self._prefix = f"hr{os.getpid()}"
        names = ["driver", "master", *(f"worker{number}" for number in range(workers))]
        if not self.isolated:
            self._hosts = {name: Host(name, f"127.0.0.{index}") for index, name in enumerate(names, 1)}
            return
        self._hosts = {
            name: Host(name, f"{_NETWORK}.{index}", f"{self._prefix}-{name}") for index, name in enumerate(names, 1)
        }
        self._made: list[str] = []
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    @property
    def driver(self) -> Host:
        return self._hosts["driver"]

    @property
    def master(self) -> Host:
        return self._hosts["master"]

    @property
    def workers(self) -> list[Host]:
        return [host for name, host in self._hosts.items() if name.startswith("worker")]

    @property
    def switch(self) -> str:
        """The namespace of the bridge that joins the hosts; empty for loopback addresses."""
        return f"{self._prefix}-switch" if self.isolated else ""

    @property
    def worker_links(self) -> list[str]:
        """The workers' ends in the switch."""
        ports = {name: f"port{index}" for index, name in enumerate(self._hosts, 1)}
        return [ports[host.name] for host in self.workers] if self.isolated else []

    def close(self) -> None:
        """Remove the namespaces; the processes in them must have ended. Idempotent."""
        if self.isolated:
            for namespace in reversed(self._made):
                subprocess.run(["ip", "netns", "del", namespace], check=False)
            self._made.clear()

    def _connect(self) -> None:
        switch = self.switch
        self._namespace(switch)
        _ip(f"-n {switch} link add bridge type bridge")
        _ip(f"-n {switch} link set bridge up")
        for index, host in enumerate(self._hosts.values(), 1):
            self._namespace(host.namespace)
            _ip(f"-n {switch} link add port{index} type veth peer name eth0 netns {host.namespace}")
            _ip(f"-n {switch} link set port{index} master bridge up")
            _ip(f"-n {host.namespace} address add {host.address}/24 dev eth0")
            _ip(f"-n {host.namespace} link set lo up")
            _ip(f"-n {host.namespace} link set eth0 up")

    def _namespace(self, name: str) -> None:
        _ip(f"netns add {name}")
        self._made.append(name)


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True, timeout=10)
