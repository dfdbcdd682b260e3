"""The connector's own checks, in Java: our column vectors against Spark's, value by value."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark

from headrace.spark.launch import JAR

CHECKS = Path(__file__).parent.parent / "connector" / "src" / "test" / "java"
OPENS = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "sun.nio.ch", "java.lang")]


def test_column_vectors_agree_with_sparks_for_every_type(tmp_path: Path) -> None:
    classpath = os.pathsep.join([str(JAR), str(Path(pyspark.__file__).parent / "jars" / "*")])
    sources = [str(source) for source in CHECKS.rglob("*.java")]
    compiled = subprocess.run(
        ["javac", "--release", "17", "-nowarn", "-d", str(tmp_path), "-cp", classpath, *sources],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert compiled.returncode == 0, compiled.stderr
    checked = subprocess.run(
        ["java", *OPENS, "-cp", f"{tmp_path}{os.pathsep}{classpath}", "org.headrace.spark.vectors.ArrowColumnsCheck"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "checks passed" in checked.stdout
