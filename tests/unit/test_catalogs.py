"""Catalogs without Spark: what is asked once, what is asked again, and a database's names."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from catalogs import Shop
from headrace.errors import PlanError, UnsupportedTypeError
from headrace.negotiate.asking import ProviderRaised
from headrace.negotiate.catalogs import CachedCatalog, HeldTables, table_of


def test_cached_catalog_asks_once_until_it_is_refreshed() -> None:
    shop = Shop()
    catalog = CachedCatalog("crm", shop)
    first = catalog.table("sales", "orders", None, None)
    assert first is not None
    assert first.name == "crm.sales.orders"
    assert catalog.table("sales", "orders", None, None) is first
    assert (catalog.schemas(), catalog.tables("sales")) == (catalog.schemas(), catalog.tables("sales"))
    assert shop.asked == ["sales.orders", "schemas", "tables of sales"]
    catalog.refresh()
    again = catalog.table("sales", "orders", None, None)
    assert again is not None
    assert again.id != first.id


def test_cached_catalog_answer_from_before_a_refresh_is_not_kept() -> None:
    class Refreshed(Shop):
        """Somebody refreshes while it answers."""

        def table_names(self, schema: str) -> list[str]:
            names = list(super().table_names(schema))
            catalog.refresh()
            return names

        def table(self, schema: str, name: str, **options: Any) -> hr.TableProvider | None:
            found = super().table(schema, name, **options)
            catalog.refresh()
            return found

    shop = Refreshed()
    catalog = CachedCatalog("crm", shop)
    for _ in range(2):
        assert catalog.tables("sales") == ["orders"]
        assert catalog.table("sales", "orders", None, None) is not None
    assert shop.asked == ["tables of sales", "sales.orders"] * 2


def test_cached_catalog_missing_table_is_asked_for_again() -> None:
    shop = Shop()
    catalog = CachedCatalog("crm", shop)
    assert catalog.table("sales", "new", None, None) is None
    shop.names["sales"].append("new")
    assert catalog.table("sales", "new", None, None) is not None


def test_cached_catalog_versions_are_kept_for_a_while_and_not_for_ever() -> None:
    catalog = CachedCatalog("crm", Shop())
    first = catalog.table("sales", "orders", "v0", None)
    assert catalog.table("sales", "orders", "v0", None) is first
    for number in range(1000):
        catalog.table("sales", "orders", f"v{number}", None)
    assert len(catalog._versions) <= 64


def test_cached_catalog_answers_that_are_none_are_named() -> None:
    class Bad(Shop):
        def schema_names(self) -> list[str]:
            return "sales"  # type: ignore[return-value]

        def table_names(self, schema: str) -> list[str]:
            raise LookupError("gone")

    catalog = CachedCatalog("crm", Bad())
    with pytest.raises(PlanError, match=r"Bad\.schema_names returned str \"sales\", expected names"):
        catalog.schemas()
    with pytest.raises(ProviderRaised, match=r"LookupError: gone"):
        catalog.tables("sales")


def test_table_of_what_is_no_provider_or_has_no_spark_type_is_named() -> None:
    with pytest.raises(PlanError, match=r"f returned None, expected a TableProvider"):
        table_of("t", None, "f")
    with pytest.raises(UnsupportedTypeError):
        table_of("t", hr.SimpleTable(pa.schema([("a", pa.month_day_nano_interval())]), lambda: []), "f")


def test_held_table_is_forgotten_with_the_last_of_the_jvm_s_objects() -> None:
    held = HeldTables()
    table = table_of("t", hr.MemTable(pa.table({"a": [1]})), "f")
    held.hold(table)
    held.hold(table)
    held.release(table.id)
    assert held.find_id(table.id) is table
    held.release(table.id)
    held.release(table.id)
    assert held.find_id(table.id) is None
    assert len(held) == 0


def test_held_table_released_by_a_finalizer_waits_for_no_lock_and_is_gone_with_the_next_hold() -> None:
    held = HeldTables()
    first, second = (table_of("t", hr.MemTable(pa.table({"a": [1]})), "f") for _ in range(2))
    held.hold(first)
    with held._lock:  # a finalizer may run while its own thread is in here
        held.release_soon(first.id)
    assert held.find_id(first.id) is first
    held.hold(second)
    assert held.find_id(first.id) is None
    assert len(held) == 1


def test_adbc_catalog_names_are_the_database_s_and_tables_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE orders (id INTEGER)")
        database.execute("CREATE VIEW recent AS SELECT id FROM orders")
    database.close()
    catalog = hr.AdbcCatalog("sqlite", str(path))
    assert list(catalog.schema_names()) == ["main"]
    assert set(catalog.table_names("main")) >= {"orders", "recent"}
    table = catalog.table("main", "recent")
    assert table is not None
    assert table.schema().names == ["id"]
    assert catalog.table("main", "missing") is None
    with pytest.raises(ValueError, match="has no versions"):
        catalog.table("main", "orders", version="1")
