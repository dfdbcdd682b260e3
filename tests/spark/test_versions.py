"""Which PySpark is taken, which is refused, and with what words."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession, datasource

import headrace as hr
from headrace.spark import versions
from versions import has

pytestmark = pytest.mark.core


def imported(prologue: str, *, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What a fresh process says of ``headrace.SessionContext``."""
    code = f"import sys; sys.path.insert(0, {str(path or '')!r}); {prologue}\nimport headrace\nheadrace.SessionContext"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


def test_import_without_pyspark_names_the_extra() -> None:
    done = imported("sys.modules['pyspark'] = None")
    assert done.returncode == 1
    assert "MissingPackageError: Headrace needs PySpark and there is none" in done.stderr
    assert "pip install 'headrace[spark]'" in done.stderr


def test_import_with_an_older_pyspark_names_both_versions(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("__version__ = '3.5.9'\n")
    done = imported("", path=tmp_path)
    assert done.returncode == 1
    assert "ImportError: Headrace needs PySpark 4.0 or newer, found 3.5.9" in done.stderr


def test_import_with_the_connect_client_alone_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("__version__ = '4.2.0'\n")
    (tmp_path / "pyspark" / "util.py").write_text("def is_remote_only():\n    return True\n")
    done = imported("", path=tmp_path)
    assert done.returncode == 1
    assert (
        "Headrace needs all of PySpark, for Connect sessions too: pip install 'headrace[spark,connect]'" in done.stderr
    )


def test_check_of_an_unknown_newer_pyspark_warns_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.17.0.dev2")
    with pytest.warns(UserWarning, match=r"tested with PySpark 4\.0 to 4\.3, found 4\.17\.0\.dev2"):
        versions.check()


def test_check_of_this_pyspark_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        versions.check()


def test_check_of_a_connect_server_refuses_older_and_warns_of_newer() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for supported in ("4.0.0", "4.1.2-SNAPSHOT", pyspark.__version__):
            versions.check_server(supported)
    with pytest.raises(hr.HeadraceError, match=r"runs Spark 3\.5\.6, .* needs 4\.0 or newer"):
        versions.check_server("3.5.6")
    with pytest.warns(UserWarning, match=r"tested with Spark Connect servers 4\.0 to 4\.3, this one runs 4\.17\.0"):
        versions.check_server("4.17.0")


def test_session_started_here_uses_partitionings_on_every_version(embedded: hr.SessionContext) -> None:
    assert embedded.spark.conf.get("spark.sql.sources.v2.bucketing.enabled") == "true"


def test_differences_declared_are_those_of_this_spark(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    bucketing = jvm.org.apache.spark.sql.internal.SQLConf.V2_BUCKETING_ENABLED().defaultValueString()
    assert (bucketing == "true") == has("bucketing by default")
    assert hasattr(datasource, "EqualTo") == has("data source filters")
    assert (jvm.org.headrace.spark.Versions.longestWaitMillis() == 0) == has("interrupt listener")
    assert spark.sql("SELECT 'it''s' AS text").first()["text"] == ("it's" if has("doubled quotes") else "its")  # type: ignore[index]
