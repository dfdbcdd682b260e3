"""Who may import whom: the rooms of the design, checked against every import in the source."""

from __future__ import annotations

import ast
from fnmatch import fnmatchcase

from source_imports import imports, modules

ROOMS: list[tuple[str, list[str]]] = [
    ("errors", ["errors", "forks", "optional", "arguments"]),
    ("display", ["display"]),
    ("arrow", ["arrow", "arrow.*"]),
    ("expr", ["expr", "expr.*"]),
    ("contract", ["plan", "provider", "catalog", "stream", "write"]),
    ("pruning", ["pruning", "pruning.*"]),
    ("promises", ["promises", "promises.*"]),
    ("tables", ["tables", "tables.*"]),
    ("execute", ["execute", "execute.*"]),
    ("spill", ["spill", "spill.*"]),
    ("push", ["push", "push.*"]),
    ("negotiate", ["negotiate", "negotiate.*"]),
    ("transport", ["transport", "transport.*"]),
    ("results", ["results", "results.*"]),
    ("worker", ["worker", "worker.*"]),
    ("testing", ["testing", "testing.*"]),
    ("exports", [""]),
    ("spark", ["spark", "spark.*"]),
    ("cli", ["cli", "cli.*", "__main__"]),
]
"""A folder is a room, and a room imports itself and the rooms before it in this list."""

UPWARDS = {
    ("", "spark.session"),  # SessionContext, on first use
    ("", "spark.results"),  # ResultStream and Progress, for type checkers
    ("", "spark.progress"),
    ("", "spark.data_source.as_data_source"),  # as_data_source and from_data_source, for type checkers
    ("", "spark.data_source.from_data_source"),
}

OUTSIDE: dict[str, list[str]] = {
    "pyspark": ["spark.*", "worker.daemon", "worker.logs", "worker.spark_task"],
    "py4j": ["spark.*"],
    "socket": ["transport.*", "results.receiver", "worker.*"],
    "socketserver": ["transport.*"],
    "ssl": ["transport.*"],
    "sqlglot": ["expr.to_sql", "expr.sql_values"],
    "typer": ["cli.app"],
    "rich": ["cli.*", "spark.progress"],
}
"""Modules that are nobody's business but these rooms'."""

NEVER = {"push.channel": ["pyarrow"], "push.lanes": ["pyarrow"]}
"""The channel counts things; it does not know that they are Arrow."""


def room_of(module: str) -> int:
    for level, (_, patterns) in enumerate(ROOMS):
        if any(fnmatchcase(module, pattern) for pattern in patterns):
            return level
    raise AssertionError(f"headrace.{module} is in no room: add it to ROOMS in this test, at its place")


def own(name: str) -> str | None:
    """The part after ``headrace.``, or None for a module of others."""
    return "" if name == "headrace" else name.removeprefix("headrace.") if name.startswith("headrace.") else None


def allowed(module: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(module, pattern) for pattern in patterns)


def test_every_import_points_down_the_rooms() -> None:
    upward = [
        f"headrace.{module or '__init__'} imports headrace.{target}, which is above it"
        for module, tree in modules()
        for target in map(own, imports(tree))
        if target is not None and room_of(target) > room_of(module) and (module, target) not in UPWARDS
    ]
    assert upward == []


def test_only_the_command_line_and_spark_import_the_exports() -> None:
    through_the_front = [
        module for module, tree in modules() if "headrace" in imports(tree) and room_of(module) < room_of("spark")
    ]
    assert through_the_front == []


def test_every_room_exists_once() -> None:
    for module, _ in modules():
        found = [name for name, patterns in ROOMS if allowed(module, patterns)]
        assert len(found) == 1, f"headrace.{module} is in {found}"


def test_outside_modules_are_imported_only_where_they_belong() -> None:
    misplaced = [
        f"headrace.{module} imports {target}"
        for module, tree in modules()
        for target in imports(tree)
        if (owners := OUTSIDE.get(target.partition(".")[0])) is not None and not allowed(module, owners)
    ]
    assert misplaced == []


def test_version_of_pyspark_is_asked_for_in_one_module() -> None:
    asking = [
        module
        for module, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "pyspark.__version__"
    ]
    assert set(asking) == {"spark.versions"}


def test_channel_knows_nothing_of_arrow() -> None:
    broken = [
        f"headrace.{module} imports {target}"
        for module, tree in modules()
        for target in imports(tree)
        if target.partition(".")[0] in NEVER.get(module, [])
    ]
    assert broken == []
