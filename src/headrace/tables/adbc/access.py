"""How an ADBC database is reached and read: connections, streams, errors without credentials; driver and executors."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.arrow.batches import batch_without_columns
from headrace.arrow.conversion import to_wire
from headrace.arrow.sizes import BATCH_ROWS, COUNTED_ROWS
from headrace.errors import MissingPackageError, ScanEndedError
from headrace.optional import required
from headrace.tables.adbc.credentials import check_uri, without_credentials
from headrace.tables.adbc.duckdb_file import open_duckdb
from headrace.tables.adbc.out_of_range import check_range
from headrace.tables.adbc.sqlite_file import check_sqlite_file, check_sqlite_uri

_PREFIX = "adbc_driver_"
_DIALECTS = {"postgresql": "postgres", "sqlite": "sqlite", "duckdb": "duckdb"}
_ALIASES = {**dict.fromkeys(("postgres", "pg", "pgsql"), "postgresql"), "sqlite3": "sqlite"}
_SQLITE_BATCH_ROWS = "adbc.sqlite.query.batch_rows"


@dataclass(frozen=True, repr=False)
class AdbcAccess:
    """A driver and what it is given to connect. Pickled with plans; nothing shows the URI or the options.

    Raises ValueError, without a word of it, for a malformed URI of PostgreSQL's.
    """

    driver: str
    uri: str
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for uri in (self.uri, dict(self.options).get("uri", "")):
            check_uri(self.driver, uri)
            if self.driver == "sqlite":
                check_sqlite_uri(uri)

    def __repr__(self) -> str:
        return f"AdbcAccess({self.driver!r}, ...)"

    @property
    def dialect(self) -> str | None:
        """sqlglot's name for the driver's SQL; None for a driver whose SQL Headrace does not know."""
        return _DIALECTS.get(self.driver)

    @contextlib.contextmanager
    def connected(self, *, writes: bool = False) -> Iterator[Any]:
        """A cursor on a connection of its own. Raises MissingPackageError without the driver, and its errors."""
        connection = self.connect(writes=writes)
        try:
            with self.scrubbing(), connection.cursor() as cursor:
                yield cursor
        finally:
            connection.close()

    def connect(self, *, writes: bool = False) -> Any:
        """An ADBC DBAPI connection that commits by itself: no snapshot is held open. What is written in one transaction
        stands between BEGIN and COMMIT. Only with ``writes`` a DuckDB file can be written to."""
        try:
            connection = self._opened(writes)
        except Exception as error:
            raise self.scrubbed(error) from None
        if self.driver == "postgresql":
            try:  # with it off, a backslash in a filter's text could end the text
                with connection.cursor() as cursor:
                    cursor.execute("SET standard_conforming_strings = on")
            except BaseException as error:
                connection.close()
                raise (self.scrubbed(error) if isinstance(error, Exception) else error) from None
        return connection

    @contextlib.contextmanager
    def scrubbing(self) -> Iterator[None]:
        """What is raised within has no credentials in its text."""
        try:
            yield
        except Exception as error:
            raise self.scrubbed(error) from None

    def scrubbed(self, error: Exception) -> Exception:
        """The error without credentials in its text."""
        return without_credentials(error, self.uri, self.options)

    def _opened(self, writes: bool) -> Any:
        dbapi = _dbapi(self.driver)
        if self.driver == "sqlite":
            check_sqlite_file(dict(self.options).get("uri") or self.uri)
        if self.driver == "duckdb":
            return open_duckdb(self.uri, dict(self.options), writes=writes)
        options: dict[str, Any] = {"db_kwargs": dict(self.options)} if self.options else {}
        return dbapi.connect(self.uri, autocommit=True, **options)


def driver_name(driver: str) -> str:
    """``postgresql`` for "postgresql", "adbc_driver_postgresql" and other names of a driver that Headrace knows. Raises
    ValueError for what names no module.
    """
    name = driver.removeprefix(_PREFIX)
    known = _ALIASES.get(name.lower(), name.lower())
    if known in _DIALECTS:
        return known
    if not name.isidentifier():
        raise ValueError(
            f"an ADBC driver is named like 'postgresql' or 'adbc_driver_postgresql', not {driver!r}; Headrace knows "
            f"the drivers {', '.join(_DIALECTS)}"
        )
    return name


def _dbapi(driver: str) -> Any:
    """Raises MissingPackageError; one that says what to install for the drivers that Headrace knows only: anybody may
    have published a package of another one's name.
    """
    module = f"{_PREFIX}{driver}.dbapi"
    if driver in _DIALECTS:
        return required(module, f"the ADBC driver {driver!r}, here and on the executors,")
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"there is no ADBC driver {driver!r} here: Python finds no module {error.name!r}. Headrace knows the "
            f"drivers {', '.join(_DIALECTS)}; any other one is an installed package {_PREFIX}<name>, here and on the "
            "executors"
        ) from None


class AdbcStream:
    """The batches of one query in the types of ``schema``. Connects when the first one is asked for.

    Iterated by one thread; ``interrupt`` may come from any: it cancels the query, so that a thread that waits for
    the database wakes. ``marked``: the first row only tells the types and is dropped.
    """

    def __init__(self, access: AdbcAccess, query: str, schema: pa.Schema, *, marked: bool = False) -> None:
        self._access = access
        self._query = query
        self._schema = schema
        self._rows_to_drop = 1 if marked else 0
        self._lock = threading.Lock()
        self._stopped = False
        self._finished = False
        self._connection: Any = None
        self._cursor: Any = None
        self._reader: Any = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = self._read()
        if self._rows_to_drop and batch.num_rows:
            batch = batch.slice(self._rows_to_drop)
            self._rows_to_drop = 0
        columns = []
        for column, field in zip(batch.columns, self._schema, strict=True):
            check_range(column, field, self._access.driver)
            columns.append(to_wire(column, field.type, field.name))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def interrupt(self, reason: str) -> None:
        with self._lock:
            self._stopped = True
            if self._cursor is not None and not self._finished:
                with contextlib.suppress(Exception):  # SQLite's driver cannot: it then stops after this batch
                    self._cursor.adbc_cancel()

    def close(self) -> None:
        """Idempotent."""
        self.interrupt("closed")
        with self._lock:
            closables = (self._reader, self._cursor, self._connection)
            self._reader = self._cursor = self._connection = None
        for closable in closables:
            if closable is not None:
                with contextlib.suppress(Exception):  # a cancelled query's; its rows are wanted no more
                    closable.close()

    def _read(self) -> pa.RecordBatch:
        try:
            if self._stopped:
                raise ScanEndedError("the query was stopped before its end")
            if self._reader is None:
                self._open()
            return self._reader.read_next_batch()
        except StopIteration:
            self._finished = True
            raise
        except Exception as error:
            raise self._access.scrubbed(error) from None

    def _open(self) -> None:
        self._connection = self._access.connect()
        cursor = self._connection.cursor()
        if self._access.driver == "sqlite":
            cursor.adbc_statement.set_options(**{_SQLITE_BATCH_ROWS: str(BATCH_ROWS)})
        with self._lock:
            self._cursor = cursor
            if self._stopped:
                raise ScanEndedError("the query was stopped before it began")
        cursor.execute(self._query)
        self._reader = cursor.fetch_record_batch()


class AdbcCountStream(AdbcStream):
    """As many rows without columns as the query, a ``SELECT count(*)``, says."""

    def __init__(self, access: AdbcAccess, query: str) -> None:
        super().__init__(access, query, pa.schema([("count", pa.int64())]))
        self._remaining: int | None = None

    def __next__(self) -> pa.RecordBatch:
        if self._remaining is None:
            self._remaining = int(super().__next__().column(0)[0].as_py())
        if not self._remaining:
            raise StopIteration
        rows = min(self._remaining, COUNTED_ROWS)
        self._remaining -= rows
        return batch_without_columns(rows)
