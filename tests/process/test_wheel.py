"""The wheel as a user gets it: what it requires, and that it works in an environment of its own without javac."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pyspark
import pytest

from places import ROOT

JDK_TOOLS = ("javac", "jar")
QUERY = """
import shutil, sys
import pyarrow as pa
import headrace as hr
assert hr.__file__.startswith(sys.prefix), hr.__file__
assert shutil.which("javac") is None and shutil.which("java") is not None
with hr.SessionContext(master="local[1]") as ctx:
    schema = pa.schema([("a", pa.int64())])
    ctx.register_table("t", hr.SimpleTable(schema, lambda _: [pa.record_batch({"a": [1, 2, 4]})]))
    print("sum", ctx.collect("SELECT sum(a) AS s FROM t")["s"][0])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built of a copy of the tree, so that nothing built before gets into it."""
    tree, folder = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    tracked = ["src", "connector", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"]
    subprocess.run(["cp", "-r", *(str(ROOT / name) for name in tracked), str(tree)], check=True)
    (tree / "src" / "headrace" / "headrace-connector.jar").unlink(missing_ok=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w", str(folder)]
    subprocess.run([*command, str(tree)], check=True, timeout=100)
    (found,) = folder.glob("headrace-*.whl")
    return found


@pytest.mark.daily
def test_wheel_requires_no_pyspark_unless_the_extra_is_asked_for(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as zipped:
        (name,) = (name for name in zipped.namelist() if name.endswith(".dist-info/METADATA"))
        required = message_from_bytes(zipped.read(name)).get_all("Requires-Dist", [])
        assert "headrace/headrace-connector.jar" in zipped.namelist()
        assert "headrace/cli/template/tests/test_table.py.txt" in zipped.namelist()
    assert [text for text in required if text.startswith("pyspark")] == ['pyspark<4.4,>=4.0; extra == "spark"']


@pytest.mark.daily
def test_wheel_in_an_environment_of_its_own_answers_a_query_without_javac(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    packages = next((home / "lib").glob("python*")) / "site-packages"
    with zipfile.ZipFile(wheel) as zipped:
        zipped.extractall(packages)  # all that pip does with a pure wheel that has no scripts
    # The packages that it requires are those of this environment; the sources of Headrace are not among them.
    (packages / "required.pth").write_text(f"{Path(pyspark.__file__).parents[1]}\n")
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "JAVA_HOME")}
    environ["PATH"] = str(_programs_without_a_jdk(tmp_path))
    done = subprocess.run(
        [home / "bin" / "python", "-c", QUERY], env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr
    assert "sum 7" in done.stdout


def _programs_without_a_jdk(tmp_path: Path) -> Path:
    """A folder with every program of the PATH, but for the tools of a JDK."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            link = folder / program.name
            if program.name not in JDK_TOOLS and not link.exists() and os.access(program, os.X_OK):
                link.symlink_to(program)
    return folder
