"""Compiles the connector and its checks with every warning of javac's on, against the Spark of this environment.

A warning fails ``make lint``. It never fails an installation: setup.py compiles without warnings, because the JDK of a
user may know warnings that nobody here has seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from tools.environments import ROOT

LEFT_OUT = {
    "path": "the manifests of Spark's jars name jars that pyspark does not ship",
    "classfile": "Arrow's classes bear annotations whose own classes no jar has",
}
"""The warnings that are about Spark's jars instead of our code."""


def main() -> None:
    """Ends with status 1 and javac's words where there is a warning."""
    sources = [str(path) for path in sorted((ROOT / "connector" / "src").rglob("*.java"))]
    warnings = ",".join(["all", *(f"-{name}" for name in LEFT_OUT)])
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    with tempfile.TemporaryDirectory() as classes:
        command = ["javac", "--release", "17", f"-Xlint:{warnings}", "-Werror", "-Xmaxwarns", "1000"]
        status = subprocess.run([*command, "-d", classes, "-cp", os.fspath(jars), *sources], check=False).returncode
    if status:
        sys.exit("the connector's Java has warnings or errors")
    print(f"{len(sources)} Java files have no warning")


if __name__ == "__main__":
    main()
