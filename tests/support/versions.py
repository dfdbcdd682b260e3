"""What Headrace does less well on an older Spark: each difference is declared here, and nowhere else.

A test asks ``has`` and asserts the plan of either kind of version; the rows must be right on all of them.
``docs/compatibility.md`` is made of the same list.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    since: tuple[int, int]
    what: str
    before: str


DIFFERENCES = {
    "subset of keys": Difference(
        (4, 3),
        "`GROUP BY` on some of the columns of a `KeyPartitioning`, or of a `HashPartitioning` into one partition, "
        "needs no shuffle",
        "Spark shuffles",
    ),
    "ordering on coalesce": Difference(
        (4, 2),
        "Partitions of one key that are each ordered stay so: a window over them needs no sort "
        "(with `spark.sql.sources.v2.bucketing.preserveOrderingOnCoalesce.enabled`)",
        "Spark sorts",
    ),
    "sort aggregate": Difference(
        (4, 3),
        "`GROUP BY` over partitions that are ordered by the key uses their order, and needs no hash table",
        "Spark hashes",
    ),
    "scalar subqueries": Difference(
        (4, 2),
        "`WHERE k >= (SELECT ...)` narrows the table when the query runs, as a join does",
        "the table is read whole, and Spark filters",
    ),
    "interrupt listener": Difference(
        (4, 2),
        "A cancelled task that waits for a provider is told so at once",
        "it looks every 50 ms",
    ),
    "bucketing by default": Difference(
        (4, 1),
        "A session that you made yourself uses stated partitionings",
        "it does after `spark.conf.set('spark.sql.sources.v2.bucketing.enabled', 'true')`; "
        "`ctx.explain` says so, and sessions that Headrace starts have it on",
    ),
    "join pushdown": Difference(
        (4, 1),
        "A join of two `AdbcTable`s of one database is one query of the database's "
        "(with `spark.sql.optimizer.datasourceV2JoinPushdown`)",
        "Spark joins; `ctx.explain` says so",
    ),
    "data source filters": Difference(
        (4, 1),
        "`from_data_source` passes filters to `pushFilters`, and `as_data_source` takes some",
        "the Python Data Source has no `pushFilters`: Spark filters",
    ),
    "condition of a PythonException": Difference(
        (4, 2),
        "`df.collect()` raises a provider's error as `PythonException`, with the condition `PYTHON_EXCEPTION`",
        "it is a `SparkRuntimeException` with `PYTHON_DATA_SOURCE_ERROR`; Spark's own PythonException has no condition",
    ),
    "filters put back": Difference(
        (4, 3),
        "In a join the keys of a small table that filters EXACTly are told to the large one",
        "only where Spark filters the small table itself: answer INEXACT for it",
    ),
    "rounded decimals": Difference(
        (4, 1),
        "Rows of a Python Data Source may have decimals of more digits than their type: they are rounded",
        "they are an error, natively and with `from_data_source`",
    ),
    "times of day": Difference(
        (4, 1),
        "`pa.time32` and `pa.time64` are Spark's TIME, with `spark.sql.timeType.enabled` on",
        "Spark has no such type: registration refuses them",
    ),
    "variants in rows": Difference(
        (4, 1),
        "`spark.read.format(...)` reads variants in the rows of a Python Data Source, as `from_data_source` does",
        "it fails; `from_data_source` reads them",
    ),
    "worker logs": Difference(
        (4, 1),
        "`python_worker_logs()` has what code in workers logs and prints, with "
        "`spark.sql.pyspark.worker.logging.enabled` on",
        "it is in the executor's log",
    ),
    "stream Arrow writer": Difference(
        (4, 1),
        "`from_data_source` gives a `DataSourceStreamArrowWriter` Arrow batches",
        "PySpark has no such class; stream writers get rows",
    ),
    "limits of stream readers": Difference(
        (4, 2),
        "`maxRowsPerTrigger` works for streams with `from_data_source` and `as_data_source`",
        "a micro-batch has all that there is",
    ),
    "declarative pipelines": Difference(
        (4, 1),
        "Declarative Pipelines (`spark-pipelines`) read and write tables by the format name",
        "Spark has no pipelines",
    ),
    "doubled quotes": Difference(
        (4, 1),
        "Spark's parser reads `'it''s'` as one text with a quote in it",
        "it reads two texts, `its`; write `'it\\'s'`, which every version reads alike",
    ),
}


def spark_version() -> tuple[int, int]:
    import pyspark

    from headrace.spark.versions import minor_version

    return minor_version(pyspark.__version__)


def has(name: str) -> bool:
    """Whether the Spark of this run has it."""
    return spark_version() >= DIFFERENCES[name].since


def skip_module_without(name: str) -> None:
    """For tests of a thing that an older Spark does not have at all; the report gives the reason."""
    import pytest

    if not has(name):
        difference = DIFFERENCES[name]
        pytest.skip(
            f"from Spark {difference.since[0]}.{difference.since[1]} on: {difference.what}", allow_module_level=True
        )
