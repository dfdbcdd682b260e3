"""The three forms of SessionContext in processes of their own, started as a user starts a script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from producing import run_script

pytestmark = [pytest.mark.timeout(200), pytest.mark.daily]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What tests/support/scripts/attach.py saw, run from another directory."""
    return run_script("attach.py", cwd=tmp_path_factory.mktemp("elsewhere"))


def test_attached_session_without_the_jar_serves_providers_of_the_script_and_beside_it(seen: dict[str, Any]) -> None:
    attached = seen["attached"]
    assert attached["same session"] is True
    assert attached["beside"] == [40, 41]
    assert attached["script EXECUTORS"] == [10, 11]
    assert attached["script DRIVER"] == [10, 11]
    assert attached["cell"] == [20]


def test_attached_session_rebuilds_error_classes_of_a_module_beside_the_script(seen: dict[str, Any]) -> None:
    assert seen["attached"]["error"] == ["beside.BesideError", "BesideError"]


def test_new_session_has_tables_of_its_own(seen: dict[str, Any]) -> None:
    attached = seen["attached"]
    assert attached["new session"] == [10, 11]
    assert attached["old session"] == [40, 41]
    assert attached["views are the session's own"] is True
    assert attached["after the second closed"] == [40, 41]


def test_closing_an_attached_context_leaves_spark_running(seen: dict[str, Any]) -> None:
    assert seen["attached"]["spark goes on"] == 3


def test_attaching_to_a_stopped_session_is_a_clear_error(seen: dict[str, Any]) -> None:
    assert "was stopped" in seen["attached"]["stopped"]


def test_embedded_default_has_local_settings_and_stops_with_its_context(seen: dict[str, Any]) -> None:
    embedded = seen["embedded"]
    assert embedded["master"] == "local[*]"
    assert embedded["shuffle partitions"] == len(os.sched_getaffinity(0))
    assert embedded["beside"] == [40, 41]
    assert embedded["second"] == [40, 41]
    assert embedded["first after second"] == [40, 41]
    assert embedded["stopped"] is True


def test_embedded_with_settings_of_ones_own_honours_them(seen: dict[str, Any]) -> None:
    assert seen["embedded"]["own"] == ["local[1]", "mine", "3"]
    assert seen["embedded"]["own beside"] == [40, 41]
    assert seen["embedded"]["stopped again"] is True


def test_importing_headrace_does_not_import_pyspark(tmp_path: Path) -> None:
    code = "import sys, headrace; assert 'pyspark' not in sys.modules; headrace.TableProvider"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60)
