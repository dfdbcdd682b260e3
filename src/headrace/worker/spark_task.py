"""PySpark's TaskContext and SparkFiles, as code in a worker knows them from Spark's own workers; executor Python."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def task_context(facts: bytes) -> Iterator[None]:
    """Surrounds one task. ``facts`` are the JVM's ``TaskFacts``; none where Spark runs no task."""
    context_class, files, resource_class = _classes()
    context_class._setTaskContext(None)
    if facts:
        own, _, of_stage = facts.partition(b"\n")
        told = json.loads(own)
        context: Any = context_class._getOrCreate()
        context._stageId, context._partitionId = told["stage"], told["partition"]
        context._attemptNumber, context._taskAttemptId = told["attempt"], told["task_attempt"]
        context._cpus, context._localProperties = told["cpus"], dict(_properties(of_stage))
        context._resources = {name: resource_class(name, addresses) for name, addresses in told["resources"].items()}
        files._root_directory, files._is_running_on_worker = told["files"], True
    try:
        yield
    finally:
        context_class._setTaskContext(None)


def attempt_of(facts: bytes) -> int:
    """Spark's id of the task attempt; 0 where Spark runs no task."""
    return int(json.loads(facts.partition(b"\n")[0])["task_attempt"]) if facts else 0


@functools.cache
def _classes() -> tuple[Any, Any, Any]:
    """PySpark's, which the daemon has loaded already: an import statement takes its time all the same."""
    from pyspark import SparkFiles, TaskContext
    from pyspark.resource import ResourceInformation

    return TaskContext, SparkFiles, ResourceInformation


@functools.lru_cache(maxsize=1)  # all tasks of a stage have the same, every setting of the session among them
def _properties(written: bytes) -> dict[str, str]:
    properties: dict[str, str] = json.loads(written)
    return properties
