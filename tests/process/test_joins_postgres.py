"""Joins of two AdbcTables of a real PostgreSQL: one query, and the rows of Spark's own join, for every type of key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from session_settings import session_settings
from versions import skip_module_without

if TYPE_CHECKING:
    from postgres import Postgres

skip_module_without("join pushdown")
pytestmark = pytest.mark.timeout(600)  # the first one may have to install PostgreSQL

SETTING = "spark.sql.optimizer.datasourceV2JoinPushdown"
COLUMNS = """id int, n bigint, s text, c char(4), u uuid, y bytea, b boolean, f double precision, r real,
  d numeric(9, 2), day date, ts timestamp, tz timestamptz, i text COLLATE same"""
TWO = COLUMNS.replace("id int", "id bigint").replace("s text", 's text COLLATE "C"')
VALUES = """
  (1, 10, 'a', 'a', '00000000-0000-0000-0000-000000000001', '\\x00', true, 'NaN', 0.5, 1.50, '2024-01-01',
   '2024-01-01 01:00', '2024-01-01 01:00Z', 'x'),
  (2, 20, 'A', 'a ', '00000000-0000-0000-0000-000000000002', '\\xff', false, -0.0, 1e30, 2.25, '2024-01-02',
   '2024-01-01 02:00', '2024-01-01 02:00+01', 'X'),
  (3, 10, 'é', 'bb', NULL, '', true, 0.0, 'NaN', -1.00, '2024-01-01', NULL, '2024-01-01 01:00Z', 'é'),
  (NULL, NULL, NULL, NULL, '00000000-0000-0000-0000-000000000001', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
   NULL),
  (5, 3, 'a ', NULL, NULL, '\\x00', NULL, 'Infinity', 0.5, 1.50, NULL, '2024-01-01 01:00', NULL, 'x')"""
LONG = "n" * 63
KEYS = ["id", "n", "s", "c", "u", "y", "b", "f", "r", "d", "day", "ts", "tz", "i"]


@pytest.fixture
def tables(ctx: hr.SessionContext, postgres: Postgres) -> Iterator[None]:
    postgres.run(
        "DROP TABLE IF EXISTS one",
        "DROP TABLE IF EXISTS two",
        "CREATE COLLATION IF NOT EXISTS same (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        f"CREATE TABLE one ({COLUMNS})",
        f"INSERT INTO one VALUES {VALUES}",
        f"CREATE TABLE two ({TWO})",
        f"INSERT INTO two VALUES {VALUES}",
        "INSERT INTO two SELECT * FROM two WHERE id < 3",
    )
    for name in ("one", "two"):
        ctx.register_table(name, hr.AdbcTable("postgresql", postgres.uri, name, "id", partitions=2))
        whole = ctx.spark.createDataFrame(ctx.collect(f"SELECT * FROM {name}"), ctx.spark.table(name).schema)
        whole.createOrReplaceTempView(f"spark_{name}")
    yield
    for name in ("one", "two"):
        ctx.spark.catalog.dropTempView(f"spark_{name}")


def check(ctx: hr.SessionContext, query: str) -> str:
    """The rows are Spark's own, with and without adaptive execution; returns what explain says."""
    own = query.replace(" one ", " spark_one ").replace(" two ", " spark_two ")
    expected = sorted(map(repr, ctx.collect(own).to_pylist()))
    for adaptive in ("true", "false"):
        with session_settings(ctx.spark, {SETTING: "true", "spark.sql.adaptive.enabled": adaptive}):
            assert sorted(map(repr, ctx.collect(query).to_pylist())) == expected, query
            shown = ctx.explain(query)
    assert expected, query
    return shown


@pytest.mark.daily
@pytest.mark.usefixtures("tables")
def test_join_of_every_type_of_key_gives_sparks_rows_in_one_scan(ctx: hr.SessionContext) -> None:
    for key in KEYS:
        shown = check(ctx, f"SELECT a.id, a.{key} AS ka, b.{key} AS kb FROM one a JOIN two b ON a.{key} = b.{key}")
        assert "taken: one scan for both" in shown, key


@pytest.mark.daily
@pytest.mark.usefixtures("tables")
def test_join_outer_grouped_and_cut_gives_sparks_rows_in_one_query(ctx: hr.SessionContext, postgres: Postgres) -> None:
    grouped = {
        "SELECT b.s, count(*) AS n, sum(b.d) AS d, max(a.id) AS m, avg(a.n) AS v FROM one a LEFT JOIN two b "
        "ON a.n = b.n AND a.id <> b.id GROUP BY b.s": "COMPLETE",
        "SELECT a.day, count(DISTINCT b.c) AS n FROM one a RIGHT JOIN two b ON a.c = b.c WHERE b.f > 0 "
        "GROUP BY a.day": "COMPLETE",
        "SELECT a.id, b.id AS other FROM one a JOIN two b ON a.d = b.d ORDER BY a.id, b.id LIMIT 3": "EXACT",
        # an average of decimals is not left to the database, and must not become that of the other table's column
        "SELECT a.b, max(a.d) AS m, avg(b.d) AS v FROM one a JOIN two b ON a.n <> b.n GROUP BY a.b": "before the join",
        "SELECT a.b, avg(b.d) AS v FROM one a JOIN two b ON a.n <> b.n GROUP BY a.b": "COMPLETE",
    }
    for query, said in grouped.items():
        shown = check(ctx, query)
        assert "taken: one scan for both" in shown, query
        assert said in shown, shown
    with session_settings(ctx.spark, {SETTING: "true"}):
        assert postgres.password not in ctx.explain(query)
        elsewhere = hr.AdbcTable("postgresql", postgres.uri + "?application_name=other", "two")
        ctx.register_table("elsewhere", elsewhere)
        postgres.run("DROP TABLE IF EXISTS long", f"CREATE TABLE long (id int, {LONG} int)")
        ctx.register_table("long", hr.AdbcTable("postgresql", postgres.uri, "long"))
        both = ctx.explain(f"SELECT a.{LONG}, b.{LONG} FROM long a JOIN long b ON a.id = b.id")
        assert f"PostgreSQL would cut the name '{LONG}_1'" in both
        assert "different databases" in ctx.explain("SELECT a.id FROM one a JOIN elsewhere b ON a.id = b.id")
