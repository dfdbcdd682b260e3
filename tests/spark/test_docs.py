"""The code in README.md and docs/guide.md runs as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import headrace as hr
from places import ROOT


def python_blocks(document: str) -> list[str]:
    """The document's python blocks, each padded so that tracebacks show the document's own line numbers."""
    text = (ROOT / document).read_text()
    found = re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return ["\n" * text[: match.start(1)].count("\n") + match[1] for match in found]


def test_guide_blocks_run_in_order(ctx: hr.SessionContext) -> None:
    namespace: dict[str, object] = {"ctx": ctx, "__name__": "__main__"}
    blocks = python_blocks("docs/guide.md")
    assert len(blocks) > 10
    for block in blocks:
        exec(compile(block, "docs/guide.md", "exec"), namespace)


def test_readme_first_block_runs_as_a_script(tmp_path: Path) -> None:
    script = tmp_path / "readme.py"
    script.write_text(python_blocks("README.md")[0])
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, cwd=tmp_path, env=dict(os.environ)
    )
    assert "166666166667000000" in done.stdout, done.stderr
