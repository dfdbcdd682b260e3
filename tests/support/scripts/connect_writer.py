"""A Spark Connect client whose write waits, until it is killed: URL, directory, placement, where it waits."""

from __future__ import annotations

import sys
from pathlib import Path

import headrace as hr
from write_faults import Fault
from written_files import FileTable


def main(url: str, directory: str, placement: str, place: str) -> None:
    from pyspark.sql.connect.session import SparkSession

    spark = SparkSession.builder.remote(url).create()
    ctx = hr.SessionContext(spark)
    fault = Fault(place, "wait", once=Path(directory, "go"))
    ctx.register_table("t", FileTable(Path(directory), placement=hr.Placement[placement], fault=fault))
    spark.sql("INSERT INTO t SELECT id, 'a' FROM range(0, 10000, 1, 1)")


if __name__ == "__main__":
    main(*sys.argv[1:])
