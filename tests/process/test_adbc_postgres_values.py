"""Values of a real PostgreSQL that Spark has no equal of, or treats otherwise: infinities, NaN, sums without room."""

from __future__ import annotations

import datetime as dt
import math
import traceback
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from adbc_scans import rows_of, whole

if TYPE_CHECKING:
    from postgres import Postgres

pytestmark = [pytest.mark.timeout(300), pytest.mark.daily]  # the first one may have to install PostgreSQL

FAR = """
DROP TABLE IF EXISTS far CASCADE;
CREATE TABLE far (i int, d date, ts timestamp, tz timestamptz, n numeric(10, 2), ds date[], tss timestamp[]);
INSERT INTO far VALUES (1, '2024-01-01', '2024-01-01', '2024-01-01Z', 1.5, '{2024-01-01}', '{2024-01-01}'),
  (2, '9999-12-31', '294247-01-01', '4714-11-24 00:00Z BC', -1.5, '{0044-03-15 BC,NULL}', '{NULL}'),
  (3, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO far (i, d) VALUES (10, 'infinity'), (11, '-infinity');
INSERT INTO far (i, ts) VALUES (12, 'infinity'), (13, '-infinity'), (14, '294276-12-31'), (15, '294247-01-11');
INSERT INTO far (i, tz) VALUES (16, 'infinity'), (17, '-infinity'), (18, '294276-12-31Z');
INSERT INTO far (i, n) VALUES (19, 'NaN');
INSERT INTO far (i, ds) VALUES (20, '{2024-01-01,infinity}'), (21, '{-infinity}');
INSERT INTO far (i, tss) VALUES (22, '{NULL,infinity}')
"""
REFUSED = {"d": [10, 11], "ts": [12, 13, 14, 15], "tz": [16, 17, 18], "n": [19], "ds": [20, 21], "tss": [22]}


@pytest.fixture(scope="module")
def far(postgres: Postgres) -> Postgres:
    postgres.run(*FAR.split(";"))
    return postgres


@pytest.fixture
def both(far: Postgres, ctx: hr.SessionContext) -> hr.SessionContext:
    """The table ``far``, whose odd values are errors, and ``near``, where they are null."""
    ctx.register_table("far", hr.AdbcTable("postgresql", far.uri, "far", "d", partitions=3))
    near = hr.AdbcTable("postgresql", far.uri, "far", "d", partitions=3, out_of_range_as_null=True)
    ctx.register_table("near", near)
    return ctx


def test_value_out_of_range_is_refused_by_its_column(both: hr.SessionContext) -> None:
    for column, rows in REFUSED.items():
        for row in rows:
            with pytest.raises(hr.SchemaMismatchError, match=f"column '{column}' holds .*out_of_range_as_null=True"):
                both.collect(f"SELECT {column} FROM far WHERE i = {row}")
    for column in REFUSED:
        assert both.collect(f"SELECT {column} FROM far WHERE i < 10").num_rows == 3


def test_value_out_of_range_can_be_queried_around(both: hr.SessionContext) -> None:
    query = "SELECT d FROM far WHERE d BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
    assert both.collect(query)["d"].to_pylist() == [dt.date(2024, 1, 1), dt.date(9999, 12, 31)]
    assert both.collect("SELECT n FROM far WHERE n BETWEEN -99999999.99 AND 99999999.99").num_rows == 2
    assert both.collect("SELECT i, ts FROM far WHERE i < 10 AND ts IS NOT NULL").num_rows == 2


def test_value_out_of_range_is_null_to_the_whole_query_if_asked_for(both: hr.SessionContext) -> None:
    expected = {"d": 2, "ts": 2, "tz": 2, "n": 2}
    for column, found in expected.items():
        assert both.collect(f"SELECT {column} FROM near")[column].null_count == 16 - found
        assert both.collect(f"SELECT count({column}) AS n FROM near").to_pylist() == [{"n": found}]
        assert both.collect(f"SELECT i FROM near WHERE {column} IS NULL").num_rows == 16 - found
        top = both.collect(f"SELECT i FROM near ORDER BY {column} DESC NULLS LAST, i LIMIT 1").to_pylist()
        assert top == [{"i": {"d": 2, "ts": 2}.get(column, 1)}]
    later = "SELECT i FROM near WHERE d > DATE '2024-06-01'"
    assert both.collect(later).to_pylist() == [{"i": 2}]
    ends = both.collect("SELECT min(d) AS a, max(d) AS b, max(n) AS c, sum(n) AS s FROM near").to_pylist()
    assert ends == [{"a": dt.date(2024, 1, 1), "b": dt.date(9999, 12, 31), "c": Decimal("1.50"), "s": Decimal("0.00")}]
    assert both.collect("SELECT d, count(*) AS n FROM near GROUP BY d").num_rows == 3
    assert both.collect("SELECT ds FROM near WHERE i = 20").to_pylist() == [{"ds": [dt.date(2024, 1, 1), None]}]
    assert both.collect("SELECT tss FROM near WHERE i = 22").to_pylist() == [{"tss": [None, None]}]
    assert "EXACT" in both.explain(later)


@pytest.mark.parametrize("query", ["max(d)", "min(d)", "max(ts)", "min(ts)", "max(tz)", "sum(n)", "max(n)"])
def test_extreme_out_of_range_is_refused(both: hr.SessionContext, query: str) -> None:
    with pytest.raises(hr.SchemaMismatchError, match="Spark has no equal of it"):
        both.collect(f"SELECT {query} FROM far")


@pytest.mark.parametrize("column", ["d", "ts", "tz"])
@pytest.mark.parametrize("null", [False, True], ids=["refused", "null"])
def test_ranges_over_infinities_read_each_row_once(far: Postgres, column: str, null: bool) -> None:
    far.run(
        "DROP TABLE IF EXISTS spread",
        "CREATE TABLE spread AS SELECT i, DATE '2024-01-01' + i AS d, TIMESTAMP '2024-01-01' + i * interval '1 day' AS "
        "ts, TIMESTAMPTZ '2024-01-01Z' + i * interval '1 day' AS tz FROM generate_series(1, 90) i",
        "INSERT INTO spread VALUES (91, 'infinity', 'infinity', 'infinity'), (92, '-infinity', '-infinity', "
        "'-infinity'), (93, NULL, NULL, NULL), (94, '0044-03-15 BC', '0044-03-15 BC', '0044-03-15 00:00Z BC'), "
        "(95, '20000-01-01', '20000-01-01', '20000-01-01Z')",
    )
    table = hr.AdbcTable("postgresql", far.uri, "spread", column, partitions=3, out_of_range_as_null=null)
    schema = table.schema()
    request = hr.ScanRequest(schema.empty_table().select(["i"]).schema, ("i",))
    plan: Any = table.scan(request)
    assert plan.partitioning == hr.UnknownPartitioning(3)
    assert sorted(row["i"] for row in rows_of(plan)) == list(range(1, 96))
    sizes = [sum(batch.num_rows for batch in plan.execute(partition)) for partition in range(3)]
    assert min(sizes) >= 30


def test_join_on_infinities_agrees_with_the_option(both: hr.SessionContext, far: Postgres) -> None:
    far.run("DROP TABLE IF EXISTS ends", "CREATE TABLE ends (e date)", "INSERT INTO ends VALUES ('infinity')")
    both.register_table("ends", hr.AdbcTable("postgresql", far.uri, "ends", out_of_range_as_null=True))
    both.spark.conf.set("spark.sql.optimizer.datasourceV2JoinPushdown", "true")
    try:
        assert both.collect("SELECT i FROM near JOIN ends ON d = e").num_rows == 0
    finally:
        both.spark.conf.unset("spark.sql.optimizer.datasourceV2JoinPushdown")


def test_option_is_refused_where_nothing_is_infinite() -> None:
    with pytest.raises(ValueError, match="out_of_range_as_null is for postgresql and duckdb, not 'sqlite'"):
        hr.AdbcTable("sqlite", "x.db", "t", out_of_range_as_null=True)


def test_catalog_hands_the_option_on(far: Postgres) -> None:
    table: Any = hr.AdbcCatalog("postgresql", far.uri, out_of_range_as_null=True).table("public", "far")
    assert sum(batch.num_rows for batch in table.scan(whole(table)).execute(0)) == 16


# --- sums, arrays, composites ----------------------------------------------------------------------------

LARGE = """
DROP TABLE IF EXISTS large;
CREATE TABLE large (g int, x double precision, r real);
INSERT INTO large VALUES (1, 1e308, 3e38), (1, 1e308, 3e38), (2, -1e308, -3e38), (2, -1e308, 1), (3, 1e308, 1),
  (3, 1, 2), (3, -1e308, NULL), (4, 'Infinity', 'Infinity'), (4, 1e308, 1), (4, 1e308, 1), (5, 'NaN', 'NaN'),
  (5, 1e308, 1), (5, 1e308, 1),
  (6, 'Infinity', 1), (6, '-Infinity', 1), (7, NULL, NULL), (8, 0.1, 0.1), (8, 0.2, 0.2), (8, NULL, 0.3),
  (9, 5e-324, 1e-45), (9, 0, 0), (9, 0, 0), (10, 1e300, 1), (10, 1e300, 1), (11, 1.7e308, 1), (11, 1e307, 1)
"""


def test_sum_of_doubles_without_room_is_infinite_as_in_spark(ctx: hr.SessionContext, postgres: Postgres) -> None:
    postgres.run(*LARGE.split(";"))
    ctx.register_table("large", hr.AdbcTable("postgresql", postgres.uri, "large"))
    ctx.register_table("plain", hr.MemTable(ctx.collect("SELECT * FROM large")))
    query = "SELECT g, sum(x) AS s, avg(x) AS a, sum(r) AS t, avg(r) AS b, count(x) AS n FROM {} GROUP BY g ORDER BY g"
    found, expected = (ctx.collect(query.format(name)).to_pylist() for name in ("large", "plain"))
    assert "COMPLETE" in ctx.explain(query.format("large"))
    by_group = {row["g"]: row["s"] for row in found}
    assert by_group[1] == by_group[11] == math.inf
    assert by_group[2] == -math.inf
    for one, other in zip(found, expected, strict=True):
        for name in one:
            if one["g"] != 3:  # 1e308 + 1 - 1e308 depends on the order
                assert str(one[name]) == str(other[name]), (one, other)
    total = "SELECT sum(x) AS s, sum(r) AS r, avg(x) AS a FROM {} WHERE g IN (1, 2, 8)"
    assert [ctx.collect(total.format("large")).to_pylist()[0]["r"]] == pytest.approx(
        [ctx.collect(total.format("plain")).to_pylist()[0]["r"]]
    )


def test_array_of_several_dimensions_is_refused_not_flattened(ctx: hr.SessionContext, postgres: Postgres) -> None:
    postgres.run(
        "DROP TABLE IF EXISTS grids",
        "CREATE TABLE grids (i int, a int[], t text[])",
        "INSERT INTO grids VALUES (1, '{1,NULL}', '{}'), (2, '{{1,2},{3,4}}', NULL), (3, NULL, '{{a},{b}}')",
    )
    ctx.register_table("grids", hr.AdbcTable("postgresql", postgres.uri, "grids"))
    assert ctx.collect("SELECT a, t FROM grids WHERE i = 1").to_pylist() == [{"a": [1, None], "t": []}]
    for row, column in ((2, "a"), (3, "t")):
        with pytest.raises(hr.ProviderError, match=f"column {column} has an array of several dimensions"):
            ctx.collect(f"SELECT {column} FROM grids WHERE i = {row}")


def test_composite_with_nulls_in_it_is_no_null(ctx: hr.SessionContext, postgres: Postgres) -> None:
    """To PostgreSQL a row of nulls IS NULL, and a row with one null neither IS NULL nor IS NOT NULL."""
    postgres.run(
        "DROP TABLE IF EXISTS composites",
        "DROP TYPE IF EXISTS two",
        "CREATE TYPE two AS (x int, y text)",
        "CREATE TABLE composites (i int, p two)",
        "INSERT INTO composites VALUES (1, (1, 'a')), (2, (1, NULL)), (3, (NULL, NULL)), (4, NULL)",
    )
    ctx.register_table("composites", hr.AdbcTable("postgresql", postgres.uri, "composites"))
    for condition, expected in [("IS NULL", [4]), ("IS NOT NULL", [1, 2, 3]), ("= '(1,)'", [2]), ("<=> '(,)'", [3])]:
        found = ctx.collect(f"SELECT i FROM composites WHERE p {condition} ORDER BY i")["i"].to_pylist()
        assert found == expected, condition
    assert ctx.collect("SELECT count(p) AS n FROM composites").to_pylist() == [{"n": 3}]


# --- credentials where tasks run -------------------------------------------------------------------------


def test_credentials_that_have_become_wrong_are_in_no_error_of_a_query(
    ctx: hr.SessionContext, postgres: Postgres
) -> None:
    secret = "Hunter%40zwei"
    postgres.run("DROP TABLE IF EXISTS shown", "CREATE TABLE shown AS SELECT 1 AS n")
    postgres.run("DROP ROLE IF EXISTS reader")
    postgres.run("CREATE ROLE reader LOGIN PASSWORD 'Hunter@zwei'", "GRANT SELECT ON shown TO reader")
    uri = f"postgresql://reader:{secret}@127.0.0.1:{postgres.port}/{postgres.database}"
    try:
        ctx.register_table("shown", hr.AdbcTable("postgresql", uri, "shown"))
        assert ctx.collect("SELECT n FROM shown").num_rows == 1
        postgres.run("ALTER ROLE reader PASSWORD 'another'")
        with pytest.raises(Exception, match="authentication failed") as caught:
            ctx.collect("SELECT n FROM shown")
        text = "".join(traceback.format_exception(caught.value)) + ctx.explain("SELECT n FROM shown")
        assert not [piece for piece in ("Hunter", "zwei") if piece in text.replace('secret = "Hunter%40zwei"', "")]
    finally:
        postgres.run("REVOKE ALL ON shown FROM reader", "DROP ROLE reader")
