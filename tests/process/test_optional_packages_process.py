"""A classic session where PySpark, Arrow and cloudpickle are all there is, in the driver and in its workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from absent import OPTIONAL, environment_without

# Run by ``python -c``, which PySpark takes for its doctests if it is asked for Spark Connect.
SESSION = """
import threading
import pyarrow as pa
import headrace as hr

schema = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])

def rows():
    yield pa.record_batch([[1, None], [0, 1]], schema=schema)

def write(sink):
    with sink:
        sink.write(pa.record_batch([[5], [None]], schema=schema))

with hr.SessionContext(master="local[1]") as ctx:
    ctx.register_table("pulled", hr.SimpleTable(schema, rows))
    sink = ctx.register_streaming_table("pushed", schema)
    ctx.sql("SELECT * FROM pulled").show()
    assert "pulled" in ctx.explain("SELECT * FROM pulled WHERE n > 0")
    threading.Thread(target=write, args=(sink,)).start()
    print(ctx.collect("SELECT sum(n) AS s FROM (SELECT * FROM pulled UNION ALL SELECT * FROM pushed)").to_pylist())
    with ctx.execute_stream("SELECT n FROM pulled") as result:
        print([batch.to_pylist() for batch in result])
"""


@pytest.mark.core
@pytest.mark.daily("every")
@pytest.mark.parametrize("absent", [OPTIONAL, ("zstandard",), ("google",)], ids=["every", "zstandard", "google"])
def test_classic_session_without_optional_packages_pulls_pushes_and_streams(
    absent: tuple[str, ...], tmp_path: Path
) -> None:
    environment = environment_without(absent, tmp_path)
    command = [sys.executable, "-c", SESSION]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["[{'s': 6}]", "[[{'n': 1}, {'n': None}]]"], done.stderr
    assert "Skipping doctests" not in done.stderr
