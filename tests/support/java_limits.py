"""The connector's limits that tests shorten: static fields of its classes, in the JVM of this process's Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession


@contextlib.contextmanager
def shortened(spark: SparkSession, class_name: str, field: str, milliseconds: int) -> Iterator[None]:
    """``class_name`` is one of ``org.headrace.spark.transport``; the field is as it was afterwards."""
    jvm: Any = spark.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    limit = loader.loadClass(f"org.headrace.spark.transport.{class_name}").getDeclaredField(field)
    limit.setAccessible(True)
    before = limit.getLong(None)
    limit.setLong(None, milliseconds)
    try:
        yield
    finally:
        limit.setLong(None, before)
