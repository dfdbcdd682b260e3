"""Commit messages of a data source's writers as data, not as pickles; workers and driver.

Executors are not trusted with the driver, so it unpickles no message. A message travels as JSON: values, and objects as
the name of their class with their attributes. The driver makes them without a call of the class's code, and only of
classes that it has loaded and that hold data: commit messages, dataclasses, named tuples and enums.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import json
import pathlib
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from numbers import Number
from types import MemberDescriptorType
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage

from headrace.errors import WriteError

_MICROSECOND = dt.timedelta(microseconds=1)
_TEXTS: dict[type, tuple[Callable[[Any], str], Callable[[str], Any]]] = {
    bytes: (lambda value: base64.b64encode(value).decode(), base64.b64decode),
    bytearray: (lambda value: base64.b64encode(value).decode(), lambda text: bytearray(base64.b64decode(text))),
    Decimal: (str, Decimal),
    dt.date: (dt.date.isoformat, dt.date.fromisoformat),
    dt.datetime: (dt.datetime.isoformat, dt.datetime.fromisoformat),
    dt.time: (dt.time.isoformat, dt.time.fromisoformat),
    dt.timedelta: (lambda value: str(value // _MICROSECOND), lambda text: int(text) * _MICROSECOND),
    uuid.UUID: (str, uuid.UUID),
    type(pathlib.Path()): (str, pathlib.Path),
}
"""Values that travel as text, and come back from it. A datetime keeps its offset, not the name of its zone."""
_TEXT_TYPES = {type_.__name__: type_ for type_ in _TEXTS}
_LISTS: dict[str, Callable[[list[Any]], Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


def encode_message(message: WriterCommitMessage) -> str:
    """The message as ASCII text. Raises WriteError for one with what is not data."""
    try:
        return json.dumps(_encode(message))
    except (TypeError, ValueError, RecursionError) as error:
        raise WriteError(
            f"the commit message {type(message).__name__} cannot travel to commit ({error}): give it numbers, text, "
            "bytes, dates, lists, dicts, and dataclasses, named tuples or enums of these"
        ) from None


def _encode(value: Any) -> Any:
    """Raises TypeError for what is not data."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if isinstance(value, Number) and hasattr(value, "item"):  # numpy's
        return _encode(value.item())
    if kind in _TEXTS:
        return {kind.__name__: _TEXTS[kind][0](value)}
    if kind.__name__ in _LISTS and kind.__module__ == "builtins":
        return {kind.__name__: [_encode(one) for one in value]}
    if kind is dict:
        return {"dict": [[_encode(key), _encode(one)] for key, one in value.items()]}
    if isinstance(value, enum.Enum) and kind.__members__.get(value.name) is value:
        return {"enum": [_name(kind), value.name]}
    if _holds_data(kind):
        items = [_encode(one) for one in value] if isinstance(value, tuple) else None
        return {"object": [_name(kind), items, {name: _encode(one) for name, one in _attributes(value)}]}
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} is not data")


class MessageReader:
    """Makes the messages of one write again."""

    def __init__(self) -> None:
        self._classes: dict[tuple[str, type], type] = {}

    def read(self, text: Any) -> WriterCommitMessage:
        """Never runs code of a class that the text names, but for ``__hash__`` and ``__eq__`` of keys. Raises
        WriteError for a text that ``encode_message`` did not make, and for a class that is not loaded.
        """
        try:
            message = self._value(json.loads(text))
            if not isinstance(message, WriterCommitMessage):
                raise TypeError(f"{type(message).__name__} is no WriterCommitMessage")
        except Exception as error:  # a worker may send anything
            raise WriteError(
                f"a commit message cannot be read: {type(error).__name__}: {str(error)[:200]}. Its class, and those of "
                "its values, must be loaded where the table is registered: import them beside the data source"
            ) from None
        return message

    def _value(self, data: Any) -> Any:
        """Raises whatever data raises that ``_encode`` did not make."""
        if data is None or type(data) in (bool, int, float, str):
            return data
        ((kind, content),) = data.items()
        if kind in _TEXT_TYPES:
            return _TEXTS[_TEXT_TYPES[kind]][1](content)
        if kind in _LISTS:
            return _LISTS[kind]([self._value(one) for one in content])
        if kind == "dict":
            return {self._value(key): self._value(one) for key, one in content}
        if kind == "enum":
            members: Any = self._loaded(content[0], enum.Enum)
            return members.__members__[content[1]]
        if kind == "object":
            name, items, attributes = content
            return self._object(name, items, {key: self._value(one) for key, one in attributes.items()})
        raise ValueError(f"{kind!r} is no kind of value")

    def _object(self, name: str, items: list[Any] | None, attributes: dict[str, Any]) -> Any:
        base = object if items is None else tuple
        cls: Any = self._loaded(name, base)
        if not _holds_data(cls):
            raise TypeError(f"{name} is no commit message, dataclass or named tuple")
        made = object.__new__(cls) if items is None else tuple.__new__(cls, map(self._value, items))
        slots = dict(_slots(cls))
        for key, value in attributes.items():
            if key in slots:
                slots[key].__set__(made, value)
            else:
                vars(made)[key] = value
        return made

    def _loaded(self, name: str, base: type) -> type:
        """The class that was defined last of those of this name. Nothing is imported."""
        if (name, base) not in self._classes:
            found = [cls for cls in _subclasses(base) if _name(cls) == name]
            if not found:
                raise LookupError(f"there is no class {name!r} here")
            self._classes[name, base] = found[-1]
        return self._classes[name, base]


def _name(cls: type) -> str:
    """Of any class that is loaded: without the code of a metaclass, which may raise."""
    return f"{type.__getattribute__(cls, '__module__')}.{type.__getattribute__(cls, '__qualname__')}"


def _holds_data(cls: type) -> bool:
    """Whether its objects may come from a worker: one with ``__del__`` would act when it goes."""
    kind = issubclass(cls, (WriterCommitMessage, tuple)) or dataclasses.is_dataclass(cls)
    return kind and not hasattr(cls, "__del__")


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(value, "__dict__", {}).items()
    for name, slot in _slots(type(value)):
        try:
            yield name, slot.__get__(value)
        except AttributeError:  # not set
            continue


def _slots(cls: type) -> Iterator[tuple[str, MemberDescriptorType]]:
    for part in reversed(cls.__mro__):
        for name, member in vars(part).items():
            if isinstance(member, MemberDescriptorType):
                yield name, member


def _subclasses(base: type) -> list[type]:
    """All that are loaded, those of one class in the order of their definitions. A metaclass may not be hashable."""
    found: dict[int, type] = {id(base): base}
    waiting = [base]
    while waiting:
        below: list[type] = type.__subclasses__(waiting.pop())
        new = {id(cls): cls for cls in below if id(cls) not in found}
        found |= new
        waiting += new.values()
    return list(found.values())
