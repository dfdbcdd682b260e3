"""AdbcTable on a real PostgreSQL: types, ranges, pushed SQL, credentials, errors, early stop, catalog."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import pickle
import re
import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import cloudpickle
import pyarrow as pa
import pytest

import headrace as hr
from adbc_scans import rows_of, whole
from headrace.tables.adbc.access import AdbcAccess
from headrace.testing import check_provider
from producing import wait_until

if TYPE_CHECKING:
    from postgres import Postgres

pytestmark = [pytest.mark.timeout(300), pytest.mark.daily]  # the first one may have to install PostgreSQL

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


def test_types_filters_on_every_column_keep_promises(postgres: Postgres) -> None:
    postgres.run(
        "DROP TABLE IF EXISTS awkward CASCADE",  # that of test_adbc_postgres_pushdown.py
        "CREATE TABLE awkward (n numeric(6, 2), c char(4))",
        "INSERT INTO awkward VALUES (1.5, 'b'), (NULL, 'B'), (-3, ''), (0, NULL), (0, 'ä')",
    )
    provider = hr.AdbcTable("postgresql", postgres.uri, "awkward", order_by=["c"])
    check_provider(provider, samples=1, planning_budget_s=60).raise_if_failed()


def test_numeric_nan_is_refused_by_name(postgres: Postgres) -> None:
    postgres.run("CREATE TABLE notanumber (n numeric(5, 2))", "INSERT INTO notanumber VALUES ('NaN')")
    table = hr.AdbcTable("postgresql", postgres.uri, "notanumber")
    with pytest.raises(hr.SchemaMismatchError, match="column 'n' holds the numeric value NaN"):
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
        "postgresql://127.0.0.1:{port}/postgres?user=postgres&password=hunter%20two",
        "host=127.0.0.1 port={port} user=postgres password='hunter two'",
    ],
)
def test_credentials_are_in_no_error(postgres: Postgres, uri: str) -> None:
    with pytest.raises(Exception, match="connect") as caught:
        hr.AdbcTable("postgresql", uri.format(port=postgres.port), "t").schema()
    assert "hunter" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_credentials_given_as_options_are_in_no_error() -> None:
    access = AdbcAccess("postgresql", "postgresql://h/db", (("adbc.token", "open sesame"), ("mode", "fast")))
    assert str(access.scrubbed(OSError("bad token open sesame, mode fast"))) == "bad token ***, mode fast"
    assert "sesame" not in repr(access)


def test_error_about_sql_is_readable_with_a_short_password(postgres: Postgres) -> None:
    postgres.run("DROP ROLE IF EXISTS brief", "CREATE ROLE brief LOGIN PASSWORD 'x'")
    access = AdbcAccess("postgresql", f"postgresql://brief:x@127.0.0.1:{postgres.port}/{postgres.database}")
    try:
        with pytest.raises(Exception, match=r'syntax error at or near "max"'), access.connected() as cursor:
            cursor.execute("max(x)")
    finally:
        postgres.run("DROP ROLE brief")


def test_errors_of_registration_say_what_is_wrong(ctx: hr.SessionContext, events: Postgres) -> None:
    with pytest.raises(Exception, match='relation "nowhere" does not exist'):
        ctx.register_table("x", hr.AdbcTable("postgresql", events.uri, "nowhere"))
    with pytest.raises(hr.RegistrationError, match="no column 'nope'"):
        ctx.register_table("x", hr.AdbcTable("postgresql", events.uri, "events", "nope"))
    with pytest.raises(hr.RegistrationError, match="'s' of events has type string"):
        ctx.register_table("x", hr.AdbcTable("postgresql", events.uri, "events", "s"))
    with pytest.raises(ImportError, match="no ADBC driver"):
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
    wait_until(lambda: postgres.rows(active)[0][0] == 1)
    stream.interrupt("test")
    assert ended.wait(60)
    wait_until(lambda: postgres.rows(active)[0][0] == 0)


# --- catalog ---------------------------------------------------------------------------------------------


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
