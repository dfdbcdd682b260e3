"""A query of a Spark Connect session: its result comes through Connect's own Arrow batches; driver Python.

The server sends a partition when all of it is computed, in order, and holds what is not sent yet: a first batch comes
later than in a classic session, and what the client does not read waits in the server's memory.
"""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headrace.errors import HeadraceError, SchemaMismatchError
from headrace.spark import versions
from headrace.spark.connect.failures import translate
from headrace.spark.connect.patience import answers
from headrace.spark.query import QueryOnThread
from headrace.transport.claims import Claim

_WHOLE_RESULT = Claim(partition=0, attempt=0, execution=-1, nonce=0)


class ConnectQuery(QueryOnThread):
    """A RunningQuery: its thread receives the result, which is one partition of the inbox."""

    def __init__(self, frame: DataFrame, *, bounded: bool) -> None:
        super().__init__(versions.arrow_schema(frame.schema), bounded=bounded)
        self._frame: Any = frame
        self._spark: Any = frame.sparkSession
        self._tags = {*self._spark.getTags(), self._tag}
        self._receiver = self.inbox.open(_WHOLE_RESULT)

    def progress(self) -> tuple[int, int | None]:
        """Connect does not tell of partitions."""
        return 0, None

    def start(self) -> None:
        threading.Thread(target=self._run, args=(self._receive_all,), name="headrace-query", daemon=True).start()

    def _receive_all(self) -> None:
        self.inbox.announce(1)
        self._receive()
        self.inbox.end(self._receiver)

    def _receive(self) -> None:
        """Returns at the end of the result, as the server tells it."""
        for tag in self._tags:  # of this thread
            self._spark.addTag(tag)
        plan = self._frame._plan
        client = self._spark.client
        # Closing it tells the server that nobody wants the rest.
        with closing(client.to_table_as_iterator(plan.to_proto(client), plan.observations)) as parts:
            for part in parts:
                if isinstance(part, pa.Table):
                    if part.schema.names != self.schema.names:  # the server analyses the query again to run it
                        raise SchemaMismatchError(
                            f"the query was to have the columns {self.schema.names} and has {part.schema.names}: a "
                            "table in it was replaced meanwhile; run the query again"
                        )
                    # A cast of no columns would lose the count of rows.
                    for batch in (part.cast(self.schema) if self.schema.names else part).to_batches():
                        self._put(batch)

    def _put(self, batch: pa.RecordBatch) -> None:
        """Waits for room. Raises StreamError where nobody wants it any more."""
        if batch.num_rows:
            self.inbox.put(self._receiver, batch, batch.nbytes)

    def _ask_to_cancel(self) -> bool:
        if self._spark.is_stopped or not answers(self._spark.client):
            return False
        try:
            self._spark.interruptTag(self._tag)
        except PySparkException:  # just now
            return False
        return True

    def _error_behind(self, error: BaseException) -> HeadraceError | None:
        return translate(error)
