"""Starting or adopting a Spark session and bringing the connector and this package to it; driver Python."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sys
import warnings
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
from py4j.java_gateway import JavaClass
from pyspark import SparkContext
from pyspark.sql import SparkSession

import headrace
from headrace.errors import ClosedError, HeadraceError
from headrace.spark import versions
from headrace.spark.classic.failures import LOST
from headrace.spark.java import java_for_spark
from headrace.spark.stderr import leave_failures_to_exceptions, start_quietly
from headrace.spill.private_directory import PrivateDirectory

JAR = Path(headrace.__file__).parent / "headrace-connector.jar"
_MAX_SOCKET_DIRECTORY_CHARS = 61  # as Spark checks it
_installed: dict[str, str] = {}
_socket_directories: list[PrivateDirectory] = []
"""Of the Spark that runs: one that the user goes on with needs it, whatever becomes of its context."""


@dataclass(frozen=True)
class Launched:
    """A session that has the connector, and how its executors run Python."""

    spark: SparkSession
    owned: bool
    python: str
    archive: str
    one_machine: bool
    in_process: bool


def start(master: str | None, config: Mapping[str, Any]) -> Launched:
    """Start Spark with settings that suit an embedded engine; ``config`` wins over them. Adopt one that runs with them.

    It writes to standard error only what is wrong and no exception tells, unless ``config`` names a log level. Raises
    HeadraceError, with what Java said, where it does not start.
    """
    if is_running():
        return adopt(running(master, config))
    own = {key: _text(value) for key, value in config.items()}
    settings = {**_defaults(own.get("spark.master", master or "local[*]")), **own}
    if settings["spark.master"].startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's default is whatever python3 is on PATH
    # PySpark prints failed queries a second time, as JSON and as warnings; here the exception says it all.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", r"(?s)\w+ attempted Arrow optimization .* error below and can not continue")
    with java_for_spark():
        spark = start_quietly(settings)
    if "spark.log.level" not in config:
        leave_failures_to_exceptions(spark.sparkContext._gateway)
    return _prepared(spark, owned=True)


def is_running() -> bool:
    """Whether a classic Spark runs in this process."""
    return SparkContext._active_spark_context is not None


def running(master: str | None, config: Mapping[str, Any]) -> SparkSession:
    """The session of the Spark that runs. Raises HeadraceError where that was started with other settings."""
    spark = SparkSession.builder.getOrCreate()
    found = spark.sparkContext.getConf()
    wanted = dict(config) if master is None else {"spark.master": master, **config}
    for key, value in wanted.items():
        if found.get(key, None) != _text(value):
            raise HeadraceError(
                f"Spark is running in this process already, with {key} {found.get(key, None)!r} instead of "
                f"{_text(value)!r}: stop it first, or attach to it as it is with SessionContext(spark)"
            )
    return spark


def stop(spark: SparkSession) -> None:
    """Stop a session that ``start`` made. One whose JVM is gone is forgotten, so that another can be started."""
    context: Any = spark.sparkContext
    try:
        if context._jsc is None:
            return
        try:
            context._jvm.System.getProperty("java.version")
        except LOST:
            _forget(context)
        else:
            spark.stop()
    finally:
        if SparkContext._active_spark_context is None:
            while _socket_directories:
                _socket_directories.pop().close()


def _forget(context: Any) -> None:
    """What ``SparkSession.stop`` does without asking the JVM; and PySpark would start no second one by itself."""
    context._jsc = None
    context.stop()
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
    gateway: Any = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    if gateway is not None:
        with suppress(*LOST):
            gateway.shutdown()
    shutil.rmtree(context._temp_dir, ignore_errors=True)  # where the archive is


def adopt(spark: Any) -> Launched:
    """Attach to a session that the user made, with or without the connector's jar."""
    if not isinstance(spark, SparkSession):
        raise TypeError(f"SessionContext takes a pyspark.sql.SparkSession, not {type(spark).__name__}")
    if spark.sparkContext._jsc is None:
        raise ClosedError("this SparkSession was stopped; make a new one")
    return _prepared(spark, owned=False)


def _prepared(spark: SparkSession, *, owned: bool) -> Launched:
    context = spark.sparkContext
    master = str(context.master)
    application = context.applicationId
    if application not in _installed:
        _add_jar(spark)
        _installed[application] = _add_archive(context)
    one_machine = is_one_machine(master)
    python = os.environ.get("PYSPARK_PYTHON") or (sys.executable if one_machine else context.pythonExec)
    in_process = one_machine and not master.startswith("local-cluster")
    return Launched(spark, owned, python, _installed[application], one_machine, in_process)


def is_one_machine(master: str) -> bool:
    """Whether all tasks run where the driver runs."""
    return master.startswith("local")


def connector_jar() -> str:
    """Its path. Raises HeadraceError where there is none."""
    if not JAR.exists():
        raise HeadraceError(f"the connector's jar is missing ({JAR}); run 'make jar', or install the wheel again")
    return str(JAR)


def connector_class(spark: SparkSession, name: str) -> Any:
    """The connector's class ``org.headrace.spark.<name>`` in the driver's JVM."""
    return java_class(spark, f"org.headrace.spark.{name}")


def java_class(spark: SparkSession, name: str) -> Any:
    """A class in the driver's JVM, by its full name.

    ``_jvm.org.headrace...`` would ask the JVM at each dot whether that is a class, and it would look through all of
    Spark's jars each time: 2.5 ms.
    """
    context: Any = spark.sparkContext
    return JavaClass(name, context._gateway._gateway_client)


def _add_jar(spark: SparkSession) -> None:
    path = connector_jar()
    # Both are needed: the first for the driver's class loader, the second for the executors'.
    jvm: Any = spark.sparkContext._jvm
    jvm.org.apache.spark.sql.api.python.PythonSQLUtils.addJarToCurrentClassLoader(path)
    spark.sparkContext._jsc.addJar(path)


def _add_archive(context: SparkContext) -> str:
    archive = package_archive(str(context._temp_dir))
    context.addFile(str(archive))
    return archive.name


def package_archive(directory: str) -> Path:
    """This very package, zipped for the executors: nothing has to be installed there."""
    package = Path(headrace.__file__).parent
    pickler = Path(cloudpickle.__file__).parent  # what was pickled with it can only be read with it
    sources = sorted(path for root in (package, pickler) for path in root.rglob("*.py"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    archive = Path(directory) / f"headrace-{digest}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in sources:
            root = package if path.is_relative_to(package) else pickler
            zipped.write(path, path.relative_to(root.parent))
    return archive


def _defaults(master: str) -> dict[str, str]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    settings = {
        "spark.master": master,
        "spark.app.name": "headrace",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        **versions.session_defaults(),
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": f"{max(1, _physical_gib() // 4)}g",
            "spark.sql.shuffle.partitions": str(cores),
            **_private_sockets(),
        }
    return settings


def _private_sockets() -> dict[str, str]:
    """Settings that have PySpark use Unix sockets, which ask for no secret, in a directory of this user alone.

    Only where all of Spark runs on this machine: other machines do not have the directory. Before 4.1 Spark knows
    neither setting.
    """
    directory = PrivateDirectory("python")
    if len(directory.path) > _MAX_SOCKET_DIRECTORY_CHARS:
        directory.close()
        directory = PrivateDirectory("python", "/tmp")
    _socket_directories.append(directory)
    setting = "spark.python.unix.domain.socket"
    return {f"{setting}.enabled": "true", f"{setting}.dir": directory.path}


def _physical_gib() -> int:
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) >> 30


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
