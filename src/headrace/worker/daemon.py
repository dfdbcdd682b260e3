"""The daemon from which Spark forks Headrace's Python workers: pyspark's own, with our worker; executor Python.

pyspark.daemon runs ``pyspark.worker`` in every fork unless its argument is a module of pyspark's. This
process serves Headrace alone, so that name is bound to our worker before pyspark.daemon is imported: up to 4.1 that
imports the worker at once, later versions in each fork. Arrow is imported
here, once, instead of in every fork: it takes half a second and is safe to fork.
"""

from __future__ import annotations

import sys

import pyarrow  # noqa: F401

import headrace.worker.task


def run() -> None:
    """Runs until the JVM closes standard input."""
    sys.modules["pyspark.worker"] = headrace.worker.task
    from pyspark import daemon

    headrace.worker.task.collect_garbage()
    daemon.manager()


if __name__ == "__main__":
    run()
