"""The code in the documents, for the tests that run it."""

from __future__ import annotations

import re

from places import ROOT


def python_blocks(document: str) -> list[str]:
    """The document's python blocks, each padded so that tracebacks show the document's own line numbers."""
    text = (ROOT / document).read_text()
    found = re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return ["\n" * text[: match.start(1)].count("\n") + match[1] for match in found]
