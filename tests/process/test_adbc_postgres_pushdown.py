"""What AdbcTable leaves to a real PostgreSQL: filters that its indexes serve, aggregates, orders, keys of a join."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest

import headrace as hr
from adbc_scans import whole
from headrace.testing import check_provider

if TYPE_CHECKING:
    from postgres import Postgres

pytestmark = [pytest.mark.timeout(300), pytest.mark.daily]  # the first one may have to install PostgreSQL

# --- indexes ---------------------------------------------------------------------------------------------

PEOPLE = """
DROP TABLE IF EXISTS people;
DROP COLLATION IF EXISTS any_case;
CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE people (id int, name text, code varchar(20), loose text COLLATE any_case, bytes text COLLATE "C",
  c char(12));
INSERT INTO people SELECT i, x, x, x, x, x FROM (SELECT i, (CASE WHEN i % 2 = 0 THEN 'Name' ELSE 'name' END) || i / 2
  FROM generate_series(1, 20000) i) AS names (i, x);
CREATE INDEX ON people (name);
CREATE INDEX ON people (code);
CREATE INDEX ON people (bytes);
CREATE INDEX people_by_bytes ON people (name COLLATE "C");
ANALYZE people
"""


@pytest.fixture(scope="module")
def people(postgres: Postgres) -> Postgres:
    postgres.run(*PEOPLE.split(";"))
    return postgres


def equal(name: str, *values: str) -> hr.Expr:
    literals = tuple(hr.Literal(value, pa.string()) for value in values)
    column = hr.Column(name)
    return hr.Comparison("=", column, literals[0]) if len(values) == 1 else hr.InList(column, literals)


def query_of(server: Postgres, *filters: hr.Expr) -> str:
    table = hr.AdbcTable("postgresql", server.uri, "people")
    plan: Any = table.scan(whole(table, filters=filters))
    (query,) = plan.queries
    return str(query)


def explained(server: Postgres, query: str) -> str:
    with psycopg.connect(server.uri) as connection:
        return "\n".join(line for (line,) in connection.execute(f"EXPLAIN {query}".encode()))


@pytest.mark.parametrize("column", ["name", "code", "bytes"])
@pytest.mark.parametrize("values", [("name77",), ("name77", "Name78", "nobody")], ids=["equal", "in"])
def test_index_of_a_deterministic_collation_serves_equality(
    people: Postgres, column: str, values: tuple[str, ...]
) -> None:
    query = query_of(people, equal(column, *values))
    assert "COLLATE" not in query
    plan = explained(people, query)
    assert f"people_{column}_idx" in plan, plan
    assert "Seq Scan" not in plan, plan


def test_index_by_bytes_serves_ranges_and_prefixes(people: Postgres) -> None:
    last = hr.Literal("name9998", pa.string())
    for expr in (hr.Comparison(">", hr.Column("name"), last), hr.StringMatch("STARTS_WITH", hr.Column("name"), last)):
        plan = explained(people, query_of(people, expr))
        assert "people_by_bytes" in plan, plan


def test_index_is_not_asked_where_the_collation_decides(people: Postgres) -> None:
    from_n = hr.Comparison(">", hr.Column("name"), hr.Literal("name99", pa.string()))
    starts = hr.StringMatch("STARTS_WITH", hr.Column("name"), hr.Literal("name99", pa.string()))
    columns = hr.Comparison("=", hr.Column("name"), hr.Column("loose"))
    for expr in (from_n, starts, columns, equal("loose", "name7"), equal("loose", "name7", "x"), equal("c", "name7")):
        assert 'COLLATE "C"' in query_of(people, expr), expr


@pytest.mark.parametrize(
    "condition",
    [
        "name = 'name77'",
        "name <=> 'Name77'",
        "name != 'name77' AND id < 200",
        "name IN ('name77', 'Name78', 'NAME79')",
        "loose = 'name77'",
        "loose IN ('name77', 'NAME78')",
        "name = loose AND id < 50",
        "code > 'name99'",
        "c = 'name77'",
    ],
)
def test_index_or_not_the_rows_are_those_spark_finds(ctx: hr.SessionContext, people: Postgres, condition: str) -> None:
    provider = hr.AdbcTable("postgresql", people.uri, "people")
    ctx.register_table("people", provider)
    rows = ctx.collect("SELECT * FROM people")
    ctx.spark.createDataFrame(rows).createOrReplaceTempView("plain_people")
    found, expected = (
        ctx.collect(f"SELECT id FROM {name} WHERE {condition} ORDER BY id") for name in ("people", "plain_people")
    )
    assert found.equals(expected)
    assert found.num_rows
    ctx.spark.catalog.dropTempView("plain_people")


def test_index_columns_of_either_collation_keep_promises(people: Postgres) -> None:
    people.run(
        "DROP TABLE IF EXISTS cased",
        "CREATE TABLE cased (a text, b text COLLATE any_case)",
        "INSERT INTO cased SELECT x, x FROM unnest(ARRAY['a', 'A', 'b', '', NULL, 'ä', 'Ä']) AS x",
    )
    provider = hr.AdbcTable("postgresql", people.uri, "cased")
    check_provider(provider, samples=2, planning_budget_s=5).raise_if_failed()


# --- aggregates, orders, runtime filters -----------------------------------------------------------------

AWKWARD = """
DROP TABLE IF EXISTS awkward;
CREATE COLLATION IF NOT EXISTS ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE awkward (k text, c text COLLATE ci, p char(4), i2 smallint, i4 int, i8 bigint, r real, x double precision,
  d numeric(8, 2), b boolean, day date, ts timestamp, tz timestamptz, y bytea, u uuid);
INSERT INTO awkward SELECT CASE WHEN i % 11 = 3 THEN NULL ELSE (ARRAY['a', 'B', 'b', 'é', 'Z', ''])[1 + i % 6] END,
  (ARRAY['x', 'X', 'y'])[1 + i % 3], (ARRAY['ab', 'ab ', 'c'])[1 + i % 3], nullif(i % 7, 3), nullif(i, 9),
  i::bigint << 40,
  i / 8.0, CASE WHEN i = 13 THEN 'NaN' WHEN i = 14 THEN '-0' ELSE i / 3.0 END, nullif(i, 5) / 4.0, i % 2 = 0,
  DATE '2024-01-01' + i % 5, TIMESTAMP '2024-01-01' + i * interval '1 minute',
  TIMESTAMPTZ '2024-01-01Z' + i * interval '1 s',
  decode(lpad(to_hex(i), 4, '0'), 'hex'), ('00000000-0000-0000-0000-0000000000' || lpad(to_hex(i), 2, '0'))::uuid
  FROM generate_series(1, 60) i;
ANALYZE awkward
"""
QUERIES = [
    "SELECT k, count(*), count(i4), min(k), max(k), sum(i4), avg(i4) FROM {t} GROUP BY k",
    "SELECT c, p, count(*), max(u) FROM {t} GROUP BY c, p",
    "SELECT DISTINCT k, b FROM {t}",
    "SELECT count(DISTINCT c), count(DISTINCT k), sum(DISTINCT i2), avg(DISTINCT i8) FROM {t}",
    "SELECT sum(i2), sum(i8), sum(d), min(d), max(d), min(x), max(x), sum(r), avg(r) FROM {t}",
    "SELECT k, avg(d), sum(d) FROM {t} GROUP BY k",
    "SELECT day, b, count(*), min(ts), max(tz), min(day) FROM {t} GROUP BY day, b HAVING count(*) > 3",
    "SELECT count(*), sum(i4), min(k), avg(x) FROM {t} WHERE i8 < 0",
    "SELECT k, sum(i4) AS s FROM {t} WHERE b GROUP BY k ORDER BY s DESC LIMIT 2",
]
TOPS = [
    "k, i8",
    "k DESC, i8 DESC",
    "k NULLS LAST, i8",
    "x DESC, i8",
    "c, i8",
    "p DESC, i8",
    "d NULLS LAST, i8",
    "u DESC",
]


@pytest.fixture(params=["true", "false"], ids=["adaptive", "not adaptive"])
def awkward(request: pytest.FixtureRequest, postgres: Postgres, ctx: hr.SessionContext) -> Any:
    """The table with all it can do, and as a table that Spark does everything with."""

    class Plain(hr.AdbcTable):
        def supports_aggregate_pushdown(self, aggregation: hr.Aggregation) -> hr.AggregatePushdown:
            return hr.AggregatePushdown.UNSUPPORTED

        def supports_top_n_pushdown(self, order: Any, limit: int) -> hr.Pushdown:
            return hr.Pushdown.UNSUPPORTED

    postgres.run(*AWKWARD.split(";"))
    ctx.register_table("awkward", hr.AdbcTable("postgresql", postgres.uri, "awkward", "i8", partitions=3))
    ctx.register_table("plain", Plain("postgresql", postgres.uri, "awkward"))
    before = ctx.spark.conf.get("spark.sql.adaptive.enabled")
    ctx.spark.conf.set("spark.sql.adaptive.enabled", request.param)
    yield ctx
    ctx.spark.conf.set("spark.sql.adaptive.enabled", before)


def test_aggregates_in_the_database_are_those_of_spark(awkward: hr.SessionContext) -> None:
    for query in QUERIES:
        found, expected = (awkward.collect(query.format(t=table)) for table in ("awkward", "plain"))
        assert found.schema == expected.schema
        rows = [sorted(map(str, map(_rounded, table.to_pylist()))) for table in (found, expected)]
        assert rows[0] == rows[1], query
        plan = awkward.explain(query.format(t="awkward"))
        assert "COMPLETE" in plan, plan


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Sums of doubles depend on the order in which they are added."""
    return {name: float(f"{value:.12g}") if isinstance(value, float) else value for name, value in row.items()}


def test_orders_in_the_database_are_those_of_spark(awkward: hr.SessionContext) -> None:
    for order in TOPS:
        for cut in ("LIMIT 7", "LIMIT 5 OFFSET 8"):
            query = f"SELECT k, i8, x, c FROM {{t}} ORDER BY {order} {cut}"
            found, expected = (awkward.collect(query.format(t=table)) for table in ("awkward", "plain"))
            assert str(found.to_pylist()) == str(expected.to_pylist()), query
    explained = awkward.explain("SELECT k FROM awkward ORDER BY k LIMIT 5 OFFSET 2")
    assert "EXACT" in explained


def test_join_sends_its_keys_to_the_database(awkward: hr.SessionContext, postgres: Postgres) -> None:
    planned: list[Any] = []

    class Dimension(hr.MemTable):
        def supports_filters_pushdown(self, filters: Any) -> Any:
            return [hr.Pushdown.UNSUPPORTED] * len(filters)

    class Recorded(hr.AdbcTable):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            planned.append(super().scan(request))
            return planned[-1]

    awkward.register_table("facts", Recorded("postgresql", postgres.uri, "awkward", "i8", partitions=3))
    awkward.register_table("names", Dimension(pa.table({"k": ["b", "é", "q"], "wanted": [1, 1, 0]})))
    query = "SELECT count(*) AS n, sum(i4) AS s FROM {t} JOIN names ON {t}.k = names.k WHERE names.wanted = 1"
    found, expected = (awkward.collect(query.format(t=table)).to_pylist() for table in ("facts", "plain"))
    assert found == expected
    assert all("IN ('" in sql for sql in planned[-1].queries), planned[-1].queries


def test_database_keeps_the_promises_of_aggregates_and_orders(postgres: Postgres) -> None:
    postgres.run(*AWKWARD.split(";"))
    columns = "c, x, d"
    postgres.run(
        "DROP VIEW IF EXISTS few", f"CREATE VIEW few AS SELECT {columns} FROM awkward WHERE i8 > 40::bigint << 40"
    )
    report = check_provider(hr.AdbcTable("postgresql", postgres.uri, "few"), samples=1, planning_budget_s=60)
    assert report.ok, str(report)
