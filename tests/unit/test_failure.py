"""Exceptions as data: one that makes it hard to tell what it is arrives as an error that names it all the same."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from typing import get_args

import pytest

import headrace as hr
from headrace.errors import ScanEnd
from headrace.execute.failure import Failure, error_of, headline_of
from headrace.execute.rebuild import put_together, taken_apart
from headrace.push.channel import Channel
from headrace.push.packing import Packed, Packing
from headrace.push.sink import TableSink
from headrace.push.table import PushTable
from producing import NUMBERS, numbers
from raising import EXCEPTIONS, check_told, made


def caught(name: str) -> BaseException:
    try:
        raise made(name)
    except BaseException as error:
        return error


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_failure_of_any_exception_arrives_with_its_class_and_message(name: str) -> None:
    error = caught(name)
    record = Failure.of(error, where="P.execute", table="t", partition=2).to_json()
    told = Failure.from_json(record).to_exception()
    assert type(told) is hr.ProviderError
    check_told(name, told)
    assert (told.table, told.partition) == ("t", 2)
    assert "in caught" in told.traceback or "NoTraceback" in told.exception_type
    assert len(record) < 200_000
    record.encode("ascii")
    assert told.args[0].startswith(headline_of(error))


@pytest.mark.parametrize(
    "error",
    [
        ValueError("line\n" * 1_000_000),
        RuntimeError(["row"] * 500_000),
        RuntimeError(*["row"] * 500_000),
        ExceptionGroup("g", [ValueError("line\n" * 1_000_000)]),
    ],
    ids=["message", "rows", "arguments", "group"],
)
def test_failure_of_a_huge_exception_is_cut_before_it_is_copied(error: BaseException) -> None:
    size = len(str(error.exceptions[0] if isinstance(error, ExceptionGroup) else error))
    error.add_note("note\n" * 1_000_000)
    with pytest.raises(type(error)):
        raise error
    tracemalloc.start()
    try:
        failure = Failure.of(error)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * size, "str() itself may make a text of it"
    assert len(failure.to_json()) < 200_000
    assert "characters left out" in failure.text()


def test_exception_with_large_attributes_is_not_taken_apart() -> None:
    error = ValueError("small")
    vars(error)["rows"] = [0] * 1_000_000
    tracemalloc.start()
    try:
        assert taken_apart(error) is None
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_failed_process_is_rebuilt_with_its_attributes() -> None:
    cause = Failure.from_json(Failure.of(caught("failed process")).to_json()).to_exception().__cause__
    assert str(cause) == "Command 'fetch' returned non-zero exit status 3."


@pytest.mark.parametrize("record", ["", "{", "[]", "{}", '{"error": 3}', '{"error": "ProviderError", "message": []}'])
def test_damaged_record_is_a_transport_error_with_sparks_text(record: str) -> None:
    error = error_of(record, "what Spark says")
    assert type(error) is hr.TransportError
    assert str(error) == "what Spark says"


@pytest.mark.parametrize("cut", range(1, 400, 7))
def test_record_cut_short_is_never_another_error(cut: int) -> None:
    record = Failure.of(caught("failed process"), table="t").to_json()
    assert str(error_of(record[:-cut], "what Spark says")) == "what Spark says"


def test_record_of_an_own_error_that_cannot_be_rebuilt_keeps_its_text() -> None:
    sent = {"error": "BrokenPromiseError", "exception_type": "headrace.errors.BrokenPromiseError", "message": "lied"}
    error = Failure.from_json(json.dumps(sent)).to_exception()
    assert type(error) is hr.HeadraceError
    assert str(error) == "lied"


@pytest.mark.parametrize("arguments", [[], [3, 4, 5, 6], [{"bytes": "!"}], [{"list": [{"list": [{"x": 1}]}]}]])
@pytest.mark.parametrize("name", ["builtins.UnicodeDecodeError", "builtins.ExceptionGroup", "raising.Hostile"])
def test_parts_that_fit_no_exception_are_not_rebuilt_and_nothing_is_raised(name: str, arguments: list[object]) -> None:
    found = put_together(name, {"arguments": arguments, "attributes": {"a": 1}})
    assert found is None or type(found).__init__ is Exception.__init__


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_sink_that_fails_with_any_exception_is_told_to_the_reader(name: str) -> None:
    """A StopIteration would end the reader's loop as if all had been written."""
    packing = Packing(NUMBERS, 4)
    channel: Channel[Packed] = Channel("t", 4, new_pack=packing.new_pack)
    table, sink = PushTable("t", channel, packing), TableSink(channel, packing)
    sink.write(numbers(2))
    sink.fail(caught(name))
    for rows in (2, 0):  # of the task, and of the same task run again
        stream = table.claim(0, 1)
        assert sum(next(stream).num_rows for _ in range(rows // 2)) == rows
        with pytest.raises(BaseException) as told:
            next(stream)
        assert type(told.value) not in (StopIteration, StopAsyncIteration)
        check_told(name, Failure.of(told.value).to_exception())


@pytest.mark.parametrize("reason", get_args(ScanEnd))
def test_scan_ended_error_keeps_its_reason_as_data(reason: ScanEnd) -> None:
    error = hr.ScanEndedError("the scan ended", reason)
    for told in (
        Failure.from_json(Failure.of(error).to_json()).to_exception(),
        error_of(Failure.of(error).to_json(), "what Spark says"),
        pickle.loads(pickle.dumps(error)),
    ):
        assert type(told) is hr.ScanEndedError
        assert told.reason == reason
        assert str(told) == "the scan ended"


@pytest.mark.parametrize("kind", [hr.ClosedError, hr.ResultClosedError, hr.SinkClosedError])
def test_error_of_something_closed_is_a_closed_error_after_its_way(kind: type[hr.HeadraceError]) -> None:
    told = Failure.from_json(Failure.of(kind("it is closed")).to_json()).to_exception()
    assert type(told) is kind
    assert isinstance(told, hr.ClosedError)
