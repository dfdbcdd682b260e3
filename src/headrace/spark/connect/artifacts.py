"""What this process brought to each Spark Connect session; driver Python."""

from __future__ import annotations

import tempfile
import threading
from typing import Any

from headrace.spark import launch

_known: dict[str, KnownSession] = {}
_knowing = threading.Lock()


class KnownSession:
    """One session, shared by its contexts. They wait for each other's answers, and for those of no other server.

    ``naming`` is held while a name is looked for that is free there, and taken.
    """

    def __init__(self) -> None:
        self.naming = threading.Lock()
        self._lock = threading.Lock()
        self._archive: str | None = None

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
