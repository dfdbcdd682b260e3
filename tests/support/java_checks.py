"""The connector's own checks, which are Java programs: how tests compile and run them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark

from headrace.spark.launch import JAR
from places import ROOT

CHECKS = ROOT / "connector" / "src" / "test" / "java"
GOLDEN = ROOT / "connector" / "protocol" / "golden.json"
OPENS = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "sun.nio.ch", "java.lang")]


def compiled_checks(directory: Path) -> str:
    """A classpath with the connector, Spark, and the checks, which are compiled into ``directory``."""
    classpath = os.pathsep.join([str(JAR), str(Path(pyspark.__file__).parent / "jars" / "*")])
    sources = [str(source) for source in CHECKS.rglob("*.java")]
    compiled = subprocess.run(
        ["javac", "--release", "17", "-nowarn", "-d", str(directory), "-cp", classpath, *sources],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert compiled.returncode == 0, compiled.stderr
    return f"{directory}{os.pathsep}{classpath}"


def run_check(classpath: str, name: str, *arguments: str, options: tuple[str, ...] = (), timeout_s: float = 100) -> str:
    """What the check printed; fails the test where it ended with an error."""
    checked = subprocess.run(
        ["java", *OPENS, *options, "-cp", classpath, f"org.headrace.spark.{name}", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert checked.returncode == 0, checked.stdout[-5000:] + checked.stderr[-5000:]
    return checked.stdout


def named_outcomes(classpath: str, name: str, *arguments: str) -> dict[str, str]:
    """Of a program that runs NamedChecks: for each of its checks ``passed``, or the stack trace of its error."""
    lines = run_check(classpath, name, *arguments).splitlines()
    return {check: outcome.replace("\\n", "\n") for check, outcome in (line.split("\t") for line in lines)}


def java_check(name: str, directory: Path) -> list[str]:
    """How to run a check that takes its time, after compiling it into ``directory``; its arguments are to follow."""
    return ["java", *OPENS, "-cp", compiled_checks(directory), name]
