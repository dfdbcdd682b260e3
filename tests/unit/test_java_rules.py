"""The connector's house rules: which package may import which, and what is allowed in one place alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from headrace import errors
from places import ROOT

SOURCES = ROOT / "connector" / "src" / "main" / "java" / "org" / "headrace" / "spark"

PACKAGES = [
    *("", "vectors", "planner", "transport", "send", "results", "read", "scan", "write", "stream", "push", "catalog"),
]
"""A package imports itself and the packages before it in this list. The first is org.headrace.spark itself."""

UPWARDS: set[tuple[str, str]] = set()
"""Exceptions, each with its reason: (a file, the package that it imports)."""

REFLECTION = r"java\.lang\.reflect|\bforName\(|\.getDeclared\w+\(|\.get(Methods?|Constructors?)\("
MISSING_CODE = r"\b(NoSuchMethod|NoSuchField|NoClassDefFound|AbstractMethod|Linkage)\w*(Error|Exception)"

ONLY_IN = {
    f"{REFLECTION}|{MISSING_CODE}": [
        "Versions.java",
        "catalog/ConnectEvents.java",  # the jar of Spark Connect's server is not there in other applications
    ],
    r"java\.net\.|SocketChannel|ServerSocket": ["transport/*"],
}
"""Patterns of code, and the files that may contain them: Spark's versions differ in Versions, transport has sockets."""


def files() -> Iterator[tuple[str, str, str]]:
    """Each source's path, its package and its code without comments."""
    for path in sorted(SOURCES.rglob("*.java")):
        relative = path.relative_to(SOURCES)
        yield relative.as_posix(), "".join(relative.parts[:-1]), without_comments(path)


def without_comments(path: Path) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.DOTALL)


def named_packages(code: str) -> Iterator[str]:
    """Also where a class is named in full instead of imported."""
    code = re.sub(r"^package .*$", "", code, flags=re.MULTILINE)
    for package in re.findall(r"\borg\.headrace\.spark\.(\w+)", code):
        yield package if package.islower() else ""


def test_java_packages_are_all_in_the_list() -> None:
    assert {package for _, package, _ in files()} == set(PACKAGES), "add it to PACKAGES in this test, at its place"


def test_java_packages_name_only_packages_before_them() -> None:
    upward = {
        (file, target)
        for file, package, code in files()
        for target in named_packages(code)
        if PACKAGES.index(target) > PACKAGES.index(package)
    }
    assert upward == UPWARDS


def test_java_code_for_one_place_is_nowhere_else() -> None:
    misplaced = [
        f"{file}: {match[0]}"
        for file, _, code in files()
        for pattern, owners in ONLY_IN.items()
        for match in re.finditer(pattern, code)
        if not any(fnmatchcase(file, owner) for owner in owners)
    ]
    assert misplaced == []


def test_java_names_only_errors_that_python_has() -> None:
    names = {name for _, _, code in files() for name in re.findall(r"\bof\(\s*\"(\w*Error)\"", code)}
    assert {"TransportError", "StreamConsumedError", "HeadraceError"} <= names
    assert [name for name in names if not issubclass(getattr(errors, name), errors.HeadraceError)] == []
