"""Offsets of streams and what a provider may answer, without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from growing import SCHEMA, Counter
from headrace.arrow.types import wire_schema
from headrace.errors import ClosedError, DeregisteredError, PlanError
from headrace.negotiate import reading as module
from headrace.negotiate.asking import ProviderRaised
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.offsets import checked_text, goes_back, offset_of
from headrace.negotiate.reading import StreamReading
from headrace.negotiate.registry import RegisteredTable
from headrace.stream import listeners_of


def table_of(provider: hr.TableProvider) -> RegisteredTable:
    return RegisteredTable("numbers", provider, SCHEMA, wire_schema(SCHEMA))


class Answering(Counter):
    """Answers everything with one object."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def initial_offset(self) -> hr.Offset:
        return self.answer

    def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
        return self.answer


@pytest.fixture
def reading_of() -> Iterator[Callable[..., StreamReading]]:
    made: list[StreamReading] = []

    def make(provider: hr.StreamProvider, is_registered: Callable[[], bool] = lambda: True) -> StreamReading:
        made.append(StreamReading(table_of(provider), is_registered))
        return made[-1]

    yield make
    for reading in made:
        reading.close()


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        (3, "3"),
        (1.5, "1.5"),
        ("a", '"a"'),
        ("ü", '"\\u00fc"'),
        (True, "true"),
        ([1, (2, 3)], "[1,[2,3]]"),
        ({"b": 1, "a": {"d": [], "c": 2}}, '{"a":{"c":2,"d":[]},"b":1}'),
        (10**30, "1" + "0" * 30),
        (2.0, "2"),
        (-0.0, "0"),
        (1e300, "1e+300"),
        ({"b": [1.0, 0.5], "a": 2.0}, '{"a":2,"b":[1,0.5]}'),
    ],
)
def test_offset_is_kept_as_canonical_json(offset: Any, text: str) -> None:
    assert checked_text(offset, "X.latest_offset", "t") == text
    assert checked_text(offset_of(text), "X.latest_offset", "t") == text


@pytest.mark.parametrize("offset", [None, float("nan"), float("inf"), {1: 2}, [{None: 1}], object(), b"x", {1, 2}])
def test_offset_that_is_no_json_is_refused_by_name(offset: Any, reading_of: Callable[..., StreamReading]) -> None:
    for ask in ("initial_offset", "latest_offset"):
        reading = reading_of(Answering(offset))
        with pytest.raises(PlanError, match=rf"Answering\.{ask} returned .* table 'numbers', expected a JSON value"):
            reading.initial() if ask == "initial_offset" else reading.latest("0")


def test_offset_that_contains_itself_is_refused(reading_of: Callable[..., StreamReading]) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(PlanError, match="expected a JSON value"):
        reading_of(Answering(endless)).initial()


@pytest.mark.parametrize(
    ("start", "end", "back"), [(3, 2, True), (3, 2.5, True), (3, 3, False), ("b", "a", False), ([3], [2], False)]
)
def test_only_numbers_are_known_to_go_back(start: hr.Offset, end: hr.Offset, back: bool) -> None:
    assert goes_back(start, end) is back


def test_latest_offset_that_goes_back_is_an_error(reading_of: Callable[..., StreamReading]) -> None:
    with pytest.raises(PlanError, match=r"latest_offset went back from 7 to 3 \(table 'numbers'\), expected 7 or more"):
        reading_of(Counter(3)).latest("7")


def test_limits_reach_the_provider(reading_of: Callable[..., StreamReading]) -> None:
    counter = Counter(100)
    assert reading_of(counter).latest("0", 30, 4000).end == "30"
    assert counter.asked == [(0, hr.ReadLimit(max_rows=30, max_bytes=4000))]


def test_available_now_ends_where_the_table_ended_when_it_was_first_asked(
    reading_of: Callable[..., StreamReading],
) -> None:
    counter = Counter(70)
    reading = reading_of(counter)
    ends = ["0"]
    while len(ends) < 10 and (end := reading.latest(ends[-1], 30, available_now=True).end) != ends[-1]:
        ends.append(end)
        counter.grow(1000)
    assert ends == ["0", "30", "60", "70"]
    assert [limit.until for _, limit in counter.asked] == [None, None, 70, 70, 70]


class Capped(Counter):
    """Answers at most 30 further, and grows by so much with each question."""

    growth = 0

    def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
        end = min(start + 30, super().latest_offset(start, limit))
        self.head += self.growth
        return end


class CappedShards(hr.StreamProvider):
    """Offsets are a dict: the rows of a log, of which 30 are answered at once, and those of another, which is live."""

    def __init__(self) -> None:
        self.live = 0

    def schema(self) -> pa.Schema:
        return SCHEMA

    def initial_offset(self) -> hr.Offset:
        return {"log": 0, "live": 0}

    def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
        self.live += 1
        return {"log": min(start["log"] + 30, 100), "live": self.live}

    def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
        raise NotImplementedError


def available_ends(reading: StreamReading, max_rows: int | None = None) -> list[str]:
    """The ends of the micro-batches of a query with availableNow."""
    ends = [reading.initial()]
    while (end := reading.latest(ends[-1], max_rows, available_now=True).end) != ends[-1]:
        ends.append(end)
        assert len(ends) < 1000, "the query does not end"
    return ends[1:]


def test_available_now_without_limits_is_one_step(reading_of: Callable[..., StreamReading]) -> None:
    counter = Counter(70)
    assert available_ends(reading_of(counter)) == ["70"]
    assert [start for start, _ in counter.asked] == [0, 70]


@pytest.mark.parametrize("growth", [0, 1, 7])
def test_available_now_of_a_capped_provider_reads_all_that_was_there(
    reading_of: Callable[..., StreamReading], growth: int
) -> None:
    counter = Capped(100)
    counter.growth = growth
    ends = available_ends(reading_of(counter))
    assert ends[:3] == ["30", "60", "90"]
    assert 100 <= int(ends[-1]) <= counter.head


@pytest.mark.parametrize(("max_rows", "ends"), [(20, ["20", "40", "60", "80", "100"]), (50, ["30", "60", "90", "100"])])
def test_available_now_of_a_capped_provider_keeps_to_the_smaller_limit(
    reading_of: Callable[..., StreamReading], max_rows: int, ends: list[str]
) -> None:
    assert available_ends(reading_of(Capped(100)), max_rows) == ends


def test_available_now_of_a_capped_provider_begins_at_the_checkpoint(reading_of: Callable[..., StreamReading]) -> None:
    counter = Capped(100)
    reading = reading_of(counter)
    assert [reading.latest(start, available_now=True).end for start in ("45", "75", "100")] == ["75", "100", "100"]
    assert all(start >= 45 for start, _ in counter.asked)


def test_available_now_ends_where_a_growing_table_was(reading_of: Callable[..., StreamReading]) -> None:
    class Growing(Counter):
        def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
            self.grow()
            return super().latest_offset(start, limit)

    counter = Growing(70)
    assert available_ends(reading_of(counter)) == ["71"]
    assert len(counter.asked) == 3


def test_available_now_of_capped_shards_reads_all_beside_a_live_one(reading_of: Callable[..., StreamReading]) -> None:
    ends = [offset_of(end) for end in available_ends(reading_of(CappedShards()))]
    assert [end["log"] for end in ends] == [30, 60, 90, 100]


def test_available_now_of_a_stream_without_an_end_ends(
    reading_of: Callable[..., StreamReading], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOST_STEPS", 10)
    counter = Capped(100)
    counter.growth = 1000
    assert len(available_ends(reading_of(counter))) == 10
    assert "still has more than 300" in caplog.text


def test_available_now_of_offsets_in_a_circle_is_an_error(reading_of: Callable[..., StreamReading]) -> None:
    class Circle(Counter):
        def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
            return {0: "a", "a": "b", "b": "c", "c": "a"}[start]

    with pytest.raises(PlanError, match=r"latest_offset .* answered \"a\" when asked from \"c\".*only grow"):
        reading_of(Circle()).latest("0", available_now=True)


def test_available_now_ends_with_the_reading(reading_of: Callable[..., StreamReading]) -> None:
    class Endless(Capped):
        growth = 1000
        reading: StreamReading

        def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
            if len(self.asked) == 5:
                self.reading.close()
            return super().latest_offset(start, limit)

    counter = Endless(100)
    counter.reading = reading_of(counter)
    with pytest.raises(ClosedError):
        counter.reading.latest("0", available_now=True)
    assert len(counter.asked) == 6


def test_available_now_of_a_provider_that_goes_beyond_is_cut(reading_of: Callable[..., StreamReading]) -> None:
    class Beyond(Counter):
        def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
            return 70 if limit == hr.ReadLimit() else start + 50

    reading = reading_of(Beyond())
    assert reading.latest("0", 50, available_now=True).end == "50"
    assert reading.latest("50", 50, available_now=True).end == "70"


def test_available_now_that_stands_still_before_its_end_is_an_error(reading_of: Callable[..., StreamReading]) -> None:
    class Stuck(Counter):
        def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
            return 70 if limit == hr.ReadLimit() else start

    with pytest.raises(PlanError, match=r"found nothing after 0 .*expected something: it answered 70 when"):
        reading_of(Stuck()).latest("0", 50, available_now=True)


@pytest.mark.parametrize("method", ["initial_offset", "latest_offset", "commit", "rows_behind"])
def test_provider_that_raises_is_told_with_its_traceback(
    method: str, monkeypatch: pytest.MonkeyPatch, reading_of: Callable[..., StreamReading]
) -> None:
    def broken(*_: object) -> None:
        raise LookupError(f"no {method} today")

    monkeypatch.setattr(Counter, method, broken)
    reading = reading_of(Counter(3))
    asked = {
        "initial_offset": reading.initial,
        "latest_offset": lambda: reading.latest("0"),
        "commit": lambda: reading.commit("0"),
        "rows_behind": lambda: reading.rows_behind("0"),
    }
    with pytest.raises(ProviderRaised) as raised:
        asked[method]()
    failure = raised.value.failure
    assert (failure.exception_type, failure.where) == ("builtins.LookupError", f"Counter.{method}")
    assert f"no {method} today" in failure.traceback


def test_offset_lost_error_keeps_its_class() -> None:
    class Lost(Counter):
        def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
            raise hr.OffsetLostError(f"rows up to {end} were deleted")

    with pytest.raises(ProviderRaised) as raised:
        Negotiation(table_of(Lost())).plan_between(0, 3)
    assert raised.value.failure.error == "OffsetLostError"


def test_range_is_planned_with_all_that_was_agreed_upon() -> None:
    counter = Counter(10, filters=hr.FilterPushdown.EXACT)
    negotiation = Negotiation(table_of(counter))
    negotiation.offer_filters([hr.Comparison(">", hr.Column("n"), hr.Literal(3, pa.int64()))])
    negotiation.offer_columns(SCHEMA.empty_table().select(["square"]).schema)
    planned = [negotiation.plan_between(0, 4), negotiation.plan_between(4, 10)]
    assert [(start, end) for start, end, _ in counter.ranges] == [(0, 4), (4, 10)]
    assert {request.projection for _, _, request in counter.ranges} == {("square",)}
    assert [repr(one) for one in counter.ranges[1][2].filters] == ["n > 3"]
    assert len({one.id for one in planned}) == 2
    assert "columns=[square] filters=[n > 3: EXACT] range=(4, 10]" in planned[1].description()


def test_scan_of_a_stream_without_one_says_how_to_read_it() -> None:
    with pytest.raises(ProviderRaised, match=r"Counter is a stream, and has no batch scan: read it with ctx\.stream"):
        Negotiation(table_of(Counter())).plan()


class TestWaiting:
    """When the JVM is to ask again; no wake-up is lost."""

    @pytest.fixture(autouse=True)
    def patient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "LONGEST_WAIT_SECONDS", 600.0)
        monkeypatch.setattr(module, "ASKED_SECONDS", 600.0)

    def waiter(self, reading: StreamReading, advances: int) -> threading.Thread:
        thread = threading.Thread(target=reading.wait, args=(advances,), daemon=True)
        thread.start()
        return thread

    def test_wait_ends_when_the_provider_advances(self, reading_of: Callable[..., StreamReading]) -> None:
        counter = Counter()
        reading = reading_of(counter)
        thread = self.waiter(reading, reading.latest("0").advances)
        counter.grow()
        thread.join(60)
        assert not thread.is_alive()

    def test_advance_between_asking_and_waiting_is_not_lost(self, reading_of: Callable[..., StreamReading]) -> None:
        counter = Counter()
        reading = reading_of(counter)
        advances = reading.latest("0").advances
        counter.grow()
        reading.wait(advances)
        assert reading.latest("0").end == "1"

    def test_advance_while_the_provider_is_asked_is_not_lost(self, reading_of: Callable[..., StreamReading]) -> None:
        class Racing(Counter):
            def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
                seen = super().latest_offset(start, limit)
                if self.head == 0:
                    self.grow()  # after it looked, before it answers
                return seen

        reading = reading_of(Racing())
        latest = reading.latest("0")
        assert latest.end == "0"
        reading.wait(latest.advances)
        assert reading.latest("0").end == "1"

    def test_wait_ends_with_the_reading(self, reading_of: Callable[..., StreamReading]) -> None:
        counter = Counter()
        reading = reading_of(counter)
        thread = self.waiter(reading, 0)
        assert len(listeners_of(counter)) == 1
        reading.close()
        thread.join(60)
        assert not thread.is_alive()
        assert listeners_of(counter) == []
        with pytest.raises(ClosedError, match="'numbers' is closed"):
            reading.latest("0")

    def test_many_threads_that_advance_lose_nothing(self, reading_of: Callable[..., StreamReading]) -> None:
        counter = Counter()
        reading = reading_of(counter)
        lock = threading.Lock()

        def produce() -> None:
            for _ in range(200):
                with lock:
                    counter.head += 1
                counter.advanced()

        producers = [threading.Thread(target=produce, daemon=True) for _ in range(4)]
        for thread in producers:
            thread.start()
        start = "0"
        while start != "800":
            latest = reading.latest(start)
            if latest.end == start:
                reading.wait(latest.advances)  # for ten minutes, if a wake-up were lost
            start = latest.end
        for thread in producers:
            thread.join()


def test_provider_that_never_advances_is_asked_again_after_a_while(
    reading_of: Callable[..., StreamReading], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ASKED_SECONDS", 0.05)
    began = time.monotonic()
    reading_of(Counter()).wait(0)
    assert 0.04 < time.monotonic() - began < 30


def test_wait_ends_soon_after_the_table_is_gone(
    reading_of: Callable[..., StreamReading], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ASKED_SECONDS", 0.05)
    monkeypatch.setattr(module, "LONGEST_WAIT_SECONDS", 600.0)
    registered = [True, True, False]
    counter = Counter()
    reading = reading_of(counter, lambda: registered.pop(0) if len(registered) > 1 else registered[0])
    counter.advanced()
    reading.wait(1)
    with pytest.raises(DeregisteredError, match="'numbers' was deregistered or replaced while a streaming query"):
        reading.latest("0")


def test_lag_is_the_difference_of_numbers(reading_of: Callable[..., StreamReading]) -> None:
    counter = Counter(100)
    reading = reading_of(counter)
    assert reading.latest("0", 30).end == "30"
    assert reading.rows_behind("30") == 70
    counter.grow(5)
    assert reading.rows_behind("30") == 70, "the provider was asked less than a second ago"


def test_lag_is_what_the_provider_tells(reading_of: Callable[..., StreamReading]) -> None:
    class Telling(Answering):
        def rows_behind(self, offset: hr.Offset) -> int | None:
            return {"a": 12, "b": None, "c": "many"}[offset]  # type: ignore[return-value]

    reading = reading_of(Telling("z"))
    assert [reading.rows_behind('"a"'), reading.rows_behind('"b"')] == [12, None]
    with pytest.raises(PlanError, match=r"Telling\.rows_behind returned str"):
        reading.rows_behind('"c"')
