"""The code in docs/sources.md runs as it stands, except for what needs a server."""

from __future__ import annotations

import headrace as hr
from documents import python_blocks


def test_sources_blocks_run_in_order(ctx: hr.SessionContext) -> None:
    namespace: dict[str, object] = {"hr": hr, "ctx": ctx, "__name__": "__main__"}
    ran = 0
    for block in python_blocks("docs/sources.md"):
        code = compile(block, "docs/sources.md", "exec")
        if not block.lstrip("\n").startswith("# needs a server"):
            exec(code, namespace)
            ran += 1
    assert ran == 2
