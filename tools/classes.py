"""Compiles the connector against every Spark and compares the class files: one jar must serve them all."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.environments import ROOT, SPARKS, spark_jars


def main() -> None:
    """Ends with status 1 and the names of the classes if any differ."""
    compiled = {spark: _digests(spark_jars(spark)) for spark in SPARKS}
    oldest = compiled[SPARKS[0]]
    different = sorted(
        f"{name} differs between Spark {SPARKS[0]} and {spark}"
        for spark, digests in compiled.items()
        for name in oldest.keys() | digests.keys()
        if oldest.get(name) != digests.get(name)
    )
    if different:
        sys.exit("\n".join(different))
    print(f"{len(oldest)} class files are the same, byte by byte, for Spark {', '.join(SPARKS)}")


def _digests(jars: Path) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        classes = Path(folder)
        subprocess.run([sys.executable, ROOT / "setup.py", "classes", jars, classes], check=True)
        return {
            str(path.relative_to(classes)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in classes.rglob("*.class")
        }


if __name__ == "__main__":
    main()
