"""All that differs between PySpark 4.0, 4.1, 4.2 and 4.3, in Python; driver and executor Python.

What differs in the JVM is in ``org.headrace.spark.Versions``.
"""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.errors import HeadraceError, MissingPackageError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceReader
    from pyspark.sql.types import DataType, StructType

OLDEST, NEWEST = (4, 0), (4, 3)
_INSTALL = "pip install 'headrace[spark]'"
_Class = TypeVar("_Class", bound=type)


def check() -> None:
    """Called when this room is imported. Raises ImportError without a PySpark that can work; warns of a newer one."""
    try:
        import pyspark
    except ModuleNotFoundError as error:
        if error.name not in ("pyspark", "py4j"):
            raise
        raise MissingPackageError(
            f"Headrace needs PySpark and there is none (no module {error.name!r}): {_INSTALL}"
        ) from None
    found = minor_version(pyspark.__version__)
    if found >= OLDEST and _is_client_alone():
        raise ImportError(
            "this PySpark is the client of Spark Connect alone (pyspark-client), and Headrace needs all of PySpark, "
            "for Connect sessions too: pip install 'headrace[spark,connect]' in an environment of its own"
        )
    if found < OLDEST:
        raise ImportError(
            f"Headrace needs PySpark {_text(OLDEST)} or newer, found {pyspark.__version__}: {_INSTALL} in an "
            "environment of its own"
        )
    if found > NEWEST:
        warnings.warn(
            f"Headrace was tested with PySpark {_text(OLDEST)} to {_text(NEWEST)}, found {pyspark.__version__}; if "
            "something fails, look for a newer Headrace",
            stacklevel=2,
        )


def installed() -> str:
    """The version of this PySpark, and where it is."""
    import pyspark

    return f"{pyspark.__version__} at {pyspark.__path__[0]}"


def check_server(version: str) -> None:
    """Called when a session of Spark Connect is adopted. Raises HeadraceError for a server that is too old."""
    found = minor_version(version)
    if found < OLDEST:
        raise HeadraceError(
            f"this Spark Connect server runs Spark {version}, and Headrace's connector needs {_text(OLDEST)} or newer "
            f"there; connect to a server of Spark {_text(OLDEST)} to {_text(NEWEST)}"
        )
    if found > NEWEST:
        warnings.warn(
            f"Headrace was tested with Spark Connect servers {_text(OLDEST)} to {_text(NEWEST)}, this one runs "
            f"{version}; if something fails, look for a newer Headrace",
            stacklevel=2,
        )


def _is_client_alone() -> bool:
    from pyspark.util import is_remote_only

    return bool(is_remote_only())


def minor_version(text: str) -> tuple[int, int]:
    """The first two numbers of ``4.1.0.dev1``. Raises ImportError for a text that does not begin with them."""
    match = re.match(r"(\d+)\.(\d+)", text)
    if match is None:
        raise ImportError(f"Headrace cannot read the version of this PySpark: {text!r}")
    return int(match[1]), int(match[2])


def session_defaults() -> dict[str, str]:
    """Settings for a session of ours that later versions have by themselves: partitioning that spares a shuffle."""
    bucketing = "spark.sql.sources.v2.bucketing"
    return {f"{bucketing}.enabled": "true", f"{bucketing}.pushPartValues.enabled": "true"}


def join_pushdown_setting() -> str | None:
    """The setting under which Spark offers joins to tables, off unless set; None in 4.0, which never offers any."""
    import pyspark

    offers = minor_version(pyspark.__version__) >= (4, 1)
    return "spark.sql.optimizer.datasourceV2JoinPushdown" if offers else None


def arrow_schema(struct: StructType) -> pa.Schema:
    """PySpark's Arrow schema, timestamps in UTC: ``timezone`` from 4.2, ``timestamp_utc`` before."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" in _parameters(to_arrow_schema):
        return to_arrow_schema(struct, timezone="UTC")
    return to_arrow_schema(struct, timestamp_utc=True)  # type: ignore[call-arg]


def converter(type_: DataType) -> Callable[[Any], Any] | None:
    """PySpark's own conversion of one Python value for Arrow; None where it would leave every value as it is."""
    from pyspark.sql.conversion import LocalDataToArrowConversion

    create: Callable[..., Callable[[Any], Any] | None] = LocalDataToArrowConversion._create_converter
    if "none_on_identity" in _parameters(create):
        return create(type_, none_on_identity=True)
    if not LocalDataToArrowConversion._need_converter(type_):
        return None
    # 4.0 would make variants of variants; Arrow takes their two parts.
    parts = {"variants_as_dicts": True} if "variants_as_dicts" in _parameters(create) else {}
    return create(type_, **parts)


def inherited_push_filters() -> Callable[..., Any] | None:
    """The method that readers inherit; None in 4.0, whose Python Data Source knows no such method."""
    from pyspark.sql.datasource import DataSourceReader

    inherited: Callable[..., Any] | None = getattr(DataSourceReader, "pushFilters", None)
    return inherited


def pushes_filters(reader: DataSourceReader) -> bool:
    """Whether the reader has a ``pushFilters`` of its own: in its class, or in itself (that of ``as_data_source``)."""
    inherited = inherited_push_filters()
    if inherited is None:
        return False
    return "pushFilters" in vars(reader) or getattr(reader.pushFilters, "__func__", None) is not inherited


def stream_arrow_writer() -> tuple[type, ...]:
    """The class of stream writers that take Arrow batches; none in 4.0."""
    from pyspark.sql import datasource

    found: type | None = getattr(datasource, "DataSourceStreamArrowWriter", None)
    return () if found is None else (found,)


def spark_read_limit(max_rows: int | None, max_bytes: int | None) -> Any:
    """PySpark's own limit for a stream reader, of rows where both are given. Before 4.2 no reader takes one."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

    if max_rows is not None:
        return ReadMaxRows(max_rows)
    return ReadAllAvailable() if max_bytes is None else ReadMaxBytes(max_bytes)


def knows_available_now(reader: _Class) -> _Class:
    """A class decorator: a stream reader with ``prepareForTriggerAvailableNow``. Before 4.2 Spark does it itself."""
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:
        return reader
    SupportsTriggerAvailableNow.register(reader)
    return reader


def types_without_arrow() -> tuple[type[DataType], ...]:
    """Spark's types that Arrow alone would turn into something else. The geographic ones came with 4.1."""
    return _known("UserDefinedType", "GeographyType", "GeometryType")


def named_beside_arrow() -> tuple[type[DataType], ...]:
    """Spark's types of which several have one Arrow type, so that their name has to be told. TIME came with 4.1."""
    return _known("DayTimeIntervalType", "TimeType")


def has_time_type() -> bool:
    """Whether this version has a TIME type, which may be switched off."""
    return bool(_known("TimeType"))


def has_arrow_type(type_: DataType) -> bool:
    """Whether PySpark has an Arrow type for it: not for intervals of months, and those of 4.0's calendar."""
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.types import StructField, StructType

    if type_.typeName() in ("struct", "array", "map"):  # their parts are asked for alone
        return True
    try:
        arrow_schema(StructType([StructField("of", type_)]))
    except PySparkTypeError:
        return False
    return True


def _known(*names: str) -> tuple[type[DataType], ...]:
    from pyspark.sql import types

    return tuple(getattr(types, name) for name in names if hasattr(types, name))


@functools.cache
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def add_to_message(error: Any, sentence: str) -> None:
    """Puts a sentence behind the first line of what a PySpark exception says; classic and Connect's differ."""
    attribute = "_desc" if hasattr(error, "_desc") else "_message"
    first, newline, rest = str(getattr(error, attribute)).partition("\n")
    setattr(error, attribute, f"{first} {sentence}{newline}{rest}")
