"""AdbcTable on a real PostgreSQL: types, ranges, pushed SQL, credentials, early stop."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import pickle
import re
import threading
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import cloudpickle
import psycopg
import pyarrow as pa
import pytest

import headrace as hr
from headrace.tables.adbc.access import AdbcAccess
from headrace.testing import check_provider

if TYPE_CHECKING:
    from postgres import Postgres

pytestmark = pytest.mark.timeout(300)  # the first one may have to install PostgreSQL

EVENTS = """
DROP TABLE IF EXISTS events;
CREATE TABLE events (id int, day date, at timestamptz, v double precision, s text);
INSERT INTO events SELECT nullif(i, 7), DATE '2024-01-01' + i, TIMESTAMPTZ '2024-01-01 00:00Z' + i * interval '1 hour',
  i / 4.0, CASE WHEN i % 10 = 0 THEN NULL ELSE 'n' || i % 3 END FROM generate_series(1, 400) i;
ANALYZE events
"""


@pytest.fixture(scope="module")
def events(postgres: Postgres) -> Postgres:
    postgres.run(*EVENTS.split(";"))
    return postgres


def whole(table: hr.AdbcTable, **request: Any) -> hr.ScanRequest:
    schema = table.schema()
    return hr.ScanRequest(schema, tuple(schema.names), **request)


def rows_of(plan: hr.ExecutionPlan) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for partition in range(plan.partitioning.n):
        stream: Any = plan.execute(partition)
        try:
            for batch in stream:
                assert batch.schema.equals(plan.schema)
                rows += batch.to_pylist()
        finally:
            stream.close()
    return rows


# --- types -----------------------------------------------------------------------------------------------

TYPES: dict[str, tuple[str, str, pa.DataType, Any]] = {
    "i2": ("smallint", "-5", pa.int16(), -5),
    "i4": ("int", "5", pa.int32(), 5),
    "i8": ("bigint", "9223372036854775807", pa.int64(), 2**63 - 1),
    "r": ("real", "1.5", pa.float32(), 1.5),
    "d": ("double precision", "'NaN'", pa.float64(), float("nan")),
    "n": ("numeric(10, 2)", "-1.5", pa.decimal128(10, 2), Decimal("-1.50")),
    "n38": ("numeric(38, 38)", "0.1", pa.decimal128(38, 38), Decimal("0.1")),
    "free": ("numeric", "2.50", pa.string(), "2.50"),
    "huge": ("numeric(60, 2)", "1", pa.string(), "1.00"),
    "t": ("text", "'é'", pa.string(), "é"),
    "vc": ("varchar(5)", "'ab'", pa.string(), "ab"),
    "c": ("char(5)", "'ab'", pa.string(), "ab"),
    "y": ("bytea", "'\\x00ff'", pa.binary(), b"\x00\xff"),
    "b": ("boolean", "true", pa.bool_(), True),
    "day": ("date", "'0001-01-01'", pa.date32(), dt.date(1, 1, 1)),
    "ts": ("timestamp", "'2024-02-29 01:02:03.000004'", pa.timestamp("us"), dt.datetime(2024, 2, 29, 1, 2, 3, 4)),
    "tz": ("timestamptz", "'1970-01-01 01:00+01'", pa.timestamp("us", tz="UTC"), dt.datetime.fromtimestamp(0, dt.UTC)),
    "time": ("time", "'01:02:03'", pa.string(), "01:02:03"),
    "iv": ("interval", "'1 day'", pa.string(), "1 day"),
    "u": ("uuid", "'00000000-0000-0000-0000-0000000000ff'", pa.string(), "00000000-0000-0000-0000-0000000000ff"),
    "j": ("jsonb", "'{\"a\": 1}'", pa.string(), '{"a": 1}'),
    "e": ("mood", "'ok'", pa.string(), "ok"),
    "ip": ("inet", "'10.0.0.1'", pa.string(), "10.0.0.1/32"),
    "o": ("oid", "4294967295", pa.int64(), 2**32 - 1),
    "a": ("int[]", "'{1,NULL}'", pa.list_(pa.int32()), [1, None]),
    "p": ("pair", "(1, 'x')", pa.string(), "(1,x)"),
}  # fmt: skip


def test_types_each_arrive_as_declared(ctx: hr.SessionContext, postgres: Postgres) -> None:
    columns = ", ".join(f"{name} {type_}" for name, (type_, *_) in TYPES.items())
    values = ", ".join(value for _, value, _, _ in TYPES.values())
    postgres.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TYPE pair AS (x int, y text)",
        f"CREATE TABLE types ({columns})",
        f"INSERT INTO types VALUES ({values})",
        "INSERT INTO types DEFAULT VALUES",
    )
    table = hr.AdbcTable("adbc_driver_postgresql", postgres.uri, ("public", "types"))
    schema = table.schema()
    for field in schema:
        wanted = TYPES[field.name][2]
        same = pa.types.is_list(field.type) if pa.types.is_list(wanted) else field.type == wanted
        assert same, field
    ctx.register_table("types", table)
    found = ctx.collect("SELECT * FROM types ORDER BY i4 NULLS LAST").to_pylist()
    assert set(found[1].values()) == {None}
    expected = {name: value for name, (*_, value) in TYPES.items()}
    assert math.isnan(found[0].pop("d"))
    assert math.isnan(expected.pop("d"))
    assert found[0] == expected


@pytest.mark.daily
def test_types_filters_on_every_column_keep_promises(postgres: Postgres) -> None:
    postgres.run(
        "CREATE TABLE awkward (n numeric(6, 2), c char(4))",
        "INSERT INTO awkward VALUES (1.5, 'b'), (NULL, 'B'), (-3, ''), (0, NULL), (0, 'ä')",
    )
    provider = hr.AdbcTable("postgresql", postgres.uri, "awkward", order_by=["c"])
    check_provider(provider, samples=1, planning_budget_s=60).raise_if_failed()


def test_numeric_nan_is_refused_by_name(postgres: Postgres) -> None:
    postgres.run("CREATE TABLE notanumber (n numeric(5, 2))", "INSERT INTO notanumber VALUES ('NaN')")
    table = hr.AdbcTable("postgresql", postgres.uri, "notanumber")
    with pytest.raises(hr.SchemaMismatchError, match=r"column 'n'.*'nan'"):
        rows_of(table.scan(whole(table)))


# --- ranges ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["id", "day", "at"])
def test_ranges_rows_added_outside_later_are_all_read_once(events: Postgres, column: str) -> None:
    table = hr.AdbcTable("postgresql", events.uri, "events", column, partitions=3)
    plan = table.scan(whole(table))
    assert plan.partitioning == hr.UnknownPartitioning(3)
    before = rows_of(plan)
    assert len(before) == 400
    sizes = [sum(batch.num_rows for batch in plan.execute(partition)) for partition in range(3)]
    assert min(sizes) > 100
    try:
        events.run(
            "INSERT INTO events VALUES (-1000, '1900-01-01', '1900-01-01', 0, 'low'), "
            "(1000000, '2999-01-01', '2999-01-01', 0, 'high'), (NULL, NULL, NULL, 0, 'none')"
        )
        after = [row["s"] for row in rows_of(plan)]
        assert len(after) == 403
        assert [after.count(name) for name in ("low", "high", "none")] == [1, 1, 1]
    finally:
        events.run("DELETE FROM events WHERE s IN ('low', 'high', 'none')")


@pytest.mark.parametrize("condition", ["false", "id IS NULL", "id = 5"])
def test_ranges_without_a_span_are_one_partition(events: Postgres, condition: str) -> None:
    events.run("DROP VIEW IF EXISTS narrow", f"CREATE VIEW narrow AS SELECT * FROM events WHERE {condition}")
    table = hr.AdbcTable("postgresql", events.uri, "narrow", "id")
    plan = table.scan(whole(table))
    assert plan.partitioning.n == 1
    assert len(rows_of(plan)) == events.rows("SELECT count(*) FROM narrow")[0][0]


def test_ranges_that_a_filter_rules_out_are_not_asked(events: Postgres) -> None:
    table = hr.AdbcTable("postgresql", events.uri, "events", "id")
    equal = hr.Comparison("=", hr.Column("id"), hr.Literal(150, pa.int32()))
    plan = table.scan(whole(table, filters=(equal,)))
    assert plan.describe() == "postgresql events, 1 of 4 ranges of id"
    assert [row["id"] for row in rows_of(plan)] == [150]
    nulls = table.scan(whole(table, filters=(hr.IsNull(hr.Column("id")),)))
    assert nulls.partitioning.n == 1
    assert len(rows_of(nulls)) == 1


# --- queries ---------------------------------------------------------------------------------------------


def test_query_columns_filters_and_limit_reach_the_database(ctx: hr.SessionContext, events: Postgres) -> None:
    ctx.register_table("events", hr.AdbcTable("postgresql", events.uri, "public.events", "id"))
    filtered = ctx.sql("SELECT v FROM events WHERE s < 'n2' AND at < TIMESTAMP '2024-01-03' AND upper(s) = 'N1'")
    text = ctx.explain(filtered).lower()
    assert re.search(r"s < 'n2'.*exact", text), text
    assert re.search(r"upper.*unsupported", text), text
    assert ctx.collect(filtered).num_rows == len(
        events.rows("SELECT 1 FROM events WHERE s = 'n1' AND at < timestamptz '2024-01-03 00:00Z'")
    )
    assert ctx.collect("SELECT count(*) AS n FROM events").to_pylist() == [{"n": 400}]
    assert ctx.collect("SELECT id FROM events WHERE v >= 1 LIMIT 3").num_rows == 3


def test_query_text_selects_only_what_is_needed(events: Postgres) -> None:
    table = hr.AdbcTable("postgresql", events.uri, "events")
    schema = table.schema()
    above = hr.Comparison(">", hr.Column("v"), hr.Literal(1.0, pa.float64()))
    plan: Any = table.scan(hr.ScanRequest(pa.schema([schema.field("s")]), ("s",), (above,), 7))
    assert plan.queries == (
        """SELECT "s" AS "s" FROM "events" WHERE ("v" > CAST('1.0' AS DOUBLE PRECISION)) LIMIT 7""",
    )
    counted = table.scan(hr.ScanRequest(pa.schema([]), (), (above,), 7))
    assert sum(batch.num_rows for batch in counted.execute(0)) == 7
    assert table.statistics() == hr.Statistics(num_rows=400)


def test_query_order_by_sorts_each_partition_as_spark_does(ctx: hr.SessionContext, events: Postgres) -> None:
    events.run("DROP TABLE IF EXISTS words", "CREATE TABLE words (id int, w text)")
    events.run("INSERT INTO words VALUES (1, 'b'), (2, 'B'), (3, NULL), (4, 'ä'), (5, 'a'), (6, 'Z')")
    keys = [hr.SortKey("w", descending=True, nulls_first=False)]
    ctx.register_table("words", hr.AdbcTable("postgresql", events.uri, "words", order_by=keys))
    found = ctx.collect("SELECT w FROM words")["w"].to_pylist()
    assert found == ["ä", "b", "a", "Z", "B", None]
    assert "w DESC NULLS LAST" in ctx.explain("SELECT w FROM words")
    assert ctx.collect("SELECT id FROM words").num_rows == 6


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


@pytest.mark.daily(every=4)
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


@pytest.mark.daily
def test_index_columns_of_either_collation_keep_promises(people: Postgres) -> None:
    people.run(
        "DROP TABLE IF EXISTS cased",
        "CREATE TABLE cased (a text, b text COLLATE any_case)",
        "INSERT INTO cased SELECT x, x FROM unnest(ARRAY['a', 'A', 'b', '', NULL, 'ä', 'Ä']) AS x",
    )
    provider = hr.AdbcTable("postgresql", people.uri, "cased")
    check_provider(provider, samples=2, planning_budget_s=5).raise_if_failed()


def test_query_plan_pickles_without_a_connection(events: Postgres) -> None:
    table = hr.AdbcTable("postgresql", events.uri, "events", "id", partitions=2)
    plan = pickle.loads(cloudpickle.dumps(table.scan(whole(table))))
    assert len(rows_of(plan)) == 400


@pytest.mark.parametrize(
    "text", ['"', "'", "\\", "\\'; DROP TABLE victim; --", '"; DROP TABLE victim; --', "$1", "%s", "a b"]
)
def test_query_hostile_names_and_literals_stay_data(postgres: Postgres, text: str) -> None:
    name = '"' + text.replace('"', '""') + '"'
    literal = "'" + text.replace("'", "''") + "'"
    postgres.run(
        "CREATE TABLE IF NOT EXISTS victim (x int)",
        f"DROP SCHEMA IF EXISTS {name} CASCADE",
        f"CREATE SCHEMA {name}",
        f"CREATE TABLE {name}.{name} ({name} text)",
        f"INSERT INTO {name}.{name} VALUES ({literal}), ('other')",
        "ALTER ROLE postgres SET standard_conforming_strings = off",
    )
    try:
        table = hr.AdbcTable("postgresql", postgres.uri, (text, text), order_by=[text])
        expr = hr.Comparison("=", hr.Column(text), hr.Literal(text, pa.string()))
        request = whole(table, filters=(expr,))
        assert table.supports_filters_pushdown([expr]) == [hr.FilterPushdown.EXACT]
        assert rows_of(table.scan(request)) == [{text: text}]
        assert postgres.rows("SELECT count(*) FROM victim") == [(0,)]
    finally:
        postgres.run("ALTER ROLE postgres RESET standard_conforming_strings")


# --- errors ----------------------------------------------------------------------------------------------


def test_credentials_are_in_no_text(ctx: hr.SessionContext, events: Postgres) -> None:
    table = hr.AdbcTable("postgresql", events.uri, "events", db_kwargs={})
    ctx.register_table("secret", table)
    frame = ctx.sql("SELECT * FROM secret")
    plan = table.scan(whole(table))
    texts = [ctx.explain(frame), repr(table), repr(plan), repr(vars(plan)), repr(vars(table)), plan.describe()]
    texts.append(ctx.spark._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "extended"))
    assert not [text for text in texts if events.password in text or "127.0.0.1" in text]


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://postgres:hunter%20two@127.0.0.1:{port}/postgres",
        "postgresql://postgres:hunter two@127.0.0.1:{port}/postgres",
        "postgresql://postgres:hunter@two@127.0.0.1:{port}/hunter",
        "postgresql://127.0.0.1:{port}/postgres?user=postgres&password=hunter&hunter=1",
        "host=127.0.0.1 port={port} user=postgres password='hunter two' hunter=3",
        "host=127.0.0.1 port={port} password=hunter user=hunter",
    ],
)
def test_credentials_are_in_no_error(postgres: Postgres, uri: str) -> None:
    with pytest.raises(Exception, match="connect") as caught:
        hr.AdbcTable("postgresql", uri.format(port=postgres.port), "t").schema()
    assert "hunter" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_credentials_given_as_options_are_in_no_error() -> None:
    access = AdbcAccess("postgresql", "postgresql://h/db", (("adbc.token", "sesame"), ("mode", "fast")))
    assert str(access.scrubbed(OSError("bad token sesame, mode fast"))) == "bad token ***, mode fast"
    assert "sesame" not in repr(access)


def test_errors_of_registration_say_what_is_wrong(ctx: hr.SessionContext, events: Postgres) -> None:
    with pytest.raises(Exception, match='relation "nowhere" does not exist'):
        ctx.register_table("x", hr.AdbcTable("postgresql", events.uri, "nowhere"))
    with pytest.raises(hr.RegistrationError, match="no column 'nope'"):
        ctx.register_table("x", hr.AdbcTable("postgresql", events.uri, "events", "nope"))
    with pytest.raises(hr.RegistrationError, match="'s' of events has type string"):
        ctx.register_table("x", hr.AdbcTable("postgresql", events.uri, "events", "s"))
    with pytest.raises(ImportError, match="pip install adbc-driver-nosuch"):
        ctx.register_table("x", hr.AdbcTable("nosuch", "", "events"))
    assert not ctx.table_exists("x")


def test_errors_of_a_query_name_the_database_error(ctx: hr.SessionContext, events: Postgres) -> None:
    events.run("CREATE OR REPLACE VIEW failing AS SELECT id, 1 / (id - 200) AS q FROM events WHERE id IS NOT NULL")
    ctx.register_table("failing", hr.AdbcTable("postgresql", events.uri, "failing"))
    with pytest.raises(hr.ProviderError, match="division by zero") as caught:
        ctx.collect("SELECT q FROM failing")
    assert events.password not in str(caught.value)


@pytest.mark.parametrize("rows", [0, 1_000_000])
def test_early_stop_cancels_the_query(postgres: Postgres, rows: int) -> None:
    """Where the server has sent nothing yet, and where it is in the middle of sending."""
    name = f"slow_{rows}"
    slow = f"SELECT i FROM generate_series(1, {rows}) i UNION ALL SELECT 1 FROM pg_sleep(100)"
    postgres.run(f"DROP VIEW IF EXISTS {name}", f"CREATE VIEW {name} AS {slow}")
    table = hr.AdbcTable("postgresql", postgres.uri, name)
    stream: Any = table.scan(whole(table)).execute(0)
    active = f"SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY%{name}%' AND pid <> pg_backend_pid() "
    active += "AND state = 'active'"
    ended = threading.Event()

    def read() -> None:
        with contextlib.suppress(OSError, hr.ScanEndedError):
            for _ in stream:
                pass
        stream.close()
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    _await(lambda: postgres.rows(active)[0][0] == 1)
    stream.interrupt("test")
    assert ended.wait(60)
    _await(lambda: postgres.rows(active)[0][0] == 0)


def _await(condition: Any, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.02)


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


@pytest.mark.daily
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


@pytest.mark.daily
def test_orders_in_the_database_are_those_of_spark(awkward: hr.SessionContext) -> None:
    for order in TOPS:
        for cut in ("LIMIT 7", "LIMIT 5 OFFSET 8"):
            query = f"SELECT k, i8, x, c FROM {{t}} ORDER BY {order} {cut}"
            found, expected = (awkward.collect(query.format(t=table)) for table in ("awkward", "plain"))
            assert str(found.to_pylist()) == str(expected.to_pylist()), query
    explained = awkward.explain("SELECT k FROM awkward ORDER BY k LIMIT 5 OFFSET 2")
    assert "EXACT" in explained


@pytest.mark.daily("adaptive")
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


@pytest.mark.daily
def test_database_keeps_the_promises_of_aggregates_and_orders(postgres: Postgres) -> None:
    postgres.run(*AWKWARD.split(";"))
    columns = "c, x, d"
    postgres.run(
        "DROP VIEW IF EXISTS few", f"CREATE VIEW few AS SELECT {columns} FROM awkward WHERE i8 > 40::bigint << 40"
    )
    report = check_provider(hr.AdbcTable("postgresql", postgres.uri, "few"), samples=1, planning_budget_s=60)
    assert report.ok, str(report)


def test_adbc_catalog_has_the_schemas_and_tables_of_one_database(postgres: Postgres) -> None:
    postgres.run(
        "DROP SCHEMA IF EXISTS \"Odd 'one'\" CASCADE",
        "CREATE SCHEMA \"Odd 'one'\"",
        'CREATE TABLE "Odd \'one\'"."a.b" (n int)',
        "DROP DATABASE IF EXISTS another",
        "CREATE DATABASE another",
    )
    catalog = hr.AdbcCatalog("postgresql", postgres.uri)
    assert {"public", "Odd 'one'"} <= set(catalog.schema_names())
    assert list(catalog.table_names("Odd 'one'")) == ["a.b"]
    table = catalog.table("Odd 'one'", "a.b")
    assert table is not None
    assert table.schema().names == ["n"]
    assert catalog.table("public", "a.b") is None
