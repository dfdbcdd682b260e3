"""A campaign: a cluster of its own, and driver processes that run faults on it one after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import headrace
from faults.cluster import Cluster, java_options, python_without_headrace
from faults.hosts import Hosts
from faults.judge import HANG_SECONDS, Outcome

_ROOT = Path(__file__).parent.parent
_RUNS_PER_DRIVER = 25
_WORKERS = 2


def outcomes(
    seed: int, runs: Sequence[int], said: Callable[[str], None] = lambda line: None, only: str = ""
) -> Iterator[Outcome]:
    """The outcome of each run of ``runs``, as it ends. Starts the cluster, and ends all it started in the end.

    ``only``: jobs whose name has this.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-", dir=_ROOT)))
        # Short, for the path of the endpoint's socket; and of the drivers alone, so that what is left there is theirs.
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hr")))
        python = python_without_headrace(directory / "python")
        hosts = Hosts(_WORKERS)
        stack.callback(hosts.close)
        said(f"hosts: {'namespaces of their own' if hosts.isolated else 'loopback addresses, no network faults'}")
        cluster = Cluster(hosts, directory, python, [Path(headrace.__file__).parent, temporary])
        stack.callback(cluster.close)
        left = list(runs)
        while left:
            block, block_number = left[:_RUNS_PER_DRIVER], left[0] // _RUNS_PER_DRIVER
            done = 0
            settings = _settings(hosts, cluster, directory, seed, block, speculation=block_number % 3 == 2)
            settings["only"] = only
            for outcome in _driven(hosts, settings, directory, temporary):
                done += 1
                yield outcome
            left = left[done:]
            if not done:
                raise RuntimeError(f"the driver did not start; see {(directory / 'driver.log').read_text()[-2000:]}")


def _settings(
    hosts: Hosts, cluster: Cluster, directory: Path, seed: int, block: list[int], *, speculation: bool
) -> dict[str, Any]:
    config = {
        "spark.app.name": "headrace-faults",
        "spark.driver.host": hosts.driver.address,
        "spark.driver.bindAddress": hosts.driver.address,
        "spark.driver.memory": "1g",
        "spark.executor.memory": "700m",
        "spark.executor.extraJavaOptions": java_options(),
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.network.timeout": "20s",
        "spark.network.timeoutInterval": "5s",
        "spark.executor.heartbeatInterval": "2s",
        "spark.speculation": str(speculation).lower(),
        "spark.speculation.interval": "200ms",
        "spark.speculation.multiplier": "1.2",
        "spark.speculation.quantile": "0.25",
        "spark.excludeOnFailure.enabled": "false",
        "spark.deploy.maxExecutorRetries": "-1",
    }
    return {
        "master": cluster.url,
        "config": config,
        "seed": seed,
        "runs": block,
        "scratch": [str(directory / f"{host.name}-scratch") for host in hosts.workers],
        "switch": hosts.switch,
        "links": hosts.worker_links,
    }


def _driven(hosts: Hosts, settings: dict[str, Any], directory: Path, temporary: Path) -> Iterator[Outcome]:
    """Outcomes until the driver process ends. A driver that says nothing for long is ended: its run is missing."""
    environment = {**os.environ, "PYSPARK_PYTHON": str(directory / "python" / "bin" / "python")}
    environment["PYTHONPATH"] = os.pathsep.join([str(_ROOT), str(Path(headrace.__file__).parent.parent)])
    environment["SPARK_LOCAL_IP"] = hosts.driver.address
    environment["TMPDIR"] = str(temporary)
    command = hosts.driver.command([sys.executable, "-m", "faults.driver", json.dumps(settings)])
    with (directory / "driver.log").open("ab") as log:
        driver = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert driver.stdout is not None
    with driver:
        for line in driver.stdout:
            if line.startswith("{"):
                yield Outcome(**json.loads(line))
        try:
            driver.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            driver.kill()
