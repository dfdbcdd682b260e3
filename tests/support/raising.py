"""Exceptions that make it hard to tell what they are, and providers that raise one after some rows; for the tests."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from producing import numbers

LIKE_OURS = "x\n  in y, table 'a' + 'b'\n\nTraceback z"


def refuse(*_: Any, **__: Any) -> Any:
    raise RuntimeError("refused")


class HostileText(str):
    """A str whose methods are the user's."""

    __slots__ = ()
    __len__ = __getitem__ = __format__ = encode = refuse  # type: ignore[assignment]


class Mute(Exception):
    __str__ = refuse


class NoText(Exception):
    def __str__(self) -> Any:
        return 7


class Derived(Exception):
    def __str__(self) -> str:
        return HostileText("derived words")


class NoRepr(Exception):
    __repr__ = refuse


class NoPickle(Exception):
    __reduce__ = __reduce_ex__ = __getstate__ = refuse


class NoArgs(Exception):
    args = property(refuse)  # type: ignore[assignment]


class NoCause(Exception):
    __cause__ = property(refuse)  # type: ignore[assignment]


class NoNotes(Exception):
    __notes__ = property(refuse)  # type: ignore[assignment]


class NoTraceback(Exception):
    __traceback__ = property(refuse)  # type: ignore[assignment]
    with_traceback = refuse  # type: ignore[assignment]


class NoAttributes(Exception):
    __getattribute__ = refuse


class Unmade(Exception):
    """Was made without its constructor, which is of no use to anybody."""

    __init__ = refuse


class NeedsMore(Exception):
    """Its text is made of what cannot be sent."""

    def __init__(self, shard: object) -> None:
        super().__init__()
        self.shard = shard

    def __str__(self) -> str:
        return f"the shard {self.shard.name} is gone"  # type: ignore[attr-defined]


class Shard:
    name = "s3"


class HostileMeta(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__module__", "__qualname__", "__name__", "__mro__"):
            raise RuntimeError("refused")
        return super().__getattribute__(name)


class Hostile(Exception, metaclass=HostileMeta):
    pass


def unmade() -> BaseException:
    return Unmade.__new__(Unmade, "made in another way")


def noted() -> BaseException:
    error = ValueError("with a note")
    error.__notes__ = 5  # type: ignore[assignment]
    error.__dict__[3] = error.__dict__["\ud800"] = 4  # type: ignore[index]
    return error


def of_nowhere() -> BaseException:
    """Of a class that the driver cannot import."""
    kind: type[BaseException] = type("OfNowhere", (Exception,), {"__module__": "nowhere.at_all"})
    return kind("far away")


def of_module_five() -> BaseException:
    kind: type[BaseException] = type("OfFive", (Exception,), {"__module__": 5})
    return kind("of no module")


EXCEPTIONS: dict[str, tuple[Callable[[], BaseException], str, str]] = {
    "failed process": (partial(subprocess.CalledProcessError, 3, "fetch"), "CalledProcessError", "exit status 3"),
    "text like ours": (partial(ValueError, LIKE_OURS), "ValueError", LIKE_OURS),
    "str raises": (partial(Mute, "given"), "Mute", "whose str() raised RuntimeError, given ('given',)"),
    "str is no text": (NoText, "NoText", "whose str() raised TypeError"),
    "str is derived": (Derived, "Derived", "derived words"),
    "repr raises": (partial(NoRepr, "r"), "NoRepr", "r"),
    "pickling raises": (partial(NoPickle, "p"), "NoPickle", "p"),
    "args raise": (partial(NoArgs, "a"), "NoArgs", "a"),
    "cause raises": (partial(NoCause, "c"), "NoCause", "c"),
    "notes raise": (partial(NoNotes, "n"), "NoNotes", "n"),
    "traceback raises": (partial(NoTraceback, "t"), "NoTraceback", "t"),
    "attributes raise": (partial(NoAttributes, "at"), "NoAttributes", "at"),
    "constructor raises": (unmade, "Unmade", "made in another way"),
    "str needs what is not sent": (partial(NeedsMore, Shard()), "NeedsMore", "the shard s3 is gone"),
    "metaclass raises": (partial(Hostile, "h"), "Hostile", "h"),
    "strange attributes": (noted, "ValueError", "with a note"),
    "class of nowhere": (of_nowhere, "nowhere.at_all.OfNowhere", "far away"),
    "module is no text": (of_module_five, "OfFive", "of no module"),
    "group": (partial(ExceptionGroup, "many", [ValueError("one"), KeyError("two")]), "ExceptionGroup", "many (2 sub-"),
    "huge": (partial(ValueError, "begin" + "x" * 10_000_000 + "end"), "ValueError", "characters left out"),
    "huge number": (partial(ValueError, 10**1500), "ValueError", "0000"),
    "unprintable number": (partial(ValueError, 10**6000), "ValueError", "whose str() raised ValueError"),
    "half a surrogate": (partial(ValueError, "half \ud800 of it"), "ValueError", r"half \ud800 of it"),
    "zero": (partial(ValueError, "a\0b"), "ValueError", "a\0b"),
    "empty": (ValueError, "ValueError", ""),
    "SystemExit": (partial(SystemExit, 3), "SystemExit", "3"),
    "KeyboardInterrupt": (partial(KeyboardInterrupt, "k"), "KeyboardInterrupt", "k"),
    "GeneratorExit": (partial(GeneratorExit, "g"), "GeneratorExit", "g"),
    "StopIteration": (partial(StopIteration, "s"), "StopIteration", "s"),
    "StopAsyncIteration": (partial(StopAsyncIteration, "sa"), "StopAsyncIteration", "sa"),
    "BaseException": (partial(BaseException, "b"), "BaseException", "b"),
}
"""How to make it, and the class and the words that whoever is told of it reads."""


def made(name: str) -> BaseException:
    return EXCEPTIONS[name][0]()


def third_raises(name: str, partition: int) -> Iterator[pa.RecordBatch]:
    """Two rows a partition, then the third raises: with the six that a reader has it would look whole."""
    yield numbers(2, partition * 2)
    if partition == 2:
        raise made(name)


def raise_made(name: str, *_: Any) -> Any:
    raise made(name)


def check_told(name: str, error: BaseException) -> None:
    _, kind, words = EXCEPTIONS[name]
    text = str(error)
    assert kind in text, text[:2000]
    assert words in text, text[:2000]
