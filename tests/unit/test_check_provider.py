"""check_provider: each broken promise is named, with the rows that show it; honest providers pass. Without Spark."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import bad_providers as bad
import bad_schemas as shape
import headrace as hr
from checking import NUMBERED, check_provider, errors
from effort import cases, share
from headrace.testing import Promise, Severity
from random_predicates import random_table

BROKEN: dict[Promise, dict[type[hr.TableProvider], str]] = {
    Promise.FILTERS: {
        bad.WrongExact: r"answered EXACT for `\w+ > .*`, but partition \d has \d+ rows? for which it is not true: \{'",
        bad.ExactKeepsNulls: r"EXACT for `.*`, but partition \d has \d+ rows? for which it is not true: .*None",
        bad.ExactDropsNaN: r"answered EXACT for `.*` but dropped \d+ rows? that match.*: .*'score': nan",
        bad.InexactDropsRows: r"answered INEXACT for `(ENDS_WITH|CONTAINS).*` but dropped \d+ rows? that",
        bad.DuplicatesFilteredRows: r"but returned \d+ rows? that a plain scan does not have, or not as",
        bad.FiltersOnlyReadColumns: r"but not for a scan that does not read \w+: \d+ rows are new",
        bad.UsesOneFilterOnly: r"EXACT for `.*`, but partition .* not true: \{.*\}, in the scan with `.*` and `.*`",
        bad.TooFewAnswers: r"supports_filters_pushdown returned 1 answer for \d+ filters",
        bad.AnswersWithBooleans: r"answered True for the filter .*, expected a FilterPushdown",
        bad.AnswersRaise: r"supports_filters_pushdown raised LookupError: no such op.*bad_providers.py:\d",
    },
    Promise.LIMIT: {
        bad.LimitTooSmall: r"asked for limit=1 where 30 rows are there, but the scan returned 0 rows \(0, 0",
        bad.LimitSplitEvenly: r"limit=29 where 30 rows are there, but the scan returned 22 rows \(10, 6, 6 ",
        bad.LimitBeforeFilters: r"limit=\d+ with the EXACT filters `.*` where \d+ rows? match, but the scan",
    },
    Promise.PARTITIONING: {
        bad.LyingKeys: r"states that partition 1 holds the rows with \{'city': 'ulm'\}, but it has 6 other rows: \{'",
        bad.SameKeyTwice: r"states that partitions 1 and 2 have the same key \('kiel',\)",
        bad.KeyOfAnotherType: r"the partition key 1 is not a string, the type of column 'city'",
        bad.LyingHash: r"hash of \(value\), but partitions 0 and 1 have equal rows: \{",
    },
    Promise.ORDERING: {
        bad.LyingOrder: r"sorted by value DESC NULLS FIRST, but \{'value': \d+\} comes before \{'value': ",
        bad.LyingNullsOrder: r"sorted by value NULLS LAST, but \{'value': None\} comes before \{'value': ",
        bad.LyingSecondKey: r"sorted by city NULLS FIRST, score NULLS FIRST, but \{.*\} comes before",
    },
    Promise.EXECUTE: {
        bad.UnstableExecute: r"partition 0 gave other rows when it was executed again: 1 row is missing: ",
        bad.SharedIterator: r"partition 0 gave other rows when it was executed again: 30 rows are missing",
        bad.ExecuteReturnsNone: r"execute\(0\) raised TypeError: .* returned NoneType, expected an iterable",
        bad.LastPartitionFails: r"execute\(2\) raised ConnectionError: shard 2 is down \(bad_providers.py:",
        bad.BoundToOneThread: r"raised RuntimeError: used on another thread than the one that made it",
    },
    Promise.FRESH_SCANS: {
        bad.IteratorUsedUpByScan: r"a second scan has other rows than the first: 30 rows are missing",
    },
    Promise.BATCHES: {
        bad.ExecuteYieldsSingleRows: r"execute yielded dict .*: one row is a list of one dict",
        shape.WrongNames: r"schema is not the plan's(.|\n)*expected:\n.*city(.|\n)*found:\n.*CITY",
        shape.WrongTypes: r"schema is not the plan's(.|\n)*value: int64(.|\n)*found:(.|\n)*value: string",
        shape.NullsWhereNoneAreDeclared: r"yielded nulls in column 'city', which the schema declares not n",
    },
    Promise.EARLY_STOP: {
        bad.RefusesToStop: r"closing what OwnPlan.execute\(0\) .* raised RuntimeError: generator ignored",
    },
    Promise.PLANNING: {
        bad.ReadsAFile: r"ReadsAFile.scan opened '.*bad_providers.py' \(bad_providers.py:\d+\); planning",
        bad.ReadsAFileWhenAsked: r"ReadsAFileWhenAsked.supports_filters_pushdown opened '.*bad_prov",
        bad.Sleeps: r"Sleeps.scan slept \(bad_providers.py:\d+\); planning does no I/O",
        bad.ExecutesInScan: r"ExecutesInScan.scan ran Plan.execute: rows are produced when Spark reads",
        bad.PlansOnOneThread: r"planning works on the calling thread only, but Spark plans on threads of",
        bad.ScanReturnsNone: r"ScanReturnsNone.scan returned None.*, expected an ExecutionPlan",
        bad.ScanRaises: r"ScanRaises.scan raised ValueError: no such shard \(bad_providers.py:\d+\)",
        shape.WrongPlanSchema: r"a schema that is neither the request's nor the table's(.|\n)*other: int64",
        bad.StatisticsNegative: r"gave the statistic -1, expected an integer that is not negative",
    },
    Promise.PICKLING: {
        bad.Unpicklable: r"cannot be pickled for Spark's Python workers: TypeError: .*lock",
        bad.UnpicklableWithFilters: r"cannot be pickled for Spark's Python workers: TypeError: .*lock",
        bad.PickledWithoutItsState: r"other rows after it was pickled and unpickled: 30 rows are missing",
    },
    Promise.SCHEMA: {
        shape.SchemaIsAList: r"SchemaIsAList.schema as a list has a pair of name and type for each column",
        shape.SchemaChanges: r"schema gave another schema when it was called again\n(.|\n)*then\n",
        shape.SchemaSparkHasNoTypesFor: r"column 'at' has Arrow type month_day_nano_interval, which Spark has no equal",
    },
    Promise.PROJECTION: {
        shape.IgnoresProjectionOrder: r"neither the request's nor the table's\nrequested:\n.*name.*\n.*place.*\n.*city",
        shape.RenamesInTableOrder: r"other values than in a scan of all columns: 30 rows are missing: \{",
        shape.FailsWithOneColumn: r"30 rows are missing: .*, in the scan of columns \[\w+\]",
        shape.PrunesNestedFieldsWrongly: r"rows are missing: .*\{'place': \{'x': 0\}\}.* are new: .*None",
    },
}
CASES = [(provider, promise, text) for promise, found in BROKEN.items() for provider, text in found.items()]
LIES_ABOUT_FILTERS = (*BROKEN[Promise.FILTERS], *BROKEN[Promise.LIMIT], bad.UnpicklableWithFilters)


@pytest.mark.daily(every=4)  # every other small one
@pytest.mark.parametrize("size", ["small", "whole"])
@pytest.mark.parametrize(("provider", "promise", "message"), CASES, ids=[case[0].__name__ for case in CASES])
def test_bad_provider_is_caught_with_its_promise_and_message(
    provider: type[hr.TableProvider], promise: Promise, message: str, size: str
) -> None:
    """A small one has fewer columns or, where its lie is not about filters, takes none."""
    if size == "small":
        smaller = bad.with_some_columns if provider in LIES_ABOUT_FILTERS else bad.without_filters
        provider = smaller(provider)
    samples = 2 if promise is Promise.LIMIT or (promise is Promise.FILTERS and size == "whole") else 1
    report = check_provider(provider(), samples=samples)
    assert not report.ok
    assert report.outcome(promise) == "broken", str(report)
    texts = [finding.message for finding in errors(report.about(promise))]
    assert any(re.search(message, text) for text in texts), str(report)
    assert {finding.promise for finding in errors(report)} == {promise}, str(report)


@pytest.mark.daily
def test_hand_written_provider_with_filters_keys_order_and_limit_passes() -> None:
    report = check_provider(bad.HonestTable(), samples=cases(3))
    assert report.ok, str(report)
    assert [finding.severity for finding in report.findings] == [Severity.NOTE]  # weight has no nulls
    assert report.rows == 30
    assert report.scans > 100


def batches_of(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches(max_chunksize=7)


RANDOM = random_table(Random(5), 40).select(
    share(["id", "i", "d", "n", "f", "y", "s", "b", "t", "p", "z", "st"])  # id, a number, a text and a point in time
)
GOOD: dict[str, Any] = {
    "mem": lambda: hr.MemTable(RANDOM, partitions=3),
    "empty mem": lambda: hr.MemTable(RANDOM.schema.empty_table()),
    "simple": lambda: hr.SimpleTable(RANDOM.schema, lambda: batches_of(RANDOM)),
    "simple with request": lambda: hr.SimpleTable(
        RANDOM.schema, lambda request: RANDOM.select(list(request.projection)).to_reader()
    ),
    "streams": lambda: hr.StreamTable(
        RANDOM.schema, [lambda: batches_of(RANDOM.slice(0, 9)), lambda: RANDOM.slice(9).to_batches()]
    ),
    "no streams": lambda: hr.StreamTable(RANDOM.schema, []),
    "sorted": lambda: hr.SortedTable(hr.MemTable(RANDOM, partitions=2), [hr.SortKey("id")]),
    "sorted, descending": lambda: hr.SortedTable(
        hr.MemTable(pa.table({"x": [None, float("nan"), 2.0, -1.0]})), [hr.SortKey("x", descending=True)]
    ),
    "no columns": lambda: hr.MemTable(NUMBERED.select([])),
}


@pytest.mark.parametrize("kind", GOOD)
def test_ready_made_table_keeps_its_promises(kind: str) -> None:
    report = check_provider(GOOD[kind](), samples=cases(2))
    assert report.ok, str(report)
    assert report.of(Severity.UNCHECKED) == ()
    warnings = [finding.message for finding in report.of(Severity.WARNING)]
    assert len(warnings) == (kind == "no streams"), warnings  # a table without partitions is one without rows


@pytest.mark.daily
@pytest.mark.parametrize("group", [0, 1, 2])
def test_awkward_types_are_read_filtered_and_pruned(group: int) -> None:
    point = pa.struct([("x", pa.int32()), ("inner", pa.struct([("k", pa.string()), ("l", pa.float32())]))])
    table = pa.table(
        {
            "dictionary": pa.array(["a", "b", None, "a"]).dictionary_encode(),
            "unsigned": pa.array([0, 2**64 - 1, None, 5], pa.uint64()),
            "list": pa.array([[1], None, [], [2, None]], pa.list_(pa.int8())),
            "map": pa.array([[("k", 1)], None, [], [("l", None)]], pa.map_(pa.string(), pa.int64())),
            "point": pa.array(
                [{"x": 1, "inner": {"k": "a", "l": 0.5}}, None, {"x": None, "inner": None}, {"x": 2}], point
            ),
            "points": pa.array([[{"x": 1}], None, [], [None, {"inner": {"k": "b"}}]], pa.list_(point)),
            "decimal": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal(-3), decimal.Decimal(0)]),
            "date": pa.array([dt.date(2024, 2, 29), None, dt.date.min, dt.date.max]),
            "far future": pa.array([2**62, None, 0, -(2**62)], pa.timestamp("us")),
            "zoned": pa.array([0, None, 1, 10**12], pa.timestamp("ms", tz="Europe/Berlin")),
            "span": pa.array([dt.timedelta(1), None, dt.timedelta(0), dt.timedelta(-1)]),
            "nothing": pa.nulls(4),
            "half": pa.array([1.5, None, float("nan"), -0.0], pa.float16()),
            "large": pa.array(["x", None, "", "y"], pa.large_string()),
        }
    )
    table = table.select(table.column_names[group::3])
    stream = hr.StreamTable(table.schema, [lambda: batches_of(table.slice(0, 2)), lambda: batches_of(table.slice(2))])
    for provider in (hr.MemTable(table, partitions=2), stream):
        report = check_provider(provider, samples=1)
        assert report.ok, str(report)


@pytest.mark.daily
@pytest.mark.parametrize("seed", share([1, 2]))
@pytest.mark.parametrize(
    "provider", [bad.WrongExact, bad.ExactKeepsNulls, bad.InexactDropsRows, bad.LimitBeforeFilters]
)
def test_few_samples_with_any_seed_suffice_for_common_mistakes(provider: type[hr.TableProvider], seed: int) -> None:
    assert not check_provider(provider(), samples=1, seed=seed).ok


@pytest.mark.daily
def test_same_seed_gives_the_same_report() -> None:
    wrong = bad.with_some_columns(bad.WrongExact)
    first, second = (check_provider(wrong(), samples=1, seed=4) for _ in range(2))
    assert first == second
    assert first.findings != check_provider(wrong(), samples=1, seed=5).findings
