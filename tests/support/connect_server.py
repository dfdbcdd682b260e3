"""A real Spark Connect server in a process of its own, on a port that it chose; for tests and benchmarks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

import pyspark

_STARTED = re.compile(r"Spark Connect server started at: .*:(\d+)")
_START_SECONDS = 100.0
_STOP_SECONDS = 20.0


class ConnectServer:
    """Starts when it is entered and is stopped when it is left. ``log`` is all that the server wrote."""

    def __init__(
        self,
        master: str = "local[2]",
        config: dict[str, str] | None = None,
        events: Path | None = None,
        python_path: str = "",
        environment: dict[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        """``events`` is a directory for what Spark tells its listeners, from which its web pages are made.
        ``directory`` is the one in which the server runs.

        Without a ``python_path`` the server's Python finds Headrace in what its clients send, or installed.
        """
        self._python_path = python_path
        self._environment = environment or {}
        self._directory = directory
        settings = {
            "spark.master": master,
            "spark.driver.memory": "2g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            **(config or {}),
        }
        if events is not None:
            settings |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(events)}
            settings |= {"spark.eventLog.compress": "false", "spark.log.level": "INFO"}
        self._events = events
        home = Path(pyspark.__file__).parent
        options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        main = "org.apache.spark.sql.connect.service.SparkConnectServer"
        self._command = [str(home / "bin" / "spark-submit"), *options, "--class", main, "spark-internal"]
        self._home = home
        self._started = threading.Event()
        self._lines: list[str] = []
        self._port = 0

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self._port}"

    @property
    def log(self) -> str:
        return "".join(self._lines)

    def told_listeners(self) -> str:
        """All events so far, as JSON."""
        assert self._events is not None
        return "".join(path.read_text() for path in self._events.rglob("*") if path.is_file())

    def reachable(self, *classes: str) -> dict[str, int]:
        """How many objects of classes of Headrace's its JVM can reach, without those of which there is none."""
        told = subprocess.run(
            ["jcmd", str(self.pid), "GC.class_histogram"], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        counts = {name: re.findall(rf"(\d+) +\d+ +org\.headrace\.spark\.{re.escape(name)}\s", told) for name in classes}
        return {name: sum(map(int, found)) for name, found in counts.items() if found}

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> ConnectServer:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        if self._python_path:
            environment["PYTHONPATH"] = self._python_path
        environment |= {"SPARK_HOME": str(self._home), "PYSPARK_PYTHON": sys.executable, **self._environment}
        self._process = subprocess.Popen(
            self._command,
            env=environment,
            cwd=self._directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._started.wait(_START_SECONDS) or not self._port:
            self.__exit__(None, None, None)
            raise RuntimeError(f"the Spark Connect server did not start:\n{self.log}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_STOP_SECONDS)

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self._lines.append(line)
                if (found := _STARTED.search(line)) is not None:
                    self._port = int(found[1])
                    self._started.set()
        self._started.set()
