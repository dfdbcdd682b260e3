"""Arguments of public constructors and functions, held against their annotations; everywhere, standard library only."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Fits = Callable[[Any], bool]

_NUMBERS: dict[Any, Fits] = {
    int: lambda value: hasattr(type(value), "__index__") and not isinstance(value, bool),
    float: lambda value: hasattr(type(value), "__float__") and not isinstance(value, bool),
}
_MANY = (collections.abc.Iterable, collections.abc.Sequence, collections.abc.Collection, tuple, list)


def checked(*parameters: str, without: str = "") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A call whose arguments, or those ``parameters`` of them, do not fit the annotations raises TypeError.

    ``without``: the one that somebody else checks.

    Only what is plain to see is checked: classes, numbers, functions, and the items of a list or tuple.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = functools.cache(lambda: inspect.signature(function))  # 50 us each, and most are never called
        owner = function.__qualname__.removesuffix(".__init__")

        def wanted(hints: dict[str, Any]) -> set[str]:
            return set(parameters or hints) - {without}

        @functools.cache  # when it is first called: annotations may name what is defined later
        def checks() -> dict[str, tuple[Fits, Any]]:
            hints = typing.get_type_hints(function)
            return {name: (_fits(hint), hint) for name, hint in hints.items() if name in wanted(hints)}

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name, value in signature().bind(*args, **kwargs).arguments.items():
                if name in checks() and not checks()[name][0](value):
                    raise _wrong(owner, name, checks()[name][1], value)
            return function(*args, **kwargs)

        return call

    return decorate


def check_fields(instance: Any) -> None:
    """For ``__post_init__`` of a dataclass: raises TypeError for a field that does not fit its annotation."""
    for name, fits, hint in _field_checks(instance.__class__):
        if not fits(value := getattr(instance, name)):
            raise _wrong(type(instance).__name__, name, hint, value)


@functools.cache
def _field_checks(owner: Any) -> tuple[tuple[str, Fits, Any], ...]:
    hints = typing.get_type_hints(owner)
    fields = dataclasses.fields(owner)
    return tuple((f.name, _fits(hints[f.name]), hints[f.name]) for f in fields if hints[f.name] is not Any)


def _wrong(owner: str, parameter: str, hint: Any, value: Any) -> TypeError:
    what = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    if isinstance(value, (list, tuple)):
        what += f" of {', '.join(sorted({type(item).__name__ for item in value})) or 'nothing'}"
    shown = f" {value!r}" if isinstance(value, (str, int, float, bool)) and len(repr(value)) < 50 else ""
    return TypeError(f"{owner}: {parameter} must be {_text(hint)}, not {what}{shown}")


def _fits(hint: Any) -> Fits:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return lambda value: True
    if hint in _NUMBERS:
        return _NUMBERS[hint]
    if hint is None or hint is type(None):
        return lambda value: value is None
    if origin in (types.UnionType, typing.Union):
        options = [_fits(argument) for argument in arguments]
        return lambda value: any(fits(value) for fits in options)
    if origin is typing.Literal:  # an operator that is not known is nobody's error: it is not understood, and passed on
        return lambda value: isinstance(value, str)
    if origin is collections.abc.Callable:
        return callable
    if origin in _MANY:
        return functools.partial(_fits_many, origin, _fits(arguments[0]) if arguments else None)
    if origin is not None:
        return lambda value: isinstance(value, origin)
    return lambda value: isinstance(value, hint)


def _fits_many(kind: Any, fits_item: Fits | None, value: Any) -> bool:
    if isinstance(value, (str, bytes)) or not isinstance(value, kind):
        return False
    return fits_item is None or not isinstance(value, (list, tuple)) or all(map(fits_item, value))


def _text(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_text(argument) for argument in arguments)
    if origin is typing.Literal:
        return "one of " + ", ".join(map(repr, arguments))
    if origin is collections.abc.Callable:
        return "a function"
    if origin is collections.abc.Mapping:
        return "a mapping"
    if origin in _MANY:
        many = "a tuple" if origin is tuple else "a list or tuple"
        return f"{many} of {_text(arguments[0])}" if arguments else many
    if hint is None or hint is type(None):
        return "None"
    names = {int: "a whole number", float: "a number", str: "text", bool: "True or False"}
    module = str(getattr(hint, "__module__", "")).partition(".")[0]
    name = str(getattr(hint, "__name__", hint))
    return names.get(hint, f"hr.{name}" if module == "headrace" else f"pyarrow.{name}" if module == "pyarrow" else name)
