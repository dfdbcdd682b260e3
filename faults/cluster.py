"""A standalone cluster: a master and workers, each on a host of its own, ended with the campaign."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Sequence
from pathlib import Path

import pyspark

from faults.hosts import Host, Hosts

MASTER_PORT = 7077
MASTER_UI_PORT = 8099
_START_SECONDS = 60


def python_without_headrace(home: Path) -> str:
    """An interpreter that has everything Spark's executors need, and not Headrace."""
    venv.create(home, symlinks=True)
    library = sysconfig.get_path("purelib", "venv", vars={"base": str(home)})
    # A line in a .pth file adds the directory, but not what its own .pth files point to: not this checkout.
    Path(library, "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return str(home / "bin" / "python")


class Cluster:
    """Starts the master and the workers, which do not see ``hidden``. ``directory`` keeps logs and scratch files."""

    def __init__(self, hosts: Hosts, directory: Path, python: str, hidden: Sequence[Path]) -> None:
        self.url = f"spark://{hosts.master.address}:{MASTER_PORT}"
        self._directory = directory
        self._python = python
        self._hidden = hidden
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        master = "org.apache.spark.deploy.master.Master"
        ports = ["--port", str(MASTER_PORT), "--webui-port", str(MASTER_UI_PORT)]
        self._start(hosts.master, [master, "--host", hosts.master.address, *ports])
        time.sleep(2)  # a worker that finds no master asks again only after ten seconds
        for host in hosts.workers:
            self.start_worker(host)
        self._await_workers(hosts)

    def start_worker(self, host: Host) -> None:
        worker = "org.apache.spark.deploy.worker.Worker"
        size = ["--cores", "1", "--memory", "1g", "--host", host.address, "--webui-port", "0"]
        self._start(host, [worker, *size, "--work-dir", str(self._directory / host.name), self.url])

    def close(self) -> None:
        """End every process of the cluster, its executors too. Idempotent."""
        for process in self._processes.values():
            _end_group(process)
        self._processes.clear()

    def _start(self, host: Host, arguments: list[str]) -> None:
        home = Path(pyspark.__file__).parent
        scratch = self._directory / f"{host.name}-scratch"
        scratch.mkdir(exist_ok=True)
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPARK"))}
        environment |= {
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": java_options(),
            "SPARK_LOCAL_DIRS": str(scratch),
            "SPARK_LOCAL_IP": host.address,
            "PYSPARK_PYTHON": self._python,
        }
        log = (self._directory / f"{host.name}.log").open("ab")
        command = host.command([str(home / "bin" / "spark-class"), *arguments], hide=self._hidden)
        with log:
            self._processes[host.name] = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _await_workers(self, hosts: Hosts) -> None:
        """Raises TimeoutError, with the end of the logs, if the cluster does not come up."""
        page = f"http://{hosts.master.address}:{MASTER_UI_PORT}/json/"
        read = [
            sys.executable,
            "-c",
            f"import urllib.request as u; print(u.urlopen({page!r}, timeout=5).read().decode())",
        ]
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            done = subprocess.run(hosts.driver.command(read), capture_output=True, text=True, check=False, timeout=20)
            if done.stdout.count('"ALIVE"') > len(hosts.workers):  # the master is alive too
                return
            time.sleep(0.5)
        tails = [path.read_text(errors="replace")[-800:] for path in sorted(self._directory.glob("*.log"))]
        raise TimeoutError("the cluster did not start:\n" + "\n".join(tails))


def java_options() -> str:
    """What the JVMs of the cluster are started with: the options that this process gives to drivers."""
    return os.environ.get("SPARK_SUBMIT_OPTS", "")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for stop in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, signal.SIGCONT)
            os.killpg(process.pid, stop)
            process.wait(10)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
