"""Builds the wheel: the Python package, and the connector compiled with javac against pyspark's own jars.

One jar serves Spark 4.0 to 4.3: the class files are the same, whichever of them they were compiled against (``make
jars`` compares them). A wheel is built against the oldest, see ``build-system`` in pyproject.toml; ``python setup.py
connector`` takes the pyspark that is installed, and ``python setup.py classes JARS FOLDER`` any Spark's jars.
"""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).parent
SOURCES = ROOT / "connector" / "src" / "main" / "java"
RESOURCES = ROOT / "connector" / "src" / "main" / "resources"
JAR = ROOT / "src" / "headrace" / "headrace-connector.jar"


def build_connector() -> None:
    """Compile the connector into the package, unless the jar is newer than every source."""
    sources = sorted(SOURCES.rglob("*.java"))
    if not sources:
        if JAR.exists():
            return  # building from a tree that carries the jar only
        sys.exit(f"no Java sources under {SOURCES}")
    sources += [path for path in RESOURCES.rglob("*") if path.is_file()]
    if JAR.exists() and JAR.stat().st_mtime > max(source.stat().st_mtime for source in sources):
        return
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        sys.exit("Building Headrace needs pyspark, whose jars the connector is compiled against: pip install pyspark")
    with tempfile.TemporaryDirectory() as classes:
        compile_connector(Path(spec.origin).parent / "jars", Path(classes))
        JAR.parent.mkdir(parents=True, exist_ok=True)
        scratch = JAR.with_suffix(".tmp")
        contents = ["-C", classes, ".", "-C", str(RESOURCES), "."]
        subprocess.run([_tool("jar"), "--create", "--file", str(scratch), *contents], check=True)
        scratch.replace(JAR)


def compile_connector(spark_jars: Path, classes: Path) -> None:
    """Compile every source against the jars of one Spark. Ends the process if that fails."""
    command = [_tool("javac"), "--release", "17", "-nowarn", "-Xlint:-options", "-d", str(classes)]
    command += ["-cp", str(spark_jars / "*"), *map(str, sorted(SOURCES.rglob("*.java")))]
    if subprocess.run(command, check=False).returncode:
        sys.exit(f"the connector did not compile against {spark_jars}")


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        sys.exit(
            "Building Headrace needs a JDK (javac and jar), version 17 or newer, and none is on the PATH.\n"
            "Debian and Ubuntu: apt-get install openjdk-17-jdk-headless"
        )
    return found


class BuildPy(build_py):
    def run(self) -> None:
        build_connector()
        super().run()


class EditableWheel(editable_wheel):
    def run(self) -> None:
        build_connector()
        super().run()


if __name__ == "__main__":
    if sys.argv[1:] == ["connector"]:
        build_connector()
    elif sys.argv[1:2] == ["classes"]:
        compile_connector(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        setup(cmdclass={"build_py": BuildPy, "editable_wheel": EditableWheel})
