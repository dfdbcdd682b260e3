"""The code of every document runs as it stands, with the addresses of real servers put into it."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tools import explain_picture

import headrace as hr
from documents import documents_with_code, run_blocks
from flight_server import Authentication, NoHandshake, serving
from places import EXAMPLES
from session_settings import session_settings

ELSEWHERE = {
    "docs/howto/connect.md",  # tests/process/connect/test_connect.py: needs a server
    "docs/howto/testing.md",  # tests/unit/test_check_findings.py: needs no Spark
}
VISITS = """
DROP TABLE IF EXISTS visits;
CREATE TABLE visits (id int, country text, at timestamptz);
INSERT INTO visits SELECT i, 'no', TIMESTAMPTZ '2024-01-01 00:00Z' + i * interval '1 hour' FROM generate_series(1, 9) i
"""


@pytest.fixture
def addresses(request: pytest.FixtureRequest, document: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """For each address that the document names, that of a server started for it."""
    with contextlib.ExitStack() as running:
        if document in ("docs/howto/rest-api.md", "docs/cookbook/rest-join.md"):
            monkeypatch.syspath_prepend(str(EXAMPLES))
            service = running.enter_context(importlib.import_module("paged_api").product_service())
            yield {"https://shop.example/products": service.url}
        elif document in ("docs/howto/databases.md", "docs/cookbook/postgres-and-files.md"):
            postgres = request.getfixturevalue("postgres")
            postgres.run(*VISITS.split(";"))
            start = running.enter_context(serving())
            flights = start(auth_handler=NoHandshake(), middleware={"auth": Authentication()})
            yield {
                "postgresql://reader:secret@db:5432/shop": postgres.uri,
                "grpc+tls://flight:8815": flights.location,
            }
        else:
            yield {}


@pytest.mark.daily("README.md", "docs/index.md", "docs/tutorial.md", "docs/concepts/negotiation.md")
@pytest.mark.timeout(300)  # PostgreSQL may have to be installed first
@pytest.mark.parametrize("document", sorted(set(documents_with_code()) - ELSEWHERE))
def test_document_code_runs_in_order(spark: SparkSession, document: str, addresses: dict[str, str]) -> None:
    """``SessionContext()`` takes the Spark that is running; what the document leaves open is closed here."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    views_before = temporary_views(spark)
    try:
        with session_settings(spark, {"spark.sql.optimizer.datasourceV2JoinPushdown": "false"}):  # databases.md sets it
            assert run_blocks(document, namespace, addresses) > 0
        if document == "docs/tutorial.md":  # the table is at hand
            assert explain_picture.PICTURE.read_text() == explain_picture.draw(explain_picture.explanation(namespace))
    finally:
        if isinstance(left := namespace.get("ctx"), hr.SessionContext):
            left.close()
        for view in temporary_views(spark) - views_before:
            spark.catalog.dropTempView(view)


def temporary_views(spark: SparkSession) -> set[str]:
    return {table.name for table in spark.catalog.listTables() if table.isTemporary}


def test_documents_with_code_are_found() -> None:
    assert {"README.md", "docs/tutorial.md", "docs/howto/push.md", *ELSEWHERE} <= set(documents_with_code())
