"""Nothing optional is imported before it is used: every module of the source, in a process that lacks a package."""

from __future__ import annotations

import json
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import headrace
from absent import OPTIONAL, environment_without
from source_imports import imports, modules

REQUIRED = {"pyarrow", "cloudpickle"}
"""What the wheel requires."""

NEEDS: dict[str, list[str]] = {
    "pyspark": ["spark", "spark.*", "cli.demo"],
    "py4j": ["spark", "spark.*", "cli.demo"],
    "grpc": ["spark.connect.*"],
    "grpc_status": ["spark.connect.*"],
    "google": ["spark.connect.*"],
    "zstandard": ["spark.connect.*"],
    "pandas": ["spark.connect.*"],
    "numpy": ["spark.connect.*"],
    "sqlglot": ["expr.to_sql", "expr.sql_values"],
    "typer": ["cli.app"],
    "rich": ["cli.app", "cli.demo", "cli.demo_push", "cli.output"],
}
"""Modules that cannot be loaded without a package: whoever imports one does so where it is used."""

ALL = (*OPTIONAL, "pyspark", "py4j")

# Run by ``python -c``, which PySpark takes for its doctests: it ends such a process without Connect's packages.
IMPORT_EACH = """
import importlib, json, sys
failed = []
for name in json.loads(sys.argv[1]):
    try:
        importlib.import_module(name)
    except (ImportError, SystemExit):
        failed.append(name.removeprefix("headrace."))
print(json.dumps(failed))
"""


def failing_without(packages: tuple[str, ...], folder: Path) -> list[str]:
    names = [f"headrace.{name}".rstrip(".") for name, _ in modules() if name != "__main__"]
    command = [sys.executable, "-c", IMPORT_EACH, json.dumps(names)]
    environment = environment_without(packages, folder)
    done = subprocess.run(command, env=environment, cwd=folder, check=True, capture_output=True, text=True, timeout=100)
    failed: list[str] = json.loads(done.stdout)
    return failed


def any_of(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@pytest.mark.daily("grpc", "zstandard", "pandas", "rich", "sqlglot")
@pytest.mark.parametrize("package", ALL)
def test_modules_without_one_optional_package_load_but_for_those_that_are_about_it(
    package: str, tmp_path: Path
) -> None:
    failed = failing_without((package,), tmp_path)
    patterns = NEEDS.get(package, [])
    assert [name for name in failed if not any_of(name, patterns)] == []
    assert [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in failed)] == []


def test_modules_without_any_optional_package_load_but_for_those_that_are_about_one(tmp_path: Path) -> None:
    failed = failing_without(OPTIONAL, tmp_path)
    patterns = [pattern for package in OPTIONAL for pattern in NEEDS.get(package, [])]
    assert failed
    assert [name for name in failed if not any_of(name, patterns)] == []


def test_modules_without_pyspark_and_any_optional_package_load_but_for_those_that_are_about_one(tmp_path: Path) -> None:
    failed = failing_without(ALL, tmp_path)
    patterns = [pattern for needed in NEEDS.values() for pattern in needed]
    assert [name for name in failed if not any_of(name, patterns)] == []


def test_every_package_that_the_source_imports_is_required_or_known_as_optional() -> None:
    own = {*sys.stdlib_module_names, headrace.__name__}
    found = {name.partition(".")[0] for _, tree in modules() for name in imports(tree)} - own
    assert found - REQUIRED <= {*ALL}
    assert found >= REQUIRED


@pytest.mark.parametrize(
    "arguments", [("demo",), ("sql", "SELECT 1"), ("explain", "SELECT 1")], ids=lambda given: given[0]
)
def test_command_without_pyspark_says_in_one_line_what_to_install(arguments: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace", *arguments]
    environment = environment_without(("pyspark", "py4j"), tmp_path)
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    expected = "error: Headrace needs PySpark and there is none (no module 'pyspark'): pip install 'headrace[spark]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", expected)


CONNECT_SESSION = """
import headrace as hr

class SparkSession:
    __module__ = "pyspark.sql.connect.session"

try:
    hr.SessionContext(SparkSession())
except hr.MissingPackageError as error:
    print(error)
"""


@pytest.mark.parametrize("package", ["grpc", "grpc_status", "google", "zstandard", "pandas"])
def test_connect_session_without_a_package_of_connect_names_the_extra(package: str, tmp_path: Path) -> None:
    """PySpark refuses to make such a session, or ends the process: with status 0, where that is ``python -c``."""
    environment = environment_without((package,), tmp_path)
    command = [sys.executable, "-c", CONNECT_SESSION]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    expected = f"a Spark Connect session needs {package}, which is not installed: pip install 'headrace[connect]'\n"
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


SCHEMA = "pa.schema([('a', pa.int64())])"
USES: dict[str, tuple[str, str, str]] = {
    "httpx": (
        f"hr.PagedApi('http://localhost/x', {SCHEMA})",
        "PagedApi, here and on the executors,",
        "'headrace[http]'",
    ),
    "sqlglot": ("hr.IsNull(hr.Column('a')).to_sql('sqlite')", "Expr.to_sql", "'headrace[sql]'"),
    "fsspec": ("hr.ListingTable('memory://x', Format())", "listing memory://x", "'headrace[fsspec]'"),
    "adbc_driver_sqlite": (
        "hr.AdbcTable('sqlite', 'x', 't').schema()",
        "the ADBC driver 'sqlite', here and on the executors,",
        "'headrace[adbc]'",
    ),
    "adbc_driver_manager": (
        "hr.AdbcCatalog('postgresql', 'postgresql://localhost/x').schema_names()",
        "the ADBC driver 'postgresql', here and on the executors,",
        "'headrace[adbc]'",
    ),
    "adbc_driver_duckdb": (
        "hr.AdbcTable('duckdb', 'x', 't').schema()",
        "the ADBC driver 'duckdb', here and on the executors,",
        "duckdb adbc-driver-manager",
    ),
}
USE = """
import sys
import pyarrow as pa
import headrace as hr

class Format(hr.FileFormat):
    def schema(self, file):
        pass
    def read(self, file, request):
        pass

try:
    eval(sys.argv[1])
except hr.MissingPackageError as error:
    print(isinstance(error, ImportError), error)
"""


@pytest.mark.parametrize("package", USES)
def test_use_of_a_package_that_is_not_installed_names_what_to_install(package: str, tmp_path: Path) -> None:
    use, user, install = USES[package]
    environment = environment_without((package,), tmp_path)
    command = [sys.executable, "-c", USE, use]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.stdout == f"True {user} needs {package}, which is not installed: pip install {install}\n", done.stderr
    assert list(tmp_path.glob("x*")) == []
