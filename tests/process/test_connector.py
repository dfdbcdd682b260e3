"""The connector's own checks: column vectors against Spark's, value by value (in Java), and who imports whom."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pyspark

from headrace import errors
from headrace.spark.launch import JAR
from places import ROOT

CHECKS = ROOT / "connector" / "src" / "test" / "java"
SOURCES = ROOT / "connector" / "src" / "main" / "java" / "org" / "headrace" / "spark"
ROOMS = ["", "planner", "transport", "results", "vectors", "read", "scan", "push", "catalog"]
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


def test_java_packages_import_only_packages_that_stand_before_them() -> None:
    found = {source.parent.relative_to(SOURCES).as_posix().strip(".") for source in SOURCES.rglob("*.java")}
    assert found == set(ROOMS)
    wrong = []
    for source in SOURCES.rglob("*.java"):
        room = source.parent.relative_to(SOURCES).as_posix().strip(".")
        for name in re.findall(r"^import org\.headrace\.spark\.(?:(\w+)\.)?[A-Z]", source.read_text(), re.M):
            if ROOMS.index(name) >= ROOMS.index(room):
                wrong.append(f"{source.relative_to(SOURCES)} imports {name}")
    assert wrong == []


def test_java_names_only_errors_that_python_has() -> None:
    sources = "".join(source.read_text() for source in SOURCES.rglob("*.java"))
    names = set(re.findall(r"\bof\(\s*\"(\w*Error)\"", sources))
    assert {"TransportError", "StreamConsumedError", "HeadraceError"} <= names
    assert [name for name in names if not issubclass(getattr(errors, name), errors.HeadraceError)] == []
