"""Compiles the connector against every Spark and compares the class files: one jar must serve them all."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tools.environments import ROOT, SPARKS, spark_jars

JAR = ROOT / "src" / "headrace" / "headrace-connector.jar"


def main() -> None:
    """Ends with status 1 and the names of the classes if any differ.

    ``--jar`` compiles against the Spark of this environment alone, and compares with the jar that is there.
    """
    if sys.argv[1:] == ["--jar"]:
        import pyspark

        installed = f"Spark {pyspark.__version__}"
        compiled = {"the jar": _in_jar(), installed: _digests(Path(pyspark.__file__).parent / "jars")}
    else:
        compiled = {f"Spark {spark}": _digests(spark_jars(spark)) for spark in SPARKS}
    (first, expected), *others = compiled.items()
    different = sorted(
        f"{name} differs between {first} and {other}"
        for other, digests in others
        for name in expected.keys() | digests.keys()
        if expected.get(name) != digests.get(name)
    )
    if different:
        sys.exit("\n".join(different))
    print(f"{len(expected)} class files are the same, byte by byte, for {', '.join(compiled)}")


def _digests(jars: Path) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        classes = Path(folder)
        subprocess.run([sys.executable, ROOT / "setup.py", "classes", jars, classes], check=True)
        return {str(path.relative_to(classes)): _digest(path.read_bytes()) for path in classes.rglob("*.class")}


def _in_jar() -> dict[str, str]:
    with zipfile.ZipFile(JAR) as jar:
        return {name: _digest(jar.read(name)) for name in jar.namelist() if name.endswith(".class")}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    main()
