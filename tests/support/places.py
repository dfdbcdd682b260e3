"""Where the tests find files of the project."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).parent
SCRIPTS = SUPPORT / "scripts"
ROOT = SUPPORT.parents[1]
EXAMPLES = ROOT / "examples"
