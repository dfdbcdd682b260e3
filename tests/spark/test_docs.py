"""The code in README.md and docs/guide.md runs as it stands."""

from __future__ import annotations

import headrace as hr
from documents import python_blocks


def test_guide_blocks_run_in_order(ctx: hr.SessionContext) -> None:
    namespace: dict[str, object] = {"ctx": ctx, "__name__": "__main__"}
    blocks = python_blocks("docs/guide.md")
    assert len(blocks) > 10
    for block in blocks:
        exec(compile(block, "docs/guide.md", "exec"), namespace)
