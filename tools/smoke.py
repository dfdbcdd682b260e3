"""What a newcomer does with an installed Headrace: the README's code, the testing kit, the command.

Run by the release check with the interpreter of an empty environment: ``smoke.py VERSION SPARK README [no] command``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

import headrace as hr
from headrace.testing import check_provider

COMMAND = Path(sys.executable).parent / "headrace"
NO_COMMAND = "The headrace command needs typer, which is not installed: pip install 'headrace[cli]'\n"
TABLE = """
import pyarrow as pa
import headrace as hr

def numbers():
    return hr.MemTable(pa.table({"n": range(200)}))
"""


def main(version: str, spark: str, readme: Path, *, has_command: bool) -> None:
    assert shutil.which("javac") is None, "there is a Java compiler on the PATH: this shows nothing"
    assert hr.__file__.startswith(sys.prefix), f"{hr.__file__} is not what was installed"
    assert hr.__version__ == version, hr.__version__
    assert "pyspark" not in sys.modules
    check_provider(hr.MemTable(pa.table({"n": [1, None, 3]})), samples=1).raise_if_failed()
    run_readme(readme.read_text(), spark)
    if has_command:
        use_command(version)
    else:
        done = subprocess.run([COMMAND, "demo"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", NO_COMMAND), done


def run_readme(readme: str, spark: str) -> None:
    """Its blocks of Python as they stand, one after the other in one program."""
    blocks = re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    Path("readme.py").write_text("\n".join([*blocks, "print('Spark', ctx.spark.version)\n"]))
    shown = output(sys.executable, "readme.py")
    assert "166666166667000000" in shown, shown
    assert "'sum(v)': 4950" in shown, shown
    assert f"Spark {spark}." in shown, shown


def use_command(version: str) -> None:
    assert output(COMMAND, "--version").strip() == f"headrace {version}"
    demo = output(COMMAND, "demo")
    assert "the stream finished" in demo, demo
    assert "the line to Porto went dead" in demo, demo
    Path("first_tables.py").write_text(TABLE)
    shown = output(COMMAND, "sql", "SELECT sum(n) AS s FROM t", "--table", "t=first_tables:numbers")
    assert "19900" in shown, shown
    output(COMMAND, "new", "provider", "first-table")
    assert "bad" not in output(COMMAND, "doctor")


def output(*command: str | Path) -> str:
    """What it prints. Raises AssertionError, with all it said, where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{command} ended with status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), has_command=sys.argv[4] == "command")
