"""A session like Spark's, in which ``read.format(...).load()`` of a registered data source goes through Headrace."""

from __future__ import annotations

import itertools
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

import headrace as hr


class Session:
    """Everything else is left to the session that it stands for."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._context = hr.SessionContext(spark)
        self._sources: dict[str, type[DataSource]] = {}
        self._numbers = itertools.count()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    @property
    def read(self) -> Reader:
        return Reader(self)

    @property
    def dataSource(self) -> Session:  # noqa: N802
        return self

    def register(self, source: type[DataSource]) -> None:
        """For Spark too, which writes to it by itself."""
        self._spark.dataSource.register(source)
        self._sources[source.name()] = source

    def load(self, name: str, options: dict[str, Any], schema: StructType | str | None) -> DataFrame | None:
        """The data source's table; None where no source of this name is registered."""
        source = self._sources.get(name)
        if source is None:
            return None
        table = f"source_{next(self._numbers)}"
        self._context.register_table(table, hr.from_data_source(source, options, schema=schema))
        return self._context.table(table)

    def stop(self) -> None:
        self._context.close()
        self._spark.stop()


class Reader(DataFrameReader):
    """Remembers what it is told, until ``load``."""

    def __init__(self, session: Session) -> None:
        super().__init__(session._spark)
        self._session = session
        self._format = ""
        self._options: dict[str, Any] = {}
        self._given: StructType | str | None = None

    def format(self, source: str) -> Reader:
        self._format = source
        super().format(source)
        return self

    def schema(self, schema: StructType | str) -> Reader:
        self._given = schema
        super().schema(schema)
        return self

    def option(self, key: str, value: Any) -> Reader:
        self._options[key] = value
        super().option(key, value)
        return self

    def load(self, path: Any = None, *arguments: Any, **options: Any) -> DataFrame:
        told = {**self._options, **options, **({} if path is None else {"path": path})}
        loaded = self._session.load(self._format, told, self._given)
        return super().load(path, *arguments, **options) if loaded is None else loaded
