"""``headrace new provider``: a small package with a table, its tests and a README; runs where the command does."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

_SUFFIX = ".txt"  # a template of Python code is no module of this package


def new_provider(name: str, parent: Path) -> list[Path]:
    """Write the package into ``parent / name``; returns the files, in order.

    Raises ValueError for a name that no package can have, FileExistsError if something of that name is there already.
    """
    package = name.replace("-", "_")
    if keyword.iskeyword(package):
        raise ValueError(f"{name!r} is a word of Python's own, which cannot be the name of a package")
    if not re.fullmatch(r"[A-Za-z]\w*", package, re.ASCII):
        raise ValueError(f"{name!r} cannot be the name of a package: take letters, digits, '-' and '_', a letter first")
    if package in sys.stdlib_module_names or package in ("headrace", "pyspark", "pyarrow", "tests"):
        raise ValueError(f"{name!r} would hide the module {package!r}; choose another name")
    folder = parent / name
    if folder.exists():
        raise FileExistsError(f"{folder} exists already; choose another name, or remove it")
    class_name = "".join(part[:1].upper() + part[1:] for part in package.split("_"))
    names = {"name": name, "package": package, "class_name": class_name}
    return _write(files("headrace.cli") / "template", folder, names)


def _write(template: Traversable, folder: Path, names: dict[str, str]) -> list[Path]:
    written: list[Path] = []
    folder.mkdir(parents=True)
    for entry in sorted(template.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            written += _write(entry, folder / (names["package"] if entry.name == "package" else entry.name), names)
        elif entry.name.endswith(_SUFFIX):
            name = entry.name.removesuffix(_SUFFIX)
            path = folder / (f".{name}" if name == "gitignore" else name)
            path.write_text(Template(entry.read_text(encoding="utf-8")).substitute(names), encoding="utf-8")
            written.append(path)
    return written
