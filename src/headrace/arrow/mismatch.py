"""What differs between two schemas and how to fix it, for error messages; driver and executor Python."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from headrace.arrow.batches import indented

_MOST_NAMED = 5
_FIXING = re.compile(r"[;\n]\s*fix it with .*")  # of a batch


def mismatch(expected: pa.Schema, found: pa.Schema) -> str:
    """The end of an error about batches: what differs, how to fix it, and both schemas."""
    what = difference(expected, found)
    told = f"{what}\n" if what else ""
    return f"{told}expected:\n{indented(expected)}\nfound:\n{indented(found)}"


def difference(expected: pa.Schema, found: pa.Schema) -> str:
    """One or two lines: which columns differ and how, and the call that fixes a batch; empty if none differ."""
    missing = [name for name in expected.names if name not in found.names]
    extra = [name for name in found.names if name not in expected.names]
    types = _type_differences(expected, found)
    twice = sorted({name for name in found.names if found.names.count(name) > 1})
    if twice and not missing and not extra:
        return f"the columns {_named(twice)} come more than once; give each column once"
    if missing or extra:
        lines = [_about_names(missing, extra)]
        if types:
            lines.append(f"and {types[0]}")
        return "\n".join(lines)
    if found.names != expected.names and not types:
        return f"only the order of the columns differs; fix it with batch.select({_listed(expected.names)})"
    if not types:
        return ""
    nullable = all(
        _nullable(expected.field(name).type) == _nullable(found.field(name).type) for name in set(expected.names)
    )
    if nullable:
        return f"only what is declared nullable inside differs: {types[0]}; fix it with batch.cast(schema)"
    order = f".select({_listed(expected.names)})" if found.names != expected.names else ""
    return f"{'; '.join(types)}\nfix it with batch{order}.cast(schema), if every value fits"


def nearest_difference(allowed: Sequence[pa.Schema], found: pa.Schema) -> str:
    """How ``found``, a plan's or a batch's, differs from that of ``allowed`` with which it shares most columns."""
    what = difference(min(allowed, key=lambda one: len({*one.names} ^ {*found.names})), found)
    return _FIXING.sub("", what)


def _about_names(missing: list[str], extra: list[str]) -> str:
    if missing and sorted(map(str.lower, missing)) == sorted(map(str.lower, extra)):
        return f"the names differ in case: {_named(extra)} should be {_named(missing)}"
    if missing and extra:
        return f"{_columns(missing)} missing, and {_columns(extra)} not expected"
    if missing:
        return f"{_columns(missing)} missing"
    return f"{_columns(extra)} not expected; fix it with batch.select(schema.names)"


def _columns(names: list[str]) -> str:
    return f"column {_named(names)} is" if len(names) == 1 else f"the columns {_named(names)} are"


def _type_differences(expected: pa.Schema, found: pa.Schema) -> list[str]:
    texts = []
    for field in expected:
        positions = found.get_all_field_indices(field.name)
        if len(positions) == 1 and found.field(positions[0]).type != field.type:
            texts.append(f"column {field.name!r} is {found.field(positions[0]).type}, expected {field.type}")
    return texts[:_MOST_NAMED] + ([f"{len(texts) - _MOST_NAMED} more"] if len(texts) > _MOST_NAMED else [])


def _nullable(type_: pa.DataType) -> str:
    """The type's text without what it says of nulls."""
    return str(type_).replace(" not null", "")


def _named(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:_MOST_NAMED]))
    return f"{shown} and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else shown


def _listed(names: list[str]) -> str:
    return repr(names) if len(names) <= _MOST_NAMED else "schema.names"
