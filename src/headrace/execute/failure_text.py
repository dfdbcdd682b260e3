"""Failures read back from their text, where only that came through; driver Python.

A Spark Connect client gets the message of an exception, not the record that travels beside it in a classic session.
"""

from __future__ import annotations

import ast
import builtins
import re

import headrace.errors as errors
from headrace.execute.failure import Failure
from headrace.execute.rebuild import put_together

_TEXT = re.compile(
    r"(?P<kind>[\w.<>]+)(?:: (?P<message>.*?))?(?:\n  in (?P<place>[^\n]*))?(?:\n\n(?P<traceback>Traceback .*))?",
    re.DOTALL,
)
_PLACE = re.compile(r"(?:(?P<where>.*?), )?table (?P<table>'.*'|\".*\")(?:, partition (?P<partition>\d+))?")


def failure_from_text(text: str) -> Failure | None:
    """The failure whose ``text()`` this is; None where it is another text.

    What the original exception was put together from is not in it: one that was given more than its message cannot be
    rebuilt.
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        return None
    kind, message = match["kind"], match["message"] or ""
    place = _PLACE.fullmatch(match["place"] or "")
    own = getattr(errors, kind, None)
    is_own = isinstance(own, type) and issubclass(own, errors.HeadraceError)
    if place is None and not is_own:
        return None
    module = "headrace.errors." if is_own else "builtins." if hasattr(builtins, kind) else ""
    return Failure(
        error=kind if is_own else "ProviderError",
        exception_type=module + kind,
        message=message,
        traceback=match["traceback"] or "",
        where=(place["where"] or "") if place is not None else "",
        table=ast.literal_eval(place["table"]) if place is not None else None,
        partition=int(place["partition"]) if place is not None and place["partition"] else None,
        parts=_parts(module + kind, message),
    )


def _parts(exception_type: str, message: str) -> dict[str, object] | None:
    """Those of an exception that was given its message and nothing else, as far as the message tells."""
    parts: dict[str, object] = {"arguments": [message], "attributes": {}}
    original = put_together(exception_type, parts)
    return None if isinstance(original, OSError) or str(original) != message else parts
