"""AdbcTable as the target of writes to a real PostgreSQL: staging tables, one transaction, types, epochs, leftovers."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

import headrace as hr
from headrace.testing import check_writer
from postgres import Postgres
from writing import committed, read_rows, request_for, written

STAGED = [True, False]


@pytest.fixture
def names(postgres: Postgres) -> Iterator[Postgres]:
    postgres.run(
        "CREATE TABLE names (id bigint PRIMARY KEY, name text)", "INSERT INTO names VALUES (1, 'a'), (2, NULL)"
    )
    yield postgres
    postgres.run("DROP TABLE names", "DROP TABLE IF EXISTS headrace_epochs")


def table(postgres: Postgres, name: Any = "names", **options: Any) -> hr.AdbcTable:
    return hr.AdbcTable("postgresql", postgres.uri, name, **options)


def rows(*ids: int, name: str | None = "new") -> pa.Table:
    return pa.table({"id": ids, "name": [name] * len(ids)})


def ids(postgres: Postgres) -> list[int]:
    return [one for (one,) in postgres.rows("SELECT id FROM names ORDER BY id")]


def leftovers(postgres: Postgres) -> list[str]:
    return [name for (name,) in postgres.rows("SELECT tablename FROM pg_tables WHERE tablename LIKE 'headrace_stage%'")]


@pytest.mark.parametrize("staged", STAGED)
def test_writer_keeps_all_promises(postgres: Postgres, staged: bool) -> None:
    postgres.run(
        f"CREATE TABLE kit_{staged} (i bigint, s text, f double precision, b bytea, d date, z timestamptz, "
        "t timestamp, n numeric(10, 3), o boolean, j smallint, a integer[])"
    )
    check_writer(table(postgres, f"kit_{staged}".lower(), staged=staged)).raise_if_failed()
    assert leftovers(postgres) == []


@pytest.mark.parametrize("staged", STAGED)
def test_rows_are_seen_at_the_end_all_at_once(names: Postgres, staged: bool) -> None:
    target = table(names, staged=staged)
    plan = target.insert(request_for(target, mode=hr.WriteMode.TRUNCATE))
    messages = [written(plan, rows(3)), written(plan, rows(4, 5), 1)]
    assert ids(names) == [1, 2]  # a reader neither waits nor sees a part
    plan.commit(messages)
    plan.commit(messages)
    plan.abort(messages)
    assert ids(names) == [3, 4, 5]
    assert leftovers(names) == []


@pytest.mark.parametrize("staged", STAGED)
def test_row_that_the_database_refuses_leaves_all_out(names: Postgres, staged: bool) -> None:
    target = table(names, staged=staged)
    plan = target.insert(request_for(target, mode=hr.WriteMode.TRUNCATE))
    with pytest.raises(Exception, match="duplicate key"):
        plan.commit([written(plan, rows(7)), written(plan, rows(7), 1)])
    plan.abort([None, None])
    assert ids(names) == [1, 2]
    assert leftovers(names) == []


@pytest.mark.parametrize("staged", STAGED)
def test_attempt_that_fails_leaves_room_for_the_next_one(names: Postgres, staged: bool) -> None:
    def cut() -> Iterator[pa.RecordBatch]:
        yield from rows(3).to_batches()
        raise ConnectionError("the stream was cut")

    target = table(names, staged=staged)
    plan = target.insert(request_for(target))
    first = written(plan, rows(10))
    with pytest.raises(ConnectionError, match="the stream was cut"):
        plan.write(hr.WriteTask(1, 1), cut())
    plan.commit([first, written(plan, rows(4), 1)])
    assert ids(names) == [1, 2, 4, 10]
    assert leftovers(names) == []


@pytest.mark.parametrize("staged", STAGED)
def test_two_attempts_of_a_task_at_once_give_one(names: Postgres, staged: bool) -> None:
    target = table(names, staged=staged)
    plan = target.insert(request_for(target))
    messages: list[Any] = []
    both = [threading.Thread(target=lambda: messages.append(written(plan, rows(3, 4)))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    plan.commit(messages[1:])
    assert ids(names) == [1, 2, 3, 4]


@pytest.mark.parametrize("staged", STAGED)
def test_upsert_replaces_rows_of_the_same_key(names: Postgres, staged: bool) -> None:
    committed(table(names, upsert_on=["id"], staged=staged), rows(2, 3), rows(4))
    assert names.rows("SELECT * FROM names ORDER BY id") == [(1, "a"), (2, "new"), (3, "new"), (4, "new")]


@pytest.mark.parametrize("staged", STAGED)
def test_epoch_that_comes_again_is_there_once(names: Postgres, staged: bool) -> None:
    for epoch in (0, 1, 1, 2, 0):
        committed(table(names, staged=staged), rows(10 + epoch), query_id="q'1", epoch=epoch)
    committed(table(names, staged=not staged), rows(12), query_id="q'1", epoch=2)
    assert ids(names) == [1, 2, 10, 11, 12]
    assert names.rows("SELECT * FROM headrace_epochs") == [("names", "q'1", 2)]


def test_overwrite_and_delete_take_filters_that_the_database_decides(names: Postgres) -> None:
    target = table(names)
    target.schema()
    low = hr.Comparison("<", hr.Column("id"), hr.Literal(2, pa.int64()))
    committed(target, rows(9), mode=hr.WriteMode.OVERWRITE, filters=(low,))
    assert ids(names) == [2, 9]
    target.delete((hr.IsNull(hr.Column("name")),))
    assert ids(names) == [9]


@pytest.mark.parametrize("staged", STAGED)
def test_types_that_the_driver_does_not_ingest_are_cast(postgres: Postgres, staged: bool) -> None:
    name = f"Typed {staged}"
    postgres.run(f'CREATE TABLE "{name}" (u uuid, j jsonb, c char(4), v varchar(3), i inet, x integer, n numeric)')
    target = table(postgres, name, staged=staged)
    row = {"u": "00000000-0000-0000-0000-00000000000a", "j": '{"a": 1}', "c": "ab", "v": "xyz", "i": "10.0.0.1", "x": 5}
    committed(target, pa.Table.from_pylist([{**row, "n": "12.5"}], target.schema()))
    found = postgres.rows(f"SELECT u::text, j ->> 'a', c::text, v, host(i), x, n::text FROM \"{name}\"")
    assert found == [(row["u"], "1", "ab", "xyz", "10.0.0.1", 5, "12.5")]
    assert not target.can_overwrite([hr.Comparison("=", hr.Column("u"), hr.Literal("x", pa.string()))])
    assert not target.can_delete([hr.IsNull(hr.Column("i"))])


def test_next_write_drops_what_a_dead_one_staged_and_not_what_a_live_one_did(names: Postgres) -> None:
    target = table(names)
    dead, alive = (target.insert(request_for(target)) for _ in range(2))
    written(dead, rows(50))
    message = written(alive, rows(60))
    dead._alive.close()  # type: ignore[attr-defined]  (as the database does where a process is gone)
    assert len(leftovers(names)) == 2
    committed(target, rows(70))
    assert leftovers(names) == [message]
    alive.commit([message])
    assert ids(names) == [1, 2, 60, 70]
    assert leftovers(names) == []


@pytest.mark.parametrize(
    "forged", ["secrets", 'names"; DROP TABLE names; --', 7, None, ["names"], "headrace_stage_0_0_1"]
)
def test_message_that_names_no_staging_table_of_the_write_is_refused(names: Postgres, forged: Any) -> None:
    """A worker would else have the rows of any table copied that the user may read."""
    names.run("CREATE TABLE IF NOT EXISTS secrets AS SELECT * FROM names")
    target = table(names)
    plan = target.insert(request_for(target))
    message = written(plan, rows(3))
    with pytest.raises(hr.WriteError, match="no staging table of this write"):
        plan.commit([message, forged])
    plan.abort([message])
    assert ids(names) == [1, 2]
    assert leftovers(names) == []


def test_table_in_a_schema_stages_there(postgres: Postgres) -> None:
    postgres.run('CREATE SCHEMA "Sales"', 'CREATE TABLE "Sales".orders (id bigint)')
    target = table(postgres, "Sales.orders")
    plan = target.insert(request_for(target))
    message = written(plan, pa.table({"id": [1]}))
    staged = postgres.rows("SELECT schemaname FROM pg_tables WHERE tablename LIKE 'headrace_stage%'")
    assert staged == [("Sales",)]
    plan.commit([message])
    assert read_rows(target)["id"].to_pylist() == [1]


def test_plan_shows_no_password(names: Postgres) -> None:
    target = table(names)
    plan = target.insert(request_for(target))
    copy = pickle.loads(cloudpickle.dumps(plan))
    assert names.password not in repr(vars(copy)) + repr(vars(plan)) + plan.describe()
    plan.abort([])


def test_table_that_is_gone_is_named(postgres: Postgres) -> None:
    postgres.run("CREATE TABLE gone (id bigint)")
    target = table(postgres, "gone")
    target.schema()
    postgres.run("DROP TABLE gone")
    with pytest.raises(hr.WriteError, match='there is no table "gone" any more'):
        target.insert(hr.WriteRequest(pa.schema([("id", pa.int64())])))
