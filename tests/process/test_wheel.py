"""The wheel as a user gets it: what it requires and what is in it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from places import ROOT


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


def test_wheel_requires_no_pyspark_unless_the_extra_is_asked_for(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as zipped:
        (name,) = (name for name in zipped.namelist() if name.endswith(".dist-info/METADATA"))
        required = message_from_bytes(zipped.read(name)).get_all("Requires-Dist", [])
        assert "headrace/headrace-connector.jar" in zipped.namelist()
        assert "headrace/cli/template/tests/test_table.py.txt" in zipped.namelist()
    assert [text for text in required if text.startswith("pyspark")] == ['pyspark<4.4,>=4.0; extra == "spark"']
