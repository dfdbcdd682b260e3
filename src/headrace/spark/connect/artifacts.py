"""What this process brought to each Spark Connect session, and how it named the catalogs there; driver Python."""

from __future__ import annotations

import itertools
import tempfile
import threading
from typing import Any

from headrace.spark import launch

_known: dict[str, KnownSession] = {}
_knowing = threading.Lock()


class KnownSession:
    """One session, shared by its contexts. They wait for each other's answers, and for those of no other server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._archive: str | None = None
        self._names: set[str] = set()

    @classmethod
    def of(cls, spark: Any) -> KnownSession:
        """Asks nobody."""
        with _knowing:
            return _known.setdefault(spark.session_id, cls())

    def brought_along(self, spark: Any) -> str:
        """The name of this package's archive in the session, which has the connector's jar too from now on."""
        with self._lock:
            if self._archive is None:
                spark.addArtifacts(launch.connector_jar())
                with tempfile.TemporaryDirectory(prefix="headrace-") as directory:
                    archive = launch.package_archive(directory)
                    spark.addArtifacts(str(archive), file=True)
                self._archive = archive.name
            return self._archive

    def free_name(self, spark: Any, wanted: str) -> str:
        """``wanted``, or it with a number. None is used twice in a session: the server keeps each catalog for good."""
        with self._lock:
            for number in itertools.count(1):
                name = wanted if number == 1 else f"{wanted}_{number}"
                if name not in self._names and spark.conf.get(f"spark.sql.catalog.{name}", None) is None:
                    self._names.add(name)
                    return name
        raise AssertionError("there always is another number")
