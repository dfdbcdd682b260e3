"""Debian's packages that tests need and that the machine may lack: a PostgreSQL, a browser."""

from __future__ import annotations

import os
import subprocess


def install(package: str) -> None:
    """Raises RuntimeError with what apt-get said, where it cannot install the package."""
    _apt(package, "update")
    _apt(package, "install", "-y", "--no-install-recommends", package)


def _apt(package: str, *arguments: str) -> None:
    command = ["apt-get", "-q", *arguments]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    if done.returncode:
        raise RuntimeError(f"these tests need {package}, but {' '.join(command)} failed:\n{done.stdout}{done.stderr}")
