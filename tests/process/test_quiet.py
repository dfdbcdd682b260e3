"""A Spark that Headrace starts says nothing on standard error that is not wrong, or that an exception tells."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools.trials import environment_without

QUERIES = """
import sys, tempfile
import pyarrow as pa
import headrace as hr

schema = pa.schema([("n", pa.int64())])

def good():
    yield pa.record_batch({"n": [1, 2]}, schema=schema)

def bad():
    yield from good()
    raise LookupError("page 2 is gone")

ctx = hr.SessionContext()
ctx.register_table("good", hr.SimpleTable(schema, good))
print(ctx.collect("SELECT sum(n) AS n FROM good").to_pylist())
for name, placement in (("here", hr.Placement.DRIVER), ("there", hr.Placement.EXECUTORS)):
    ctx.register_table(name, hr.SimpleTable(schema, bad, placement=placement))
    runs = {
        "collect": lambda: ctx.collect(f"SELECT sum(n) FROM {name}"),
        "stream": lambda: list(ctx.execute_stream(f"SELECT n FROM {name}")),
        "native": lambda: ctx.table(name).collect(),
        "broadcast": lambda: ctx.sql(f"SELECT /*+ BROADCAST({name}) */ * FROM good JOIN {name} USING (n)").collect(),
        "written": lambda: ctx.table(name).write.parquet(tempfile.mkdtemp() + "/t"),
        "pandas": lambda: ctx.table(name).toPandas(),
    }
    for kind, run in runs.items():
        try:
            run()
        except Exception as error:
            print(name, kind, "page 2 is gone" in str(error))
sink = ctx.register_streaming_table("pushed", schema)
sink.fail(LookupError("page 2 is gone"))
try:
    ctx.collect("SELECT n FROM pushed")
except hr.ProviderError as error:
    print("pushed", "page 2 is gone" in str(error))
"""
ANSWERS = ["[{'n': 3}]"] + [
    f"{name} {kind} True"
    for name in ("here", "there")
    for kind in ("collect", "stream", "native", "broadcast", "written", "pandas")
]


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """As a user runs it: without the options that make the JVMs of tests quicker, and quieter."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("SPARK_SUBMIT_OPTS", "JAVA_HOME")}
    return subprocess.run(
        [sys.executable, *arguments], env={**inherited, **environ}, capture_output=True, text=True, timeout=170
    )


@pytest.mark.parametrize("java", ["own", "bundled"])
@pytest.mark.daily("own")
def test_script_with_failing_queries_prints_nothing_to_stderr(java: str, tmp_path: Path) -> None:
    path = environment_without(("java", "javac", "jar"), tmp_path / "bin")["PATH"] if java == "bundled" else None
    done = run("-c", QUERIES, **({"PATH": path} if path else {}))
    assert done.stdout.splitlines() == [*ANSWERS, "pushed True"], done.stderr
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.daily
def test_demo_prints_nothing_to_stderr() -> None:
    done = run("-m", "headrace", "demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "push" in done.stdout.lower()


WRITES = """
import sys
import pyarrow as pa
import headrace as hr

def talkative():
    print("a worker says this")
    yield pa.record_batch({"n": [1]})

ctx = hr.SessionContext(master="local[1]")
ctx.register_table("t", hr.SimpleTable(pa.schema([("n", pa.int64())]), talkative))
ctx.collect("SELECT n FROM t")
log = ctx.spark.sparkContext._jvm.org.apache.logging.log4j.LogManager.getLogger("org.apache.spark.storage.Disk")
log.warn("a warning")
log.error("the disk is full")
log.error("Exception in task 0.0 in stage 3.0 (TID 2)")
"""


@pytest.mark.daily
def test_script_whose_workers_print_and_whose_spark_logs_an_error_shows_both_and_no_more() -> None:
    done = run("-c", WRITES)
    worker, error = done.stderr.splitlines()
    assert worker == "a worker says this"
    assert error.endswith("ERROR Disk: the disk is full")


STARTS = """
import headrace as hr

try:
    hr.SessionContext({arguments})
except hr.HeadraceError as error:
    print(error)
print(hr.SessionContext().collect("SELECT 1 AS one").to_pylist())
"""


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("master='nonsense'", "Master must either be yarn or start with"),
        ("config={'spark.driver.memory': 'much'}", "Invalid maximum heap size: -Xmxmuch"),
        ("config={'spark.log.level': 'LOUD'}", "Invalid value for 'spark.log.level'"),
    ],
    ids=["in-java", "no-java", "in-spark"],
)
@pytest.mark.daily("no-java")
def test_spark_that_does_not_start_says_why_and_leaves_room_for_another(arguments: str, why: str) -> None:
    done = run("-c", STARTS.replace("{arguments}", arguments))
    *error, answer = done.stdout.splitlines()
    assert error[0].startswith("Spark did not start: ")
    assert why in "\n".join(error)
    assert not any(line.startswith("\tat ") for line in error)
    assert (answer, done.stderr) == ("[{'one': 1}]", "")


def test_spark_with_a_java_that_is_too_old_names_both_versions(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2020-01-01' >&2\nexit 1\n")
    java.chmod(0o755)
    done = run("-c", STARTS.replace("{arguments}", ""), JAVA_HOME=str(tmp_path))
    assert f"Java 11 at {java} is too old (JAVA_HOME names it): Spark needs Java 17 or newer" in done.stdout


ATTACHED = """
from pyspark.sql import SparkSession
import pyarrow as pa
import headrace as hr

def rows():
    yield pa.record_batch({"a": [1]})
    raise LookupError("page 2 is gone")

ctx = hr.SessionContext(SparkSession.builder.master("local[1]").getOrCreate())
ctx.register_table("t", hr.SimpleTable(pa.schema([("a", pa.int64())]), rows))
try:
    ctx.collect("SELECT a FROM t")
except hr.ProviderError as error:
    print(error.message)
"""


@pytest.mark.daily
def test_spark_of_the_user_logs_as_it_did_without_java_traces_for_a_providers_error() -> None:
    done = run("-c", ATTACHED)
    assert done.stdout == "page 2 is gone\n", done.stderr
    assert "Setting default log level" in done.stderr
    assert "LookupError: page 2 is gone" in done.stderr
    assert "ERROR TaskSetManager" in done.stderr
    assert "\tat " not in done.stderr, done.stderr
