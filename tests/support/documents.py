"""The code in the documents, for the tests that run it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from places import ROOT


def documents_with_code() -> list[str]:
    """README.md and every page below docs that has a block of Python."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path.relative_to(ROOT).as_posix() for path in pages if "```python\n" in path.read_text()]


def python_blocks(document: str) -> list[str]:
    """The document's python blocks, each padded so that tracebacks show the document's own line numbers."""
    text = (ROOT / document).read_text()
    found = re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return ["\n" * text[: match.start(1)].count("\n") + match[1] for match in found]


def run_blocks(document: str, namespace: dict[str, Any], addresses: Mapping[str, str] | None = None) -> int:
    """Run a document's blocks in order; returns how many there are. Addresses of servers become those of real ones."""
    blocks = python_blocks(document)
    for block in blocks:
        for documented, real in (addresses or {}).items():
            block = block.replace(documented, real)
        exec(compile(block, document, "exec"), namespace)
    return len(blocks)
