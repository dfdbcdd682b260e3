"""Failures read back from their text, as a Spark Connect client has to."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.execute.failure import Failure
from headrace.execute.failure_text import failure_from_text


def failure(error: BaseException, **place: object) -> Failure:
    try:
        raise error
    except BaseException as raised:
        return Failure.of(raised, **place)  # type: ignore[arg-type]


@pytest.mark.parametrize("message", ["boom", "two\nlines", "", "  in the end\n\nof it", "é: 'x', table 'y'"])
@pytest.mark.parametrize("table", ["t", "it's", 'a "b" c'])
def test_failure_of_a_provider_is_read_back_whole(message: str, table: str) -> None:
    known = failure(ValueError(message), where="P.execute", table=table, partition=3)
    found = failure_from_text(known.text())
    assert found is not None
    kept = ("error", "exception_type", "message", "where", "table", "partition")
    assert [getattr(found, name) for name in kept] == [getattr(known, name) for name in kept]
    assert found.traceback.strip() == known.traceback.strip()
    assert isinstance(found.to_exception().__cause__, ValueError)


def test_failure_of_headrace_keeps_its_class_without_a_place() -> None:
    found = failure_from_text(failure(hr.TransportError("no connection: refused")).text())
    assert found is not None
    error = found.to_exception()
    assert type(error) is hr.TransportError
    assert str(error) == "no connection: refused"


@pytest.mark.parametrize("error", [KeyError("k"), FileNotFoundError(2, "none", "f")])
def test_failure_whose_exception_had_more_than_a_message_has_no_cause(error: Exception) -> None:
    found = failure_from_text(failure(error, where="P.execute", table="t").text())
    assert found is not None
    assert found.message == str(error)
    assert found.to_exception().__cause__ is None


@pytest.mark.parametrize("text", ["", "boom", "requirement failed: x > 0", "ValueError: boom", "HeadraceErrors: x"])
def test_text_that_is_no_failure_is_none(text: str) -> None:
    assert failure_from_text(text) is None
