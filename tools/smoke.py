"""A first look at an installed Headrace: imports, a checked provider, a pulled and a pushed table, the command.

Run by the release check with the interpreter of an empty environment; knows nothing of this repository.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

import headrace as hr
from headrace.testing import check_provider

SCHEMA = pa.schema([("n", pa.int64())])


class Numbers(hr.TableProvider):
    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return NumbersPlan()


class NumbersPlan(hr.ExecutionPlan):
    schema = SCHEMA
    partitioning = hr.UnknownPartitioning(2)

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": range(partition * 100, partition * 100 + 100)}, schema=SCHEMA)


def write(sink: hr.TableSink) -> None:
    with sink:
        for n in range(50):
            sink.write(pa.record_batch({"n": [n]}, schema=SCHEMA))


def main(version: str) -> None:
    assert shutil.which("javac") is None, "there is a Java compiler on the PATH: this shows nothing"
    assert hr.__version__ == version, hr.__version__
    assert "pyspark" not in sys.modules
    check_provider(Numbers()).raise_if_failed()
    with hr.SessionContext(master="local[2]") as ctx:
        ctx.register_table("numbers", Numbers())
        assert ctx.collect("SELECT sum(n) AS s FROM numbers").to_pylist() == [{"s": 19_900}]
        sink = ctx.register_streaming_table("pushed", SCHEMA)
        threading.Thread(target=write, args=(sink,), daemon=True).start()
        assert ctx.collect("SELECT count(*) AS c FROM pushed").to_pylist() == [{"c": 50}]
    command = Path(sys.executable).parent / "headrace"
    shown = subprocess.run([command, "--version"], check=True, capture_output=True, text=True).stdout
    assert shown.strip() == f"headrace {version}", shown
    subprocess.run([command, "new", "provider", "first-table"], check=True, stdout=subprocess.DEVNULL)
    print(f"headrace {version} works: a pulled and a pushed table, the testing kit, the command")


if __name__ == "__main__":
    main(sys.argv[1])
