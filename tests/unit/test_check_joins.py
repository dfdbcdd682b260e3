"""check_provider: joins that a provider takes over have the rows of the join; honest and lying ones, without Spark."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from checking import check_provider, errors
from headrace.provider import Join, JoiningProvider, JoinSide
from headrace.testing import Promise, Severity

SCHEMA = pa.schema([("id", pa.int64()), ("parent", pa.int64()), ("name", pa.string()), ("v", pa.float64())])
ROWS = [
    (1, None, "root", 0.0),
    (2, 1, "a", -0.0),
    (3, 1, "b", 1.5),
    (4, 2, "a", None),
    (None, 2, None, 2.5),
    (6, 99, "é", 1.5),
]


@pytest.fixture
def tree(tmp_path: Path) -> str:
    path = tmp_path / "tree.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE nodes (id INTEGER, parent INTEGER, name TEXT, v REAL)")
        connection.executemany("INSERT INTO nodes VALUES (?, ?, ?, ?)", ROWS)
        connection.commit()
    return str(path)


def test_database_table_that_joins_in_the_database_keeps_its_promise(tree: str) -> None:
    report = check_provider(hr.AdbcTable("sqlite", tree, "nodes"), samples=1)
    assert report.ok, str(report)
    assert report.outcome(Promise.JOINS) == "kept"
    assert not report.about(Promise.JOINS).findings


class Joining(JoiningProvider):
    """Joins in Python: every pair of rows is looked at. ``lie`` changes the rows of the join."""

    def __init__(self, lie: Callable[[Join, list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        self.lie = lie

    def schema(self) -> pa.Schema:
        return SCHEMA

    def supports_filters_pushdown(self, filters: Any) -> list[hr.FilterPushdown]:
        return [hr.FilterPushdown.EXACT for _ in filters]

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return Rows(rows_of(request.filters), SCHEMA)

    def joined(self, join: Join) -> hr.TableProvider | str:
        return Joined(join, self.lie)


class Joined(hr.TableProvider):
    def __init__(self, join: Join, lie: Callable[[Join, list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        self.join = join
        self.lie = lie

    def schema(self) -> pa.Schema:
        return self.join.schema

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return Rows(self.lie(self.join, pairs(self.join)), self.join.schema)


class Rows(hr.ExecutionPlan):
    def __init__(self, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
        self.rows = rows
        self.schema = schema

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist(self.rows, self.schema)


def rows_of(filters: tuple[hr.Expr, ...]) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in ROWS], SCHEMA)
    for expr in filters:
        batch = batch.filter(expr.evaluate(batch))
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def pairs(join: Join) -> list[dict[str, Any]]:
    nothing = dict.fromkeys(join.schema.names)
    sides = [
        [{new: row[old] for old, new in side.columns} for row in rows_of(side.filters)]
        for side in (join.left, join.right)
    ]
    found, matched = [], [set[int](), set[int]()]
    for i, left in enumerate(sides[0]):
        for j, right in enumerate(sides[1]):
            pair = {**left, **right}
            if join.condition.evaluate(pa.RecordBatch.from_pylist([pair], join.schema)).to_pylist() == [True]:
                found.append(pair)
                matched[0].add(i)
                matched[1].add(j)
    for how, rows, seen in zip(("left", "right"), sides, matched, strict=True):
        if join.how == how:
            found += [{**nothing, **row} for i, row in enumerate(rows) if i not in seen]
    return found


def honest(join: Join, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows


def forgets_rows_without_a_partner(join: Join, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return pairs(Join("inner", join.left, join.right, join.condition, join.schema))


def joins_nulls(join: Join, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As NULL = NULL would, in a comparison of programs."""
    names = [node.name for node in join.condition.walk() if isinstance(node, hr.Column)]
    return rows + [dict.fromkeys(join.schema.names)] * (join.how == "inner" and len(set(names)) == 2)


def forgets_filters(join: Join, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    sides = [JoinSide(side.table, (), side.columns) for side in (join.left, join.right)]
    return pairs(Join(join.how, sides[0], sides[1], join.condition, join.schema))


def uses_the_first_condition_only(join: Join, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    first = join.condition.left if isinstance(join.condition, hr.And) else join.condition
    return pairs(Join(join.how, join.left, join.right, first, join.schema))


def doubles_a_row(join: Join, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows + rows[:1]


def test_provider_that_joins_itself_keeps_its_promise() -> None:
    report = check_provider(Joining(honest), samples=1)
    assert report.ok, str(report)
    assert report.outcome(Promise.JOINS) == "kept"


LIES = {
    forgets_rows_without_a_partner: r"took the (left|right) join with itself on `.*` but \d+ rows? .* missing: \{",
    joins_nulls: r"took the inner join with itself on `.*` but 1 row is new: \{.*None",
    forgets_filters: r"on `.*` with `.*` (left|right) of it but .* new: \{",
    uses_the_first_condition_only: r"on `.* AND .*` .*but .* new: \{",
    doubles_a_row: r"took the inner join .* but 1 row is new",
}


@pytest.mark.daily("forgets_rows*", "joins_nulls")
@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_provider_that_joins_wrongly_is_caught(lie: Any) -> None:
    report = check_provider(Joining(lie), samples=1)
    assert report.outcome(Promise.JOINS) == "broken", str(report)
    assert {finding.promise for finding in errors(report)} == {Promise.JOINS}
    texts = [finding.message for finding in errors(report)]
    assert any(re.search(LIES[lie], text) for text in texts), str(report)


class Refusing(Joining):
    def joined(self, join: Join) -> hr.TableProvider | str:
        return "it is not open today"


def test_provider_that_refuses_all_joins_is_noted() -> None:
    report = check_provider(Refusing(honest), samples=1)
    assert report.ok
    (note,) = report.about(Promise.JOINS).findings
    assert note.severity is Severity.NOTE
    assert "no join of the table with itself was taken, so none was checked: it is not open today" in note.message


class ReturnsNothing(Joining):
    def joined(self, join: Join) -> Any:
        return None


def test_provider_whose_joined_returns_nothing_is_caught() -> None:
    report = check_provider(ReturnsNothing(honest), samples=1)
    (found, *_) = errors(report.about(Promise.JOINS))
    assert "ReturnsNothing.joined returned None" in found.message
