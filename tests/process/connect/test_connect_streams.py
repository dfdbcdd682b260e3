"""Streams over Spark Connect: the server's queries ask this process for offsets and ranges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import headrace as hr
from connecting import hides_the_unix_socket
from growing import Counter
from headrace.stream import listeners_of
from placements import placements
from producing import wait_until

pytestmark = pytest.mark.timeout(200)


def started(frame: Any, directory: Path, **trigger: Any) -> Any:
    """A query that writes Parquet files: the server is on this machine."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
    return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start(str(directory / "rows"))


def written(directory: Path) -> list[int]:
    """The numbers in the files of the batches that are done, which the sink lists."""
    logs = [log.read_text().splitlines()[1:] for log in (directory / "rows" / "_spark_metadata").glob("[0-9]*")]
    files = {json.loads(line)["path"].removeprefix("file://") for lines in logs for line in lines}
    return sorted(number for file in files for number in pyarrow.parquet.read_table(file)["n"].to_pylist())


def failure_of(query: Any) -> str:
    wait_until(lambda: not query.isActive)
    return str(query.exception())


@pytest.mark.daily("EXECUTORS-server elsewhere", "DRIVER-server on*")
@pytest.mark.parametrize("elsewhere", [False, True], ids=["server on this machine", "server elsewhere"])
@placements
def test_connect_stream_gives_each_row_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, placement: hr.Placement, elsewhere: bool
) -> None:
    if elsewhere:
        hides_the_unix_socket(monkeypatch)
    with hr.SessionContext(spark) as ctx:
        counter = Counter(10, placement=placement, filters=hr.FilterPushdown.EXACT)
        ctx.register_table("numbers", counter)
        frame = ctx.stream("numbers", maxRowsPerTrigger=4).where("n > 2").select("n")
        query = started(frame, tmp_path, availableNow=True)
        assert query.awaitTermination(120)
        assert query.exception() is None
    assert written(tmp_path) == list(range(3, 10))
    assert [(start, end, request.projection) for start, end, request in counter.ranges] == [
        (0, 4, ("n",)),
        (4, 8, ("n",)),
        (8, 10, ("n",)),
    ]


def test_connect_stream_is_woken_by_the_provider_and_asked_seldom(ctx: hr.SessionContext, tmp_path: Path) -> None:
    counter = Counter(3)
    ctx.register_table("numbers", counter)
    query = started(ctx.stream("numbers"), tmp_path)
    try:
        for rows in range(3, 8):
            wait_until(lambda rows=rows: written(tmp_path) == list(range(rows)))  # type: ignore[misc]
            counter.grow()
        assert query.exception() is None
    finally:
        query.stop()
    wait_until(lambda: listeners_of(counter) == [])


def test_connect_stream_goes_on_from_its_checkpoint(spark: Any, tmp_path: Path) -> None:
    for head in (5, 9):
        with hr.SessionContext(spark) as ctx:
            ctx.register_table("numbers", Counter(head))
            assert started(ctx.stream("numbers"), tmp_path, availableNow=True).awaitTermination(120)
    assert written(tmp_path) == list(range(9))


def test_connect_stream_of_a_provider_that_raises_fails_with_its_words(ctx: hr.SessionContext, tmp_path: Path) -> None:
    class Broken(Counter):
        def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
            raise hr.OffsetLostError("the rows were deleted last night")

    ctx.register_table("numbers", Broken(10))
    text = failure_of(started(ctx.stream("numbers"), tmp_path))
    assert "OffsetLostError: the rows were deleted last night" in text


def test_connect_stream_ends_when_its_context_closes(spark: Any, tmp_path: Path) -> None:
    counter = Counter(3)
    with hr.SessionContext(spark) as ctx:
        ctx.register_table("numbers", counter)
        query = started(ctx.stream("numbers"), tmp_path)
        wait_until(lambda: written(tmp_path) == [0, 1, 2])
    text = failure_of(query)
    assert "ClosedError" in text or "TransportError" in text
    assert listeners_of(counter) == []
