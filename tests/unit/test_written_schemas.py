"""A schema as Arrow's, as DDL text or as pairs, wherever one is asked for; and as an attribute of a provider."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.negotiate.registry import RegisteredTable
from headrace.testing import check_provider

EXPECTED = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
WRITTEN: dict[str, Any] = {
    "arrow": EXPECTED,
    "ddl": "id BIGINT NOT NULL, name STRING",
    "pairs": [("id", "BIGINT NOT NULL"), ("name", pa.string())],
    "fields": [EXPECTED.field(0), ("name", "STRING")],
}
ROWS = pa.record_batch({"id": [1], "name": ["a"]}, schema=EXPECTED)


class Lines(hr.FileFormat):
    def __init__(self, written: Any) -> None:
        self.written = written

    def schema(self, file: hr.DataFile) -> Any:
        return self.written

    def read(self, file: hr.DataFile, request: hr.ScanRequest) -> Any:
        return [ROWS]


@pytest.mark.parametrize("written", WRITTEN)
def test_ready_made_tables_take_a_schema_however_it_is_written(written: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    schema = WRITTEN[written]
    tables = [
        hr.SimpleTable(schema, lambda: [ROWS]),
        hr.StreamTable(schema, [lambda: [ROWS]]),
        hr.PagedApi("http://localhost/rows", schema),
        hr.ListingTable(tmp_path, Lines(schema)),
    ]
    assert [table.schema() for table in tables] == [EXPECTED] * len(tables)


class Method(hr.TableProvider):
    """Its schema is a method; subclasses replace it by an attribute of the class."""

    def schema(self) -> Any:
        return WRITTEN["ddl"]

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return hr.MemTable(ROWS).scan(request)


class OfTheClass(Method):
    schema = "id BIGINT NOT NULL, name STRING"  # type: ignore[assignment]


class OfTheObject(hr.TableProvider):
    scan = Method.scan

    def __init__(self) -> None:
        self.schema = WRITTEN["pairs"]


@dataclass
class OfADataclass(hr.TableProvider):
    schema: Any
    scan = Method.scan


@pytest.mark.parametrize(
    "provider",
    [Method(), OfTheClass(), OfTheObject(), OfADataclass(EXPECTED), OfADataclass(WRITTEN["ddl"])],
    ids=["method", "class", "object", "dataclass", "dataclass of text"],
)
def test_provider_schema_as_a_method_or_an_attribute_is_registered(provider: hr.TableProvider) -> None:
    assert RegisteredTable.of("t", provider).schema == EXPECTED
    check_provider(provider).raise_if_failed()
    inner = hr.SortedTable(provider, [hr.SortKey("id")])
    assert RegisteredTable.of("t", inner).schema == EXPECTED


class Without(hr.TableProvider):
    scan = Method.scan


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        (Without(), "Without has no schema: write a method schema"),
        (OfADataclass("id BIGNT"), "OfADataclass.schema cannot be read: at character 4 of the schema: 'BIGNT'"),
        (OfADataclass(["id"]), "OfADataclass.schema as a list has a pair of name and type"),
        (OfADataclass([("id", "BIGNT")]), "OfADataclass.schema cannot be read: column 'id': at character 1"),
        (OfADataclass(None), r"OfADataclass.schema\(\) returned NoneType"),
    ],
    ids=["none", "bad text", "no pair", "bad pair", "None"],
)
def test_provider_without_a_readable_schema_is_a_registration_error(provider: hr.TableProvider, words: str) -> None:
    with pytest.raises(hr.RegistrationError, match=words):
        RegisteredTable.of("t", provider)
