"""The modules of the source, parsed, and what they import."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import headrace

PACKAGE = Path(headrace.__file__).parent


@functools.cache
def modules() -> list[tuple[str, ast.Module]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append((name, ast.parse(path.read_text(), str(path))))
    return found


def imports(tree: ast.Module) -> Iterator[str]:
    """Full dotted names, e.g. ``headrace.plan`` for ``from headrace.plan import SortKey``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            assert all(alias.name != "*" for alias in node.names), f"no star imports: {node.module}"
            module = node.module or ""
            # ``from headrace import errors`` imports a module, ``from headrace.plan import SortKey`` a name
            for alias in node.names:
                path = PACKAGE.parent / f"{module}.{alias.name}".replace(".", "/")
                is_module = path.with_suffix(".py").exists() or path.is_dir()
                yield f"{module}.{alias.name}" if is_module else module
