"""``make spark-tests`` on a small checkout of our own: what goes through Headrace, and how the command ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.spark_data_source_tests import FILE

from places import ROOT

TESTS = """
import os
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.testing import assertDataFrameEqual
from pyspark.testing.sqlutils import SPARK_HOME, ReusedSQLTestCase


class BasePythonDataSourceTestsMixin:
    def _register(self):
        class Reader(DataSourceReader):
            def __init__(self, options):
                self.options = options

            def read(self, partition):
                with open(self.options["path"]) as file:
                    yield (file.read(), self.options["more"])

        class Files(DataSource):
            def schema(self):
                return "text string, more string"

            def reader(self, schema):
                return Reader(self.options)

        self.spark.dataSource.register(Files)

    def test_reading(self):
        self._register()
        path = os.path.join(SPARK_HOME, "python/some.txt")
        frame = self.spark.read.format("Files").option("more", 7).load(path)
        assertDataFrameEqual(frame, [Row("hello", "7")])
        assert "data source Files" in frame._jdf.queryExecution().executedPlan().toString()

    def test_case_insensitive_dict(self):
        raise AssertionError("is not run")

    def test_data_source_reader_with_logging(self):
        raise AssertionError("as known")

    def test_news(self):
        with self.subTest("a part"):
            raise AssertionError("of the third")
"""


@pytest.mark.daily
def test_spark_tests_of_a_checkout_one_fails_otherwise_status_is_one(tmp_path: Path) -> None:
    (tmp_path / FILE).parent.mkdir(parents=True)
    (tmp_path / FILE).write_text(TESTS)
    (tmp_path / "python" / "some.txt").write_text("hello")
    command = [sys.executable, "-m", "tools.spark_data_source_tests", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    sums = "1 of 3 tests of reading passed, 1 failed as known, 1 failed otherwise; 1 not applicable"
    assert sums in ended.stdout, ended.stdout + ended.stderr
    assert "AssertionError: of the third" in ended.stdout
    assert "as known\n" not in ended.stdout
    assert ended.returncode == 1


def test_spark_tests_without_a_checkout_say_what_they_need(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.spark_data_source_tests", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "expected a checkout of https://github.com/apache/spark" in ended.stderr
