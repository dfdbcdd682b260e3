"""Spark Connect: a server per file, one session on it, and a fresh context per test."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

import headrace as hr
from connect_server import ConnectServer


@pytest.fixture(scope="module")
def server() -> Iterator[ConnectServer]:
    with ConnectServer() as running:
        yield running


@pytest.fixture(scope="module")
def spark(server: ConnectServer) -> Iterator[Any]:
    # Not SparkSession.builder: that refuses where the process has a classic session, of other tests.
    from pyspark.sql.connect.session import SparkSession

    logging.getLogger("pyspark.sql.connect").setLevel(logging.CRITICAL)  # it prints every failed query once more
    session = SparkSession.builder.remote(server.url).create()
    yield session
    session.stop()


@pytest.fixture
def ctx(spark: Any) -> Iterator[hr.SessionContext]:
    with hr.SessionContext(spark) as context:
        yield context
