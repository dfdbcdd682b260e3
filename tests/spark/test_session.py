"""SessionContext: registering, naming, querying and closing, on one thread and on many."""

from __future__ import annotations

import gc
import operator
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.spark import launch
from producing import BOTH_PLACEMENTS, NUMBERS, FunctionPlan, FunctionTable, numbers, ten_rows, wait_until

pytestmark = pytest.mark.core


class Counting(FunctionTable):
    """Remembers on which threads ``schema`` was called."""

    def __init__(self, result: Callable[[], Any] = lambda: NUMBERS) -> None:
        super().__init__(ten_rows)
        self.result = result
        self.schema_threads: list[int] = []

    def schema(self) -> pa.Schema:
        self.schema_threads.append(threading.get_ident())
        return self.result()


def values(ctx: hr.SessionContext, table: str) -> list[int]:
    return sorted(row[0] for row in ctx.sql(f"SELECT a FROM {table}").collect())


def offset(start: int) -> FunctionTable:
    return FunctionTable(lambda _: [numbers(3, start)])


# -- registering --------------------------------------------------------------------------------------------------


def test_register_table_makes_the_name_work_everywhere(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", FunctionTable(ten_rows))
    for frame in (ctx.sql("SELECT * FROM t"), ctx.spark.sql("SELECT * FROM t"), ctx.spark.table("t"), ctx.table("t")):
        assert isinstance(frame, DataFrame)
        assert [row.a for row in frame.collect()] == list(range(10))
    assert ctx.sql("SELECT t.a FROM t WHERE t.a = :x", {"x": 3}).collect()[0].a == 3
    assert ctx.sql("SELECT a FROM t WHERE a = ?", [4]).collect()[0].a == 4
    assert ctx.table("t").where("t.a > 7").count() == 2


def test_register_table_calls_schema_once_on_the_callers_thread(ctx: hr.SessionContext) -> None:
    provider = Counting()
    ctx.register_table("t", provider)
    ctx.table("t").collect()
    ctx.sql("SELECT count(*) FROM t x JOIN t y ON x.a = y.a").collect()
    assert provider.schema_threads == [threading.get_ident()]


@pytest.mark.parametrize("result", [None, "a lng", {"a": "long"}])
def test_register_table_given_no_schema_is_an_error_and_registers_nothing(ctx: hr.SessionContext, result: Any) -> None:
    provider = Counting(lambda: result)
    with pytest.raises(hr.RegistrationError, match=r"Counting.schema(\(\) returned| cannot be read: at character 3)"):
        ctx.register_table("t", provider)
    assert not ctx.table_exists("t")
    assert not ctx.spark.catalog.tableExists("t")


def test_register_table_given_an_unsupported_type_names_column_and_type(ctx: hr.SessionContext) -> None:
    schema = pa.schema([("ok", pa.int64()), ("weird", pa.month_day_nano_interval())])
    with pytest.raises(hr.UnsupportedTypeError, match="weird"):
        ctx.register_table("t", Counting(lambda: schema))
    assert ctx.table_names() == []


def test_register_table_whose_schema_raises_registers_nothing(ctx: hr.SessionContext) -> None:
    def fail() -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ctx.register_table("t", Counting(fail))
    assert not ctx.table_exists("t")
    ctx.register_table("t", offset(0))
    assert values(ctx, "t") == [0, 1, 2]


@pytest.mark.parametrize("provider", [None, 7, FunctionTable], ids=["None", "int", "class"])
def test_register_table_given_what_is_no_provider_is_an_error(ctx: hr.SessionContext, provider: Any) -> None:
    with pytest.raises(hr.RegistrationError, match="takes a TableProvider or data"):
        ctx.register_table("t", provider)
    assert ctx.table_names() == []


def test_register_table_under_a_taken_name_is_an_error_and_keeps_the_old(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", offset(0))
    second = Counting()
    for name in ("t", "T"):
        with pytest.raises(hr.TableExistsError, match="replace=True"):
            ctx.register_table(name, second)
    assert second.schema_threads == []
    assert values(ctx, "t") == [0, 1, 2]


def test_register_table_replacing_serves_the_new_and_the_old_to_frames_made_before(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", offset(0))
    unplanned = [ctx.table("t"), ctx.sql("SELECT a FROM t"), ctx.spark.table("t")]
    ctx.register_table("T", offset(100), replace=True)
    assert values(ctx, "t") == [100, 101, 102]
    assert ctx.table_names() == ["T"]
    for frame in unplanned:
        assert sorted(ctx.collect(frame)["a"].to_pylist()) == [0, 1, 2]


def test_frames_of_a_name_that_is_deregistered_fail_also_where_it_was_replaced_before(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", offset(0))
    older = ctx.table("t")
    ctx.register_table("t", offset(100), replace=True)
    newer = ctx.table("t")
    assert ctx.deregister_table("t")
    for frame in (older, newer):
        with pytest.raises(hr.HeadraceError, match="deregistered"):
            ctx.collect(frame)


@pytest.mark.parametrize("other_columns", [False, True], ids=["same columns", "other columns"])
def test_register_table_replacing_while_threads_query_gives_old_or_new_rows(
    ctx: hr.SessionContext, other_columns: bool
) -> None:
    """By both names: Spark looks again for the table behind a view, whose columns may be others by then."""
    names = ("t", "t", f"{ctx.catalog}.t")
    finished = [0] * len(names)

    def table(number: int) -> pa.Table:
        columns = {"a": [number] * 5, **({"b": ["x"] * 5} if other_columns and number % 2 else {})}
        return pa.table(columns)

    def query(thread: int) -> None:
        while not replaced.is_set():
            found = ctx.collect(f"SELECT * FROM {names[thread]}")
            assert (found.num_rows, len(set(found["a"].to_pylist()))) == (5, 1)
            assert "b" not in found.column_names or found["a"][0].as_py() % 2  # or new rows by the old columns
            finished[thread] += 1

    def wait_for_all_queries() -> None:
        before = list(finished)
        wait_until(
            lambda: any(future.done() for future in queries) or all(map(operator.gt, finished, before)),
            what="a query of each thread",
        )

    replaced = threading.Event()
    ctx.register_table("t", table(0))
    with ThreadPoolExecutor(len(names)) as pool:
        queries = [pool.submit(query, thread) for thread in range(len(names))]
        try:
            for number in range(1, 40):
                ctx.register_table("t", table(number), replace=True)
                if number % 3 == 0:  # the last eight tables are kept: no query may last longer
                    wait_for_all_queries()
        finally:
            replaced.set()
        for future in queries:
            future.result()


def test_replaced_table_is_kept_until_no_frame_of_it_is_left(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", offset(0))
    frame = ctx.table("t")
    ctx.register_table("t", offset(100), replace=True)
    replaced = ctx._registry._replaced
    assert len(replaced) == 1
    assert frame.count() == 3
    del frame

    def is_forgotten() -> bool:
        gc.collect()
        ctx.spark.sparkContext._jvm.java.lang.System.gc()  # type: ignore[union-attr]
        return not replaced

    wait_until(is_forgotten, what="the end of the replaced table")


def test_frame_made_before_many_replacements_gives_the_newest_rows_of_the_same_columns(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", offset(0))
    frame, by_catalog = ctx.table("t"), ctx.sql(f"SELECT * FROM {ctx.catalog}.t")
    for number in range(1, 20):
        ctx.register_table("t", offset(100 * number), replace=True)
        ctx.table("t")
    assert [row.a for row in frame.collect()] == [1900, 1901, 1902]
    assert by_catalog.count() == 3
    ctx.register_table("t", pa.table({"b": [1]}), replace=True)
    unplanned = ctx.table("t")
    for number in range(20):
        ctx.register_table("t", offset(number), replace=True)
        ctx.table("t")
    with pytest.raises(hr.HeadraceError, match="replaced"):
        ctx.collect(unplanned)


def test_register_table_replacing_with_a_bad_provider_keeps_the_old(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", offset(0))
    with pytest.raises(hr.RegistrationError):
        ctx.register_table("t", Counting(lambda: None), replace=True)
    assert values(ctx, "t") == [0, 1, 2]


def test_register_table_replacing_what_is_not_there_registers_it(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", offset(0), replace=True)
    assert values(ctx, "t") == [0, 1, 2]


def test_register_tables_registers_all_or_none(ctx: hr.SessionContext) -> None:
    ctx.register_tables({"first": offset(0), "second": [{"a": 7}]})
    assert (values(ctx, "first"), values(ctx, "second")) == ([0, 1, 2], [7])
    with pytest.raises(hr.TableExistsError, match="second"):
        ctx.register_tables({"third": offset(0), "second": offset(100)})
    with pytest.raises(hr.RegistrationError, match="fourth"):
        ctx.register_tables({"third": offset(0), "fourth": 4})
    with pytest.raises(hr.RegistrationError, match="FIRST"):
        ctx.register_tables({"first": offset(0), "FIRST": offset(100)}, replace=True)
    assert ctx.table_names() == ["first", "second"]


def test_register_tables_that_spark_refuses_leaves_what_was_there(ctx: hr.SessionContext) -> None:
    ctx.register_table("first", offset(0))
    ctx.spark.range(1).createTempView("taken")
    try:
        with pytest.raises(hr.TableExistsError, match="taken"):
            ctx.register_tables({"new": offset(100), "taken": offset(100)})
        two = pa.table([[1], [2]], names=["a", "A"])
        with pytest.raises(hr.RegistrationError, match="case"):
            ctx.register_tables({"first": offset(100), "bad": two}, replace=True)
    finally:
        ctx.spark.catalog.dropTempView("taken")
    assert ctx.table_names() == ["first"]
    assert values(ctx, "first") == [0, 1, 2]
    assert not ctx.spark.catalog.tableExists("new")


# -- names --------------------------------------------------------------------------------------------------------


@pytest.mark.daily(every=3)
@pytest.mark.parametrize(
    "name", ["my table", "1st", "select", "größe", "表", "a-b", "a'b", 'a"b', "a;b", "%s", "x" * 200]
)
def test_register_table_under_an_odd_name_works_when_quoted(ctx: hr.SessionContext, name: str) -> None:
    ctx.register_table(name, offset(5))
    assert values(ctx, f"`{name}`") == [5, 6, 7]
    assert ctx.table(name).count() == 3
    assert ctx.table_exists(name)
    assert ctx.deregister_table(name)
    assert not ctx.spark.catalog.tableExists(f"`{name}`")


@pytest.mark.parametrize("name", ["", " ", "a.b", "a`b", "${env:PATH}", "a${", None, 7])
def test_register_table_under_an_impossible_name_is_an_error(ctx: hr.SessionContext, name: Any) -> None:
    with pytest.raises(hr.RegistrationError, match="name"):
        ctx.register_table(name, offset(0))
    assert ctx.table_names() == []


@pytest.mark.parametrize("streaming", [False, True], ids=["pull", "push"])
def test_columns_that_differ_in_case_only_are_refused_unless_spark_tells_them_apart(
    ctx: hr.SessionContext, streaming: bool
) -> None:
    schema = pa.schema([("river", pa.int64()), ("b", pa.int64()), ("River", pa.int64())])

    def register() -> None:
        if streaming:
            ctx.register_streaming_table("t", schema).close()
        else:
            ctx.register_table("t", hr.MemTable(schema.empty_table()))

    with pytest.raises(hr.RegistrationError, match="'river' and 'River' of table 't' differ in case only"):
        register()
    assert ctx.table_names() == []
    ctx.spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        register()
        assert ctx.collect("SELECT River, river FROM t").column_names == ["River", "river"]
    finally:
        ctx.spark.conf.unset("spark.sql.caseSensitive")


def test_names_are_compared_without_regard_to_case(ctx: hr.SessionContext) -> None:
    ctx.register_table("Rivers", offset(0))
    assert ctx.table_exists("rIVERS")
    assert values(ctx, "RIVERS") == [0, 1, 2]
    assert ctx.table("rivers").count() == 3
    assert ctx.table_names() == ["Rivers"]
    assert ctx.deregister_table("RIVERS")


def test_names_that_spark_tells_apart_are_two_tables(ctx: hr.SessionContext) -> None:
    ctx.register_table("strasse", offset(0))
    ctx.register_table("straße", offset(10))
    assert values(ctx, "`strasse`") == [0, 1, 2]
    assert values(ctx, "`straße`") == [10, 11, 12]


def test_register_table_does_not_touch_a_view_of_the_users(ctx: hr.SessionContext) -> None:
    ctx.spark.range(7).createOrReplaceTempView("mine")
    try:
        with pytest.raises(hr.TableExistsError, match="temporary view 'mine'"):
            ctx.register_table("mine", offset(0))
        assert ctx.table_names() == []
        assert ctx.spark.table("mine").count() == 7
    finally:
        ctx.spark.catalog.dropTempView("mine")


def test_deregister_and_close_keep_a_view_that_the_user_put_in_a_tables_place(spark: SparkSession) -> None:
    try:
        with hr.SessionContext(spark) as ctx:
            for name in ("one", "two"):
                ctx.register_table(name, offset(0))
                spark.range(7).createOrReplaceTempView(name)
            assert not ctx.deregister_table("one")
            assert ctx.table_names() == []
        assert spark.table("one").count() == 7
        assert spark.table("two").count() == 7
    finally:
        spark.catalog.dropTempView("one")
        spark.catalog.dropTempView("two")


# -- leaving ------------------------------------------------------------------------------------------------------


def test_deregister_table_forgets_the_table_and_says_whether_it_was_there(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", offset(0))
    frame = ctx.table("t")
    assert ctx.deregister_table("t") is True
    assert ctx.deregister_table("t") is False
    assert ctx.table_names() == []
    assert not ctx.spark.catalog.tableExists("t")
    with pytest.raises(hr.HeadraceError, match="deregistered"):
        ctx.collect(frame)
    with pytest.raises(hr.HeadraceError, match="no table 't' is registered here"):
        ctx.table("t")
    ctx.register_table("t", offset(10))
    assert values(ctx, "t") == [10, 11, 12]


@pytest.mark.parametrize("placement", BOTH_PLACEMENTS, ids=lambda placement: placement.name)
def test_deregister_table_lets_a_scan_under_way_go_on(ctx: hr.SessionContext, placement: hr.Placement) -> None:
    ctx.register_table("t", FunctionTable(ten_rows, partitions=3, placement=placement))
    frame = ctx.table("t")
    assert frame.count() == 30  # planned
    rows = frame.toLocalIterator()
    first = next(rows)
    ctx.deregister_table("t")
    assert len([first, *rows]) == 30


def test_table_given_an_unknown_name_lists_the_known_ones(ctx: hr.SessionContext) -> None:
    ctx.register_table("here", offset(0))
    with pytest.raises(hr.HeadraceError, match=r"no table .there. is registered here\. .* a name near that: here"):
        ctx.table("there")


def test_close_is_idempotent_and_later_use_is_a_clear_error(spark: SparkSession) -> None:
    ctx = hr.SessionContext(spark)
    ctx.register_table("t", offset(0))
    frame = ctx.table("t")
    ctx.close()
    ctx.close()
    uses: list[Callable[[], Any]] = [
        lambda: ctx.sql("SELECT 1"),
        lambda: ctx.table("t"),
        lambda: ctx.register_table("u", offset(0)),
        lambda: ctx.deregister_table("t"),
        lambda: ctx.collect("SELECT 1"),
        lambda: ctx.explain("SELECT 1"),
        lambda: ctx.execute_stream("SELECT 1"),
        lambda: ctx.register_streaming_table("s", NUMBERS),
    ]
    for use in uses:
        with pytest.raises(hr.HeadraceError, match="closed"):
            use()
    assert ctx.table_names() == []
    assert not spark.catalog.tableExists("t")
    with pytest.raises(Exception, match="closed"):
        frame.collect()
    assert spark.range(3).count() == 3  # it did not start Spark, so it does not stop it


def test_close_while_a_driver_query_runs_fails_that_query(spark: SparkSession) -> None:
    started = threading.Event()

    def endless(_partition: int) -> Any:
        while True:
            yield numbers(1)
            started.set()
            threading.Event().wait(0.05)

    ctx = hr.SessionContext(spark)
    ctx.register_table("t", FunctionTable(endless, placement=hr.Placement.DRIVER))
    frame = ctx.sql("SELECT sum(a) FROM t")
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(frame.collect)
        assert started.wait(30)
        ctx.close()
        with pytest.raises(Exception, match=r"context was closed|broke off"):
            result.result(20)


def test_two_contexts_on_one_session_do_not_see_each_others_names(spark: SparkSession) -> None:
    with hr.SessionContext(spark) as one, hr.SessionContext(spark) as two:
        one.register_table("t", offset(0))
        two.register_table("u", offset(10))
        assert (one.table_names(), two.table_names()) == (["t"], ["u"])
        assert one.sql("SELECT count(*) FROM t, u").collect()[0][0] == 9
        with pytest.raises(hr.TableExistsError):
            two.register_table("t", offset(20))
        two.register_table("t", offset(20), replace=True)
        assert values(two, "t") == [20, 21, 22]
        assert (one.table_names(), two.table_names()) == ([], ["t", "u"])
        one.close()
        assert values(two, "t") == [20, 21, 22]
        assert values(two, "u") == [10, 11, 12]


# -- starting -----------------------------------------------------------------------------------------------------


def test_context_without_arguments_joins_the_spark_that_runs(spark: SparkSession) -> None:
    with hr.SessionContext() as ctx:
        assert ctx.spark.sparkContext is spark.sparkContext
    assert spark.range(1).count() == 1


def test_context_given_settings_while_spark_runs_is_a_clear_error(spark: SparkSession) -> None:
    with pytest.raises(hr.HeadraceError, match=r"running in this process already, with spark\.master"):
        hr.SessionContext(master="local[1]")
    with pytest.raises(hr.HeadraceError, match=r"spark\.not\.there None"):
        hr.SessionContext(config={"spark.not.there": True})
    with pytest.raises(ValueError, match="not both"):
        hr.SessionContext(spark, config={"spark.ui.enabled": True})


def test_context_given_the_settings_of_the_spark_that_runs_attaches_to_it(spark: SparkSession) -> None:
    master, memory = spark.sparkContext.master, spark.sparkContext.getConf().get("spark.driver.memory")
    with hr.SessionContext(master=master, config={"spark.driver.memory": memory, "spark.ui.enabled": False}) as ctx:
        assert ctx.spark.sparkContext is spark.sparkContext
    assert spark.range(1).count() == 1


def test_get_or_create_gives_the_open_context_of_the_session_or_a_new_one(
    ctx: hr.SessionContext, spark: SparkSession
) -> None:
    first = hr.SessionContext.get_or_create(spark)
    with ThreadPoolExecutor(4) as pool:
        again = list(pool.map(lambda _: hr.SessionContext.get_or_create(master=spark.sparkContext.master), range(4)))
    assert all(one is first for one in again)
    with pytest.raises(hr.HeadraceError, match="running in this process already"):
        hr.SessionContext.get_or_create(master="local[1]")
    with hr.SessionContext.get_or_create(spark.newSession()) as other:
        assert other is not first
        assert hr.SessionContext.get_or_create(other.spark) is other
        session = other.spark
    with hr.SessionContext.get_or_create(session) as new:
        assert new is not other


def test_taken_name_is_told_with_the_context_that_has_it(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", offset(0))
    with pytest.raises(
        hr.TableExistsError, match=rf"this SessionContext \(catalog '{ctx.catalog}'\); pass replace=True"
    ):
        ctx.register_table("t", offset(0))
    with (
        hr.SessionContext(ctx.spark) as other,
        pytest.raises(hr.TableExistsError, match=rf"another SessionContext \(catalog '{ctx.catalog}'\).* replace=True"),
    ):
        other.register_table("t", offset(0))


@pytest.mark.parametrize("kind", ["struct", "list", "map", "deep"])
def test_register_table_with_fields_that_differ_in_case_only_is_refused(ctx: hr.SessionContext, kind: str) -> None:
    fields = pa.struct([("A", pa.int64()), ("a", pa.int64())])
    types = {
        "struct": fields,
        "list": pa.list_(fields),
        "map": pa.map_(pa.string(), fields),
        "deep": pa.struct([("x", pa.large_list(fields))]),
    }
    data = pa.table({"c": pa.array([None], types[kind])})
    with pytest.raises(hr.RegistrationError, match="the fields 'A' and 'a' of column 'c' of table 't'"):
        ctx.register_table("t", data)
    assert ctx.table_names() == []
    ctx.spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        ctx.register_table("t", data)
        assert ctx.collect("SELECT * FROM t").num_rows == 1
    finally:
        ctx.spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize("thing", ["local[2]", 7, object()])
def test_context_given_what_is_no_session_is_a_type_error(thing: Any) -> None:
    with pytest.raises(TypeError, match=r"takes a pyspark\.sql\.SparkSession"):
        hr.SessionContext(thing)


def test_embedded_spark_has_sensible_local_settings(spark: SparkSession) -> None:
    assert int(spark.conf.get("spark.sql.shuffle.partitions") or 0) < 200
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.host") == "127.0.0.1"
    assert conf.get("spark.ui.enabled") == "false"
    assert conf.get("spark.driver.memory") == "3g"  # the fixture's own


# -- results ------------------------------------------------------------------------------------------------------


def test_collect_takes_sql_and_frames_and_gives_arrow(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", FunctionTable(ten_rows, partitions=2))
    for query in ("SELECT a FROM t ORDER BY a", ctx.table("t").orderBy("a")):
        result = ctx.collect(query)
        assert isinstance(result, pa.Table)
        assert result.column("a").to_pylist() == list(range(20))
    assert ctx.collect("SELECT a FROM t WHERE a < 0").num_rows == 0


def test_collect_passes_errors_that_are_not_headraces_unchanged(ctx: hr.SessionContext) -> None:
    from pyspark.errors import AnalysisException, ArithmeticException

    with pytest.raises(AnalysisException):
        ctx.collect("SELECT nothing FROM nowhere")
    with pytest.raises(ArithmeticException):
        ctx.collect("SELECT 1 / 0")


def test_explain_names_provider_and_plan(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", FunctionTable(ten_rows, partitions=2))
    text = ctx.explain("SELECT a FROM t LIMIT 3")
    assert "FunctionTable" in text
    assert "FunctionPlan" in text
    assert ctx.explain("SELECT 1") == "no Headrace table is scanned by this query"


def test_queries_and_registrations_from_many_threads_are_independent(ctx: hr.SessionContext) -> None:
    ctx.register_table("shared", FunctionTable(ten_rows, partitions=2))

    def work(worker: int) -> list[int]:
        results = []
        for turn in range(4):
            name = f"t_{worker}_{turn}"
            placement = BOTH_PLACEMENTS[(worker + turn) % 2]
            start = 100 * worker + turn
            table = FunctionTable(lambda _, start=start: [numbers(3, start)], placement=placement)
            ctx.register_table(name, table)
            results.append(ctx.sql(f"SELECT min(a) FROM {name}").collect()[0][0])
            assert ctx.collect("SELECT sum(a) AS s FROM shared").to_pydict() == {"s": [190]}
            if turn % 2:
                assert ctx.deregister_table(name)
        return results

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [[100 * w + t for t in range(4)] for w in range(4)]
    assert len(ctx.table_names()) == 1 + 4 * 2


def test_same_name_registered_by_many_threads_is_won_by_one(ctx: hr.SessionContext) -> None:
    start = threading.Barrier(6)

    def work(worker: int) -> bool:
        start.wait()
        try:
            ctx.register_table("prize", offset(worker * 10))
        except hr.TableExistsError:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        won = list(pool.map(work, range(6)))
    assert won.count(True) == 1
    assert values(ctx, "prize")[0] == won.index(True) * 10


def test_plan_class_is_what_scan_returned(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", FunctionTable(ten_rows))
    assert FunctionPlan.__name__ in ctx.table("t")._jdf.queryExecution().toString()


@pytest.mark.parametrize("arguments", [("spark://host:7077", {}), (None, {"spark.master": "spark://host:7077"})])
def test_start_on_a_cluster_gets_no_settings_of_one_machine(
    arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    class NotStarted(Exception):
        pass

    def refuse(settings: dict[str, str]) -> None:
        raise NotStarted(settings)

    monkeypatch.setattr(launch, "is_running", lambda: False)
    monkeypatch.setattr(launch, "start_quietly", refuse)
    with pytest.raises(NotStarted) as raised:
        launch.start(*arguments)
    settings = raised.value.args[0]
    assert settings["spark.master"] == "spark://host:7077"
    assert not {"spark.driver.host", "spark.python.unix.domain.socket.enabled"} & settings.keys()
