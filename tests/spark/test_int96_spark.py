"""Timestamps and dates of Parquet and ORC files by Spark itself, under its default and other settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from session_settings import session_settings

pytestmark = pytest.mark.usefixtures("drops_views")

ROWS = """
    SELECT id, at, d, n, named_struct('at', at, 'l', array(at), 'm', map('k', at)) AS s FROM VALUES
    (1, timestamp'2020-01-01 00:00:00', date'2020-01-01', timestamp_ntz'2020-01-01 00:00:00'),
    (2, timestamp'9999-12-31 20:00:00', date'9999-12-31', timestamp_ntz'9999-12-31 20:00:00'),
    (3, timestamp'0001-01-02 00:00:00.123456', date'0001-01-02', timestamp_ntz'0001-01-02 00:00:00.123456'),
    (4, null, null, null),
    (5, timestamp'1850-06-01 00:00:00', date'1582-10-04', timestamp_ntz'1850-06-01 00:00:00'),
    (6, timestamp'2020-01-01 03:00:00', date'2019-12-31', timestamp_ntz'2020-01-01 03:00:00') AS t(id, at, d, n)
"""
QUERIES = [
    "SELECT * FROM {t} ORDER BY id",
    "SELECT id FROM {t} WHERE at > timestamp'2019-01-01' ORDER BY id",
    "SELECT count(*) FROM {t} WHERE at >= timestamp'2020-01-01 03:00:00'",
    "SELECT id FROM {t} WHERE at IN (timestamp'9999-12-31 20:00:00', timestamp'0001-01-02 00:00:00.123456')",
    "SELECT id FROM {t} WHERE s.at < timestamp'1900-01-01' OR n > timestamp_ntz'9000-01-01 00:00:00' ORDER BY id",
    "SELECT count(*), count(at), min(at), max(at), min(d), max(d), min(n), max(n) FROM {t}",
    "SELECT min(at), max(d) FROM {t} WHERE id <> 2",
    "SELECT t.id FROM {t} AS t JOIN (SELECT at FROM {t} WHERE id < 3) AS few ON t.at = few.at ORDER BY id",
    "SELECT id FROM {t} WHERE d < date'1600-01-01' ORDER BY d DESC LIMIT 1",
]
WRITTEN = ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"]


def write(spark: Any, path: Path, stored: str, mode: str, condition: str = "true", format_: str = "parquet") -> None:
    settings = {
        "spark.sql.parquet.outputTimestampType": stored,
        "spark.sql.parquet.datetimeRebaseModeInWrite": mode,
        "spark.sql.parquet.int96RebaseModeInWrite": mode,
        "spark.sql.session.timeZone": "America/Sao_Paulo",
    }
    with session_settings(spark, settings):
        spark.sql(ROWS).where(condition).coalesce(1).write.format(format_).save(str(path))


@pytest.mark.parametrize("stored", WRITTEN)
@pytest.mark.parametrize("zone", ["America/Sao_Paulo", "UTC"])
@pytest.mark.daily("America/Sao_Paulo-INT96", "UTC-TIMESTAMP_MILLIS")
def test_timestamps_of_any_year_are_those_that_spark_wrote(
    ctx: hr.SessionContext, tmp_path: Path, stored: str, zone: str
) -> None:
    write(ctx.spark, tmp_path / "files", stored, "CORRECTED")
    ctx.register_table("files", hr.DatasetTable(tmp_path / "files"))
    ctx.spark.read.parquet(str(tmp_path / "files")).createOrReplaceTempView("by_spark")
    with session_settings(ctx.spark, {"spark.sql.session.timeZone": zone}):
        for query in QUERIES:
            found, wanted = (ctx.sql(query.format(t=name)) for name in ("files", "by_spark"))
            assert found.dtypes == wanted.dtypes
            assert ctx.collect(found).to_pylist() == ctx.collect(wanted).to_pylist(), query


@pytest.mark.parametrize("stored", WRITTEN)
@pytest.mark.daily("INT96")
def test_legacy_calendar_is_refused_by_name_and_read_where_no_value_is_old(
    ctx: hr.SessionContext, tmp_path: Path, stored: str
) -> None:
    write(ctx.spark, tmp_path / "old", stored, "LEGACY")
    write(ctx.spark, tmp_path / "new", stored, "LEGACY", "id NOT IN (3, 5)")
    ctx.register_table("old_days", hr.DatasetTable(tmp_path / "old"))
    for asked in ("at", "d", "s", "min(at)", "min(d)", "max(d)"):
        with pytest.raises(hr.HeadraceError, match=r"old/part-.* may have (dates|timestamps) before"):
            ctx.collect(f"SELECT {asked} FROM old_days")
    for condition in ("at > timestamp'2019-01-01'", "d = date'1582-10-04'", "s.at IS NULL AND year(d) > 0"):
        with pytest.raises(hr.HeadraceError, match=r"old/part-.* may have (dates|timestamps) before"):
            ctx.collect(f"SELECT id FROM old_days WHERE {condition}")
    assert ctx.collect("SELECT count(*) AS n, max(id) AS last FROM old_days").to_pylist() == [{"n": 6, "last": 6}]
    assert ctx.collect("SELECT count(n) AS n FROM old_days").to_pylist() == [{"n": 5}]
    ctx.register_table("new_days", hr.DatasetTable(tmp_path / "new"))
    ctx.spark.read.parquet(str(tmp_path / "new")).createOrReplaceTempView("by_spark")
    for query in QUERIES:
        found, wanted = (ctx.collect(query.format(t=name)).to_pylist() for name in ("new_days", "by_spark"))
        assert found == wanted, query


def test_orc_files_by_spark_refuse_old_dates_by_name(ctx: hr.SessionContext, tmp_path: Path) -> None:
    for name, condition in (("old", "id <> 2"), ("new", "id IN (1, 4, 6)")):
        write(ctx.spark, tmp_path / name, "INT96", "CORRECTED", condition, "orc")
        ctx.register_table(name, hr.DatasetTable(tmp_path / name, format="orc"))
    for query in ("SELECT d FROM old", "SELECT id FROM old WHERE d > date'2000-01-01'", "SELECT min(d) FROM old"):
        with pytest.raises(hr.HeadraceError, match=r"'d' of file .*old/part-.* may have dates before 1582-10-15"):
            ctx.collect(query)
    with pytest.raises(hr.HeadraceError, match=r"old/part-"):  # pyarrow has nanoseconds for them
        ctx.collect("SELECT at FROM old")
    found = ctx.collect("SELECT count(*) AS n, max(d) AS last FROM new WHERE d >= date'2019-12-31'").to_pylist()
    ctx.spark.read.orc(str(tmp_path / "new")).createOrReplaceTempView("by_spark")
    assert (
        found
        == ctx.collect("SELECT count(*) AS n, max(d) AS last FROM by_spark WHERE d >= date'2019-12-31'").to_pylist()
    )
