"""What PySpark raises for a data source that breaks its contract, in the same classes and words; driver and workers."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkAssertionError, PySparkRuntimeError, PySparkValueError

from headrace.errors import HeadraceError
from headrace.negotiate.asking import ProviderRaised


def type_mismatch(expected: str, found: Any) -> PySparkAssertionError:
    """For what ``reader`` or ``partitions`` returned."""
    return PySparkAssertionError(
        errorClass="DATA_SOURCE_TYPE_MISMATCH",
        messageParameters={"expected": expected, "actual": f"'{type(found).__name__}'"},
    )


def extraneous_filters(reader: object, given: list[Any], returned: list[Any]) -> PySparkValueError:
    """For a filter that ``pushFilters`` returned and was not given."""
    known = set(map(id, given))
    return PySparkValueError(
        errorClass="DATA_SOURCE_EXTRANEOUS_FILTERS",
        messageParameters={
            "type": type(reader).__name__,
            "input": str(given),
            "extraneous": str([filter_ for filter_ in returned if id(filter_) not in known]),
        },
    )


def pushdown_disabled(reader: object) -> PySparkAssertionError:
    """For a reader with ``pushFilters`` where the session says that filters are not pushed."""
    return PySparkAssertionError(
        errorClass="DATA_SOURCE_PUSHDOWN_DISABLED",
        messageParameters={"type": type(reader).__name__, "conf": "spark.sql.python.filterPushdown.enabled"},
    )


def schema_mismatch(expected: object, found: object) -> PySparkRuntimeError:
    """For a row or a batch that does not have the columns of the schema."""
    return PySparkRuntimeError(
        errorClass="DATA_SOURCE_RETURN_SCHEMA_MISMATCH",
        messageParameters={"expected": str(expected), "actual": str(found)},
    )


def invalid_return_type(found: object, name: str, supported: str) -> PySparkRuntimeError:
    """For what ``read`` returned or yielded."""
    return PySparkRuntimeError(
        errorClass="DATA_SOURCE_INVALID_RETURN_TYPE",
        messageParameters={"type": type(found).__name__, "name": name, "supported_types": supported},
    )


def no_commit_message(found: object) -> PySparkRuntimeError:
    """For what ``write`` of a writer returned."""
    return PySparkRuntimeError(
        errorClass="DATA_SOURCE_TYPE_MISMATCH",
        messageParameters={
            "expected": "'WriterCommitMessage' as the return type of the `write` method",
            "actual": type(found).__name__,
        },
    )


def original(raised: ProviderRaised) -> BaseException:
    """What user code raised while it was asked: Spark is told that itself."""
    return raised.__cause__ or HeadraceError(str(raised))
