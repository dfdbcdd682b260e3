"""The documentation site, built for the tests that look at it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from places import ROOT


def build_site(folder: Path) -> Path:
    """As ``make docs`` does, into another folder. Fails the test where a link is broken."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return folder
