"""A context's catalogs and table functions: their names in Spark; driver Python."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Protocol

from pyspark.sql import SparkSession

from headrace.catalog import CatalogProvider
from headrace.errors import HeadraceError, RegistrationError, TableExistsError
from headrace.provider import TableProvider
from headrace.spark.catalogs import Catalogs

CATALOG_CLASS = "org.headrace.spark.catalog.HeadraceCatalog"
_SPARK_CATALOGS = {"spark_catalog", "session", "system", "global_temp"}


class CatalogClaims(Protocol):
    """The names of catalogs in Spark, of which each is one context's."""

    def claim(self, name: str) -> bool:
        """Whether the name was free, and is this context's now."""

    def release(self, name: str) -> None:
        """The name is free again."""


class CatalogNames:
    """Registers catalogs and table functions with the planner, which answers for them, and with Spark.

    A catalog works in the sessions that exist and in those to come. A table function is one session's. Calls come
    one at a time, and raise as SessionContext tells.
    """

    def __init__(self, spark: SparkSession, answering: Catalogs, claims: CatalogClaims, wanted: str) -> None:
        """``own``, the context's own catalog, is the first free one of ``wanted``, ``wanted_2``, ``wanted_3``..."""
        self._spark = spark
        self._answering = answering
        self._claims = claims
        self.own = next(name for name in _numbered(wanted) if claims.claim(name))

    def register(self, name: str, catalog: CatalogProvider, *, replace: bool, read_only: bool) -> None:
        check_catalog_name(name)
        if not isinstance(catalog, CatalogProvider):
            raise RegistrationError(
                f"register_catalog({name!r}, ...) takes a CatalogProvider, not {type(catalog).__name__}"
            )
        if self._answering.find(name) is not None:
            if not replace:
                raise TableExistsError(f"catalog {name!r} is registered already; pass replace=True to replace it")
        elif not self._claims.claim(name):
            raise TableExistsError(f"Spark has a catalog {name!r} already; choose another name")
        self._answering.add(name, catalog, read_only=read_only)

    def refresh(self, name: str) -> None:
        catalog = self._answering.find(name)
        if catalog is None:
            known = ", ".join(self._answering.names()) or "none"
            raise HeadraceError(f"no catalog {name!r} is registered here (registered: {known})")
        catalog.refresh()

    def deregister(self, name: str) -> bool:
        if not self._answering.remove(name):
            return False
        self._claims.release(name)
        return True

    def register_function(self, name: str, function: Callable[..., TableProvider], *, replace: bool) -> None:
        _check_function(name, function)
        if self._answering.has_function(name) and not replace:
            raise TableExistsError(f"table function {name!r} is registered already; pass replace=True to replace it")
        replaced = self._answering.add_function(name, function)
        try:
            self._show_functions()
        except BaseException:
            if replaced is None:
                self._answering.remove_function(name)
            else:
                self._answering.add_function(*replaced)
            raise

    def deregister_function(self, name: str) -> bool:
        if not self._answering.remove_function(name):
            return False
        self._show_functions()
        return True

    def drop_functions(self) -> None:
        """Take the functions out of Spark now, and not when it learns that the context has left."""
        if self._answering.remove_functions():
            self._show_functions()

    def leave(self) -> None:
        """Take the catalogs out of Spark; the functions go with the context."""
        for name in (*self._answering.names(), self.own):
            self._claims.release(name)

    def _show_functions(self) -> None:
        """Has the JVM ask which functions there are; it then has these in the session, and no others."""
        self._spark.sql(f"SHOW USER FUNCTIONS IN `{self.own}`").collect()


def check_catalog_name(name: str) -> None:
    """Raises RegistrationError for what cannot be a catalog's name."""
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name) or name.lower() in _SPARK_CATALOGS:
        raise RegistrationError(
            f"a catalog's name is made of letters, digits, '_' and '-', and is none of Spark's own: not {name!r}"
        )


def _check_function(name: str, function: object) -> None:
    """Raises RegistrationError for a name that is not plain, or something that cannot be called."""
    if not isinstance(name, str) or not name.isidentifier():
        raise RegistrationError(f"a table function's name must be a plain one, like find_orders, not {name!r}")
    if not callable(function):
        raise RegistrationError(
            f"register_table_function({name!r}, ...) takes a function that returns a TableProvider, not "
            f"{type(function).__name__}"
        )


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}_{number}" for number in itertools.count(2))
