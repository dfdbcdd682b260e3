"""Tries a wheel as users install it, in empty environments: by the README's own line, and beside each older PySpark.

In each of them ``smoke.py`` does what a newcomer does, and no Java compiler is on the PATH.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from tools.environments import ROOT, SPARKS

SMOKE = Path(__file__).parent / "smoke.py"
README = ROOT / "README.md"
COMPILERS = ("javac", "jar")
AT_A_TIME = 2
_INSTALL_LINE = re.compile(r"^\$ pip install 'headrace(\[[\w,]+\])'", re.MULTILINE)


class NotReady(Exception):
    """Says what stands in the way of a release."""


@dataclass(frozen=True)
class Trial:
    """An environment: the extras to install the wheel with, and what else is given to pip."""

    name: str
    spark: str
    extras: str = ""
    besides: tuple[str, ...] = ()

    @property
    def has_command(self) -> bool:
        return "cli" in self.extras


def trials(readme: str) -> list[Trial]:
    """The README's own line, which brings the newest Spark, and a bare PySpark of each older version."""
    *older, newest = SPARKS
    bare = [Trial(f"beside PySpark {spark}", spark, besides=(f"pyspark=={spark}.*",)) for spark in older]
    middle = Trial(f"with the command, beside PySpark {older[1]}", older[1], "[cli]", bare[1].besides)
    return [Trial("by the README's line", newest, readme_extras(readme)), bare[0], middle, *bare[2:]]


def readme_extras(readme: str) -> str:
    """``[cli,spark]``, as its line for installing says. Raises NotReady where there is no such line."""
    line = _INSTALL_LINE.search(readme)
    if line is None:
        raise NotReady("README.md has no line that installs Headrace by pip")
    return line[1]


def try_wheel(wheel: Path, version: str, folder: Path) -> None:
    """Some environments at a time, each removed when it has been tried. Raises NotReady if one fails."""
    environ = without_compilers(folder / "bin")
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for done in [pool.submit(_try, one, wheel, version, folder, environ) for one in trials(README.read_text())]:
            done.result()


def _try(trial: Trial, wheel: Path, version: str, folder: Path, environ: dict[str, str]) -> None:
    begun = monotonic()
    home = folder / re.sub(r"\W+", "-", trial.name)
    venv.create(home / "environment", with_pip=True)
    python = str(home / "environment" / "bin" / "python")
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    install = [python, "-m", "pip", "install", "--quiet", f"{wheel}{trial.extras}", *trial.besides]
    run(install, cwd=elsewhere, env=environ)
    smoke = [python, str(SMOKE), version, trial.spark, str(README), "command" if trial.has_command else "no command"]
    run(smoke, cwd=elsewhere, env=environ)
    shutil.rmtree(home)
    print(f"-- installed {trial.name}, tried in {monotonic() - begun:.0f} s", flush=True)


def without_compilers(folder: Path) -> dict[str, str]:
    """This process's environment with all commands of its PATH but the compilers, linked from ``folder``."""
    folder.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for command in Path(directory).iterdir() if Path(directory).is_dir() else ():
            link = folder / command.name
            if command.name not in COMPILERS and not link.is_symlink():
                link.symlink_to(command)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPARK", "PYSPARK"))}
    return {**kept, "PATH": str(folder)}


def run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    """Raises NotReady, after what the command had to say, if it fails."""
    done = subprocess.run(
        command, cwd=cwd, env=env, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        raise NotReady(f"{' '.join(command)} failed with status {done.returncode}")
