"""``headrace doctor``: what Headrace needs on this machine, looked at one by one; driver Python.

It works where anything is missing, and says what helps: each look imports what it needs itself.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace import __version__


@dataclass(frozen=True)
class Finding:
    """What one look found: good, or bad with its remedy."""

    subject: str
    found: str
    remedy: str = ""

    @property
    def is_good(self) -> bool:
        return not self.remedy


def findings() -> Iterator[Finding]:
    """One after the other, as they are found. The query comes last, and only where all before it is good."""
    all_good = True
    looks: dict[str, Callable[[], Finding]] = {
        "Python": _python,
        "Arrow": _arrow,
        "PySpark": _pyspark,
        "Java": _java,
        "connector": _connector,
        "sockets": _sockets,
    }
    for subject, look in looks.items():
        finding = _looked(subject, look)
        all_good = all_good and finding.is_good
        yield finding
    if all_good:
        yield _looked("query", _query)
    else:
        yield Finding("query", "not tried", "fix what is above first")


def _looked(subject: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except Exception as error:  # whatever is broken is what we are here to tell
        said = str(error).strip() or type(error).__name__
        first, _, rest = said.partition(": ")
        return Finding(subject, first, rest or f"{type(error).__name__}; the message above is all that is known")


def _python() -> Finding:
    found = f"{platform.python_version()} at {sys.executable}, headrace {__version__}"
    return Finding("Python", found, "" if sys.version_info >= (3, 11) else "Headrace needs CPython 3.11 or newer")


def _arrow() -> Finding:
    import pyarrow

    old = int(pyarrow.__version__.partition(".")[0]) < 20
    return Finding("Arrow", f"pyarrow {pyarrow.__version__}", "pip install 'pyarrow>=20'" if old else "")


def _pyspark() -> Finding:
    from headrace.spark.versions import installed

    return Finding("PySpark", installed())


def _java() -> Finding:
    from headrace.spark.java import check_version, find_java

    java = find_java()
    check_version(java)
    version = java.version()
    if version is None:
        return Finding("Java", f"{java.executable} does not run ({java.origin})", "set JAVA_HOME to a JDK 17 or newer")
    return Finding("Java", f"{version} at {java.executable}: {java.origin}")


def _connector() -> Finding:
    from headrace.spark.launch import connector_jar

    return Finding("connector", connector_jar())


def _sockets() -> Finding:
    from headrace.transport.listeners import try_sockets

    return Finding("sockets", f"loopback, and Unix sockets in {try_sockets()}")


def _query() -> Finding:
    import pyarrow as pa

    import headrace as hr

    def numbers() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": pa.array(range(1000), pa.int64())})

    begun = time.monotonic()
    with hr.SessionContext() as ctx:
        ctx.register_table("headrace_doctor", hr.SimpleTable(pa.schema([("n", pa.int64())]), numbers))
        total = ctx.collect("SELECT sum(n) FROM headrace_doctor")[0][0].as_py()
    if total != 499_500:
        return Finding("query", f"gave {total} instead of 499500", "report this, please, with the lines above")
    return Finding(
        "query", f"a Python worker sent 1,000 rows to Spark, {time.monotonic() - begun:.1f} s with its start"
    )
