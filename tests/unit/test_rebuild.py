"""Exceptions that cross processes as plain data: which come back as themselves, and that no code runs for it."""

from __future__ import annotations

import base64
import json
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import headrace as hr
from headrace.execute.failure import Failure
from headrace.execute.rebuild import put_together, taken_apart

CALLS: list[tuple[Any, ...]] = []


class ShardError(OSError):
    """A user's class with a constructor and attributes of its own."""

    def __init__(self, shard: int, reason: str) -> None:
        CALLS.append((shard, reason))
        super().__init__(f"shard {shard}: {reason}")
        self.shard = shard
        self.where = (1, "a", b"\xff")
        self.live = object()

    class Inner(KeyError):
        pass


def undecodable() -> UnicodeDecodeError:
    try:
        b"\xff".decode()
    except UnicodeDecodeError as error:
        return error
    raise AssertionError


def crossed(error: BaseException) -> BaseException | None:
    failure = Failure.from_json(Failure.of(error).to_json())
    return put_together(failure.exception_type, failure.parts)


@pytest.mark.parametrize(
    "error",
    [
        KeyError("k"),
        KeyError((1, ("a", b"\x00"), None)),
        ValueError(),
        OSError(2, "No such file", "x.csv"),
        FileNotFoundError(2, "No such file"),
        StopIteration(3),
        SystemExit(4),
        undecodable(),
        ShardError.Inner(2.5),
        hr.StreamConsumedError("once only"),
        hr.ProviderError("text", exception_type="X", table="t", partition=3),
    ],
    ids=lambda error: type(error).__name__,
)
def test_exception_of_plain_arguments_comes_back_as_it_was(error: BaseException) -> None:
    again = crossed(error)
    assert type(again) is type(error)
    assert again.args == error.args
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert getattr(again, "errno", None) == getattr(error, "errno", None)


def test_exception_with_a_constructor_comes_back_without_calling_it() -> None:
    error = ShardError(3, "gone")
    CALLS.clear()
    again = crossed(error)
    assert type(again) is ShardError
    assert (str(again), again.shard, again.where) == ("shard 3: gone", 3, (1, "a", b"\xff"))
    assert not hasattr(again, "live")
    assert CALLS == []


@pytest.mark.parametrize(
    "error",
    [
        ValueError(object()),
        ValueError({1: 2}),
        ValueError(float("nan")),
        ValueError("\ud800"),
        ValueError("x" * 70_000),
    ],
    ids=["object", "dict", "nan", "surrogate", "large"],
)
def test_exception_of_other_arguments_is_told_but_not_rebuilt(error: BaseException) -> None:
    assert taken_apart(error) is None
    told = Failure.from_json(Failure.of(error).to_json()).to_exception()
    assert isinstance(told, hr.ProviderError)
    assert told.exception_type == "ValueError"
    assert told.__cause__ is None


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "builtins.eval",
        "builtins.int",
        "subprocess.Popen",
        "antigravity.Error",
        "lazy_module.Error",
        "nowhere",
        "",
        ".",
    ],
)
def test_name_that_is_no_loaded_exception_class_is_not_rebuilt_and_nothing_runs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lazy = ModuleType("lazy_module")
    lazy.__getattr__ = lambda attribute: CALLS.append(attribute)
    monkeypatch.setitem(sys.modules, "lazy_module", lazy)
    CALLS.clear()
    assert put_together(name, {"arguments": ["echo"], "attributes": {}}) is None
    assert CALLS == []
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "parts",
    [None, [], "x", {"arguments": 3}, {"arguments": [{"set": []}]}, {"arguments": [{"bytes": 3}]}, {"attributes": []}],
)
def test_parts_that_are_none_of_ours_are_not_rebuilt(parts: Any) -> None:
    assert put_together("builtins.ValueError", parts) is None


class Evil:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path(self.path).touch, ()


def test_pickle_from_an_executor_is_not_loaded(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    pickled = base64.b64encode(pickle.dumps(Evil(str(mark)))).decode()
    sent = {"error": "ProviderError", "exception_type": "builtins.ValueError", "message": "m", "pickled": pickled}
    error = Failure.from_json(json.dumps(sent)).to_exception()
    assert isinstance(error, hr.ProviderError)
    assert not mark.exists()


@pytest.mark.parametrize("field", ["error", "exception_type", "message", "traceback", "where"])
def test_failure_whose_text_is_no_text_is_a_value_error(field: str) -> None:
    with pytest.raises(ValueError, match="not a failure"):
        Failure.from_json(json.dumps({"error": "ProviderError", field: {"a": 1}}))
