"""Fixtures: one Spark for the whole run, a fresh context per test. Only who asks for them loads pyspark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import class_archive
import headrace as hr

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["costs", "effort", "postgres"]


# Files that take long, or wait long, are started first: else the other processes wait for them in the end.
LONGEST = (
    "test_silent_peers",  # waits more than a minute, for time-outs
    "test_adbc_postgres",
    "test_adbc_postgres_pushdown",
    "test_connect",
    "test_connect_planning",
    "test_connect_server_lost",  # waits, for retries
    "test_connect_cluster",
    "test_broken_buffers",
    "test_faults",
    "test_cluster",
    "test_spark_lost",
    "test_errors",
    "test_broken_promises",
    "test_single_scan",
    "test_docs",
    "test_partitioning",
    "test_deeper_tables_spark",
    "test_early_stop",
)


def pytest_configure(config: pytest.Config) -> None:
    class_archive.use()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


@pytest.fixture(scope="session")
def embedded() -> Iterator[hr.SessionContext]:
    """The context that started Spark (local[2]); tests use ``ctx`` or ``spark``."""
    with hr.SessionContext(master="local[2]", config={"spark.driver.memory": "3g"}) as context:
        yield context


@pytest.fixture(scope="session")
def spark(embedded: hr.SessionContext) -> SparkSession:
    """The one SparkSession."""
    return embedded.spark


@pytest.fixture
def ctx(spark: SparkSession) -> Iterator[hr.SessionContext]:
    """A context of the test's own, attached to the one Spark; closed afterwards."""
    with hr.SessionContext(spark) as context:
        yield context


@pytest.fixture
def provider_alone(spark: SparkSession) -> Iterator[None]:
    """For tests of what a provider's own answers do: Headrace does nothing of what the provider leaves undone."""
    spark.conf.set("spark.headrace.workAtSource", "false")
    yield
    spark.conf.unset("spark.headrace.workAtSource")


@pytest.fixture
def drops_views(spark: SparkSession) -> Iterator[None]:
    """For tests that hold a table against a view of Spark's own: the views are dropped after each."""
    yield
    for name in ("by_spark", "plain"):
        spark.catalog.dropTempView(name)


@pytest.fixture(params=["true", "false"], ids=["adaptive", "not adaptive"])
def adaptive(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    """Spark's adaptive execution on, and off: for tests of what a query does while it runs."""
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", request.param)
    yield
    spark.conf.set("spark.sql.adaptive.enabled", str(before))
