"""Tables and plans that wrap others: what the outer one does not do itself, the inner one does; driver Python."""

from __future__ import annotations

import abc
import copy
import inspect
import operator
from collections.abc import Callable
from typing import TypeVar

from headrace.provider import PerScanProvider, TableProvider, for_scan

_Class = TypeVar("_Class", bound=type)


def contract_names(contract: type) -> list[str]:
    """The public methods and attributes of ``TableProvider`` or ``ExecutionPlan``."""
    named = {name: None for part in contract.__mro__ for name in (*inspect.get_annotations(part), *vars(part))}
    return [name for name in named if not name.startswith("_")]


def passes_on(contract: type) -> Callable[[_Class], _Class]:
    """A class decorator: each public name of ``contract`` that the class does not define is that of its ``inner``.

    A method that the contract gets one day is passed on as well. An inherited default would hide what ``inner`` does.
    """

    def complete(cls: _Class) -> _Class:
        for name in contract_names(contract):
            if name not in vars(cls):
                setattr(cls, name, property(operator.attrgetter(f"inner.{name}")))
        abc.update_abstractmethods(cls)
        return cls

    return complete


@passes_on(TableProvider)
class WrappingTable(PerScanProvider):
    """A table with the rows of ``inner``, which can do all that ``inner`` can."""

    inner: TableProvider

    def for_scan(self) -> TableProvider:
        """A copy of this table around the object that ``inner`` has for the scan."""
        scan = copy.copy(self)
        scan.inner = for_scan(self.inner)
        return scan


def innermost(provider: TableProvider) -> TableProvider:
    """What the provider wraps, or itself: whose class tells what it can do, such as join."""
    while isinstance(provider, WrappingTable):
        provider = provider.inner
    return provider
