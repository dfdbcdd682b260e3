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
from collections.abc import Sequence
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

    @property
    def absent_commands(self) -> tuple[str, ...]:
        """A Java that the wheel's extra brings is used where there is no other."""
        return (*COMPILERS, "java") if "java" in self.extras else COMPILERS


def trials(readme: str) -> list[Trial]:
    """The README's own lines, which bring the newest Spark, and a bare PySpark of each older version."""
    *older, newest = SPARKS
    bare = [Trial(f"beside PySpark {spark}", spark, besides=(f"pyspark=={spark}.*",)) for spark in older]
    middle = Trial(f"with the command, beside PySpark {older[1]}", older[1], "[cli]", bare[1].besides)
    by_readme = [Trial(f"as headrace{extras}", newest, extras) for extras in readme_extras(readme)]
    return [*by_readme, bare[0], middle, *bare[2:]]


def readme_extras(readme: str) -> list[str]:
    """``[cli,spark]``, as its lines for installing say. Raises NotReady where there is no such line."""
    found = _INSTALL_LINE.findall(readme)
    if not found:
        raise NotReady("README.md has no line that installs Headrace by pip")
    return found


def try_wheel(wheel: Path, version: str, folder: Path) -> None:
    """Some environments at a time, each removed when it has been tried. Raises NotReady if one fails."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for done in [pool.submit(_try, one, wheel, version, folder) for one in trials(README.read_text())]:
            done.result()


def _try(trial: Trial, wheel: Path, version: str, folder: Path) -> None:
    begun = monotonic()
    home = folder / re.sub(r"\W+", "-", trial.name)
    venv.create(home / "environment", with_pip=True)
    environ = environment_without(trial.absent_commands, home / "bin")
    python = str(home / "environment" / "bin" / "python")
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    install = [python, "-m", "pip", "install", "--quiet", f"{wheel}{trial.extras}", *trial.besides]
    run(install, cwd=elsewhere, env=environ)
    smoke = [python, str(SMOKE), version, trial.spark, str(README), "command" if trial.has_command else "no command"]
    run(smoke, cwd=elsewhere, env=environ)
    shutil.rmtree(home)
    print(f"-- installed {trial.name}, tried in {monotonic() - begun:.0f} s", flush=True)


def environment_without(commands: Sequence[str], folder: Path) -> dict[str, str]:
    """This process's environment with all commands of its PATH but these, linked from ``folder``."""
    folder.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for command in Path(directory).iterdir() if Path(directory).is_dir() else ():
            link = folder / command.name
            if command.name not in commands and not link.is_symlink():
                link.symlink_to(command)
    others = ("PYTHON", "SPARK", "PYSPARK", "JAVA_HOME")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(others)}
    return {**kept, "PATH": str(folder)}


def run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    """Raises NotReady, after what the command had to say, if it fails."""
    done = subprocess.run(
        command, cwd=cwd, env=env, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        raise NotReady(f"{' '.join(command)} failed with status {done.returncode}")
