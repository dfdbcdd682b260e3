"""Executors in JVMs of their own (local-cluster): the jar and the package reach them by themselves."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

from producing import SOURCES, bare_environment, run_script


@pytest.fixture(scope="module")
def python_without_headrace(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that has everything Spark's executors need, and not Headrace."""
    home = tmp_path_factory.mktemp("python")
    venv.create(home, symlinks=True)
    library = sysconfig.get_path("purelib", "venv", vars={"base": str(home)})
    # A line in a .pth file adds the directory but not what its own .pth files point to: not this checkout.
    Path(library, "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = str(home / "bin" / "python")
    for module, found in (("pyspark", True), ("headrace", False)):
        done = subprocess.run([python, "-c", f"import {module}"], cwd=home, capture_output=True, env=bare_environment())
        assert (done.returncode == 0) is found, done.stderr
    return python


@pytest.fixture(scope="module")
def seen(python_without_headrace: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What tests/support/scripts/cluster.py saw."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    result: dict[str, Any] = run_script("cluster.py", str(SOURCES), cwd=elsewhere, python=python_without_headrace)
    return result


pytestmark = [pytest.mark.timeout(200), pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]


def test_executors_run_the_shipped_package_in_their_own_processes(seen: dict[str, Any]) -> None:
    rows = seen["EXECUTORS"]
    assert len(rows) == 4
    for row in rows:
        assert ".zip/headrace/" in row["package"]
        assert ".zip/cloudpickle/" in row["pickler"]
        assert row["pid"] != seen["driver pid"]
        assert row["jvm"] != seen["driver jvm"]
    assert len({row["jvm"] for row in rows}) == 2


@pytest.mark.parametrize("road", ["DRIVER", "DRIVER over TCP"])
def test_driver_placement_runs_in_the_users_own_process(seen: dict[str, Any], road: str) -> None:
    assert [row["pid"] for row in seen[road]] == [seen["driver pid"]] * 4


def test_endpoint_listens_on_the_drivers_own_address_only(seen: dict[str, Any]) -> None:
    assert seen["hosts"] == ["127.0.0.1"]


@pytest.mark.parametrize("road", ["EXECUTORS", "DRIVER", "DRIVER over TCP"])
def test_limit_stops_the_producer_on_the_other_side(seen: dict[str, Any], road: str) -> None:
    assert seen[f"stopped {road}"] is not None
    assert seen[f"stopped {road}"] < 5


def test_modules_beside_the_script_and_cells_travel_by_value(seen: dict[str, Any]) -> None:
    assert seen["beside"] == [40, 41]
    assert seen["cell"] == [40, 41]


def test_provider_error_on_an_executor_comes_back_as_itself(seen: dict[str, Any]) -> None:
    kind, cause, text = seen["failing"]
    assert (kind, cause) == ("ProviderError", "BesideError")
    assert "is dry" in text
    assert "beside.py" in text


def test_killed_worker_on_an_executor_is_an_error_and_the_next_query_works(seen: dict[str, Any]) -> None:
    kind, _, text = seen["killed"]
    assert kind == "TransportError"
    assert "the Python worker died" in text
    assert seen["after"] == [40, 41]


def test_death_of_an_executor_stops_its_producer_in_the_driver(seen: dict[str, Any]) -> None:
    assert seen["executor death"] is not None
    assert seen["executor death"] < 5
