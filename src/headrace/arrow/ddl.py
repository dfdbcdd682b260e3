"""Schemas as Spark's DDL text, ``id BIGINT NOT NULL, name STRING``, read and written; driver Python, no pyspark."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

import pyarrow as pa

from headrace.arrow.spark_types import INTERVALS, SPARK_TYPE, SparkType, named_type, spark_schema
from headrace.arrow.types import TIME, VARIANT, wire_schema

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|--[^\n]*|/\*.*?\*/)+)
    |(?P<name>`(?:[^`]|``)+`)
    |(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<word>\w+)
    |(?P<sign>[<>(),:])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a"}
_KNOWN = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "binary", "date"),
    *("timestamp", "timestamp_ntz", "time", "interval", "array", "map", "struct", "variant", "void"),
)
"""One name of each type, for messages."""
_WITHOUT_EQUAL = {
    "year": "use INT, a number of months",
    "month": "use INT, a number of months",
    "": "say of what it is: INTERVAL DAY TO SECOND",
}
_DDL_NAMES = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}

_T = TypeVar("_T")
_Type = tuple[pa.DataType, dict[str, str]]
"""An Arrow type and the metadata that its field needs, where one Arrow type stands for several of Spark's."""


def schema_from_ddl(text: str) -> pa.Schema:
    """The schema that Spark would read from ``text``, in Arrow's types. Comments go to the fields' metadata.

    Raises ValueError, with the place, for text that is none, and for types that Headrace does not know.
    """
    reader = _Reader(text)
    if re.match(r"\s*struct\s*<", text, re.IGNORECASE):
        struct = reader.type()[0]
        fields = [struct.field(i) for i in range(struct.num_fields)]
    else:
        fields = [] if reader.is_over else reader.several(reader.field)
    reader.expect_end("',' or the end")
    return pa.schema(fields)


def field_from_ddl(name: str, text: str) -> pa.Field:
    """A field of that name; ``text`` is what follows a name in DDL: ``BIGINT NOT NULL``. Raises ValueError."""
    reader = _Reader(text)
    field = reader.field_after(name)
    reader.expect_end("the end")
    return field


def ddl_of(schema: pa.Schema) -> str:
    """The text from which ``schema_from_ddl`` reads a schema that is the same to Spark. Raises UnsupportedTypeError."""
    return _fields_text(spark_schema(wire_schema(schema), schema), " ")


def _fields_text(struct: SparkType, separator: str) -> str:
    assert isinstance(struct, dict)
    return ", ".join(
        f"{_name_text(field['name'])}{separator}{_type_text(field['type'])}{'' if field['nullable'] else ' NOT NULL'}"
        + (f" COMMENT {_quoted(comment)}" if (comment := field["metadata"].get("comment")) else "")
        for field in struct["fields"]
    )


def _name_text(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else f"`{name.replace('`', '``')}`"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _type_text(type_: SparkType) -> str:
    if isinstance(type_, str):
        return _DDL_NAMES.get(type_, type_.upper())
    if type_["type"] == "array":
        return f"ARRAY<{_type_text(type_['elementType'])}>"
    if type_["type"] == "map":
        return f"MAP<{_type_text(type_['keyType'])}, {_type_text(type_['valueType'])}>"
    return f"STRUCT<{_fields_text(type_, ': ')}>"


class _Reader:
    """Reads one text from left to right, token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []  # kind, text, position
        self._next = 0
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                self._fail(f"{text[position]!r} is not expected", position)
            if match.lastgroup != "space":
                self._tokens.append((match.lastgroup or "", match[0], position))
            position = match.end()
        self._tokens.append(("end", "", len(text)))

    @property
    def is_over(self) -> bool:
        return self._tokens[self._next][0] == "end"

    def several(self, one: Callable[[], _T]) -> list[_T]:
        found = [one()]
        while self._takes(","):
            found.append(one())
        return found

    def field(self) -> pa.Field:
        kind, text, position = self._take()
        if kind == "name":
            name = text[1:-1].replace("``", "`")
        elif kind == "word" and not text.isdecimal():
            name = text
        else:
            self._fail_at("a column's name", text, position)
        self._takes(":")
        return self.field_after(name)

    def field_after(self, name: str) -> pa.Field:
        type_, metadata = self.type()
        nullable = True
        if self._takes("not"):
            self._expect("null")
            nullable = False
            if pa.types.is_null(type_):
                self._fail("every value of VOID is null", self._tokens[self._next - 1][2])
        if self._takes("comment"):
            kind, text, position = self._take()
            if kind != "text":
                self._fail_at("a comment in quotes", text, position)
            metadata = {**metadata, "comment": _ESCAPED.sub(_unescaped, text[1:-1])}
        return pa.field(name, type_, nullable, metadata or None)

    def type(self) -> _Type:
        kind, text, position = self._take()
        name = text.lower()
        if kind != "word":
            self._fail_at("a type", text, position)
        if (plain := named_type(name)) is not None:
            return plain, {}
        reader = {
            "decimal": self._decimal,
            "dec": self._decimal,
            "numeric": self._decimal,
            "char": self._characters,
            "character": self._characters,
            "varchar": self._characters,
            "interval": self._interval,
            "time": self._time,
            "array": self._array,
            "map": self._map,
            "struct": self._struct,
        }.get(name)
        if name == "variant":
            return VARIANT, {}
        if reader is None:
            self._fail_unknown(text, position)
        return reader(position)

    def expect_end(self, what: str) -> None:
        kind, text, position = self._tokens[self._next]
        if kind != "end":
            self._fail_at(what, text, position)

    def _decimal(self, position: int) -> _Type:
        precision, scale = (*(self._numbers(most=2) if self._is_sign("(") else [10]), 0)[:2]
        if not 0 < precision <= 38 or scale > precision:
            self._fail(f"DECIMAL({precision}, {scale}) is none of Spark's, which have 1 to 38 digits in all", position)
        return pa.decimal128(precision, scale), {}

    def _characters(self, position: int) -> _Type:
        """The length is a promise to the writers of a table; to its readers it is a string."""
        self._numbers(most=1)
        return pa.string(), {}

    def _interval(self, position: int) -> _Type:
        kind, first, _ = self._tokens[self._next]
        name = "interval"
        if kind == "word" and first.lower() in ("year", "month", "day", "hour", "minute", "second"):
            name += f" {self._take()[1].lower()}"
            if self._takes("to"):
                name += f" to {self._take()[1].lower()}"
        if name not in INTERVALS:
            advice = _WITHOUT_EQUAL.get(
                name.split()[1] if " " in name else "", "the first unit is larger than the last"
            )
            self._fail(f"{name.upper()} is not supported: {advice}", position)
        return pa.duration("us"), {} if name == "interval day to second" else {SPARK_TYPE: name}

    def _time(self, position: int) -> _Type:
        digits = self._numbers(most=1)[0] if self._is_sign("(") else 6
        if digits > 6:
            self._fail(f"Spark has no TIME({digits}): 0 to 6 digits", position)
        return TIME, {} if digits == 6 else {SPARK_TYPE: f"time({digits})"}

    def _array(self, position: int) -> _Type:
        self._expect("<")
        type_, metadata = self.type()
        self._expect(">")
        return pa.list_(pa.field("item", type_, metadata=metadata or None)), {}

    def _map(self, position: int) -> _Type:
        self._expect("<")
        key, key_metadata = self.type()
        if pa.types.is_null(key):
            self._fail("a key of a map is never null, and every value of VOID is", self._tokens[self._next - 1][2])
        self._expect(",")
        value, value_metadata = self.type()
        self._expect(">")
        key_field = pa.field("key", key, nullable=False, metadata=key_metadata or None)
        return pa.map_(key_field, pa.field("value", value, metadata=value_metadata or None)), {}

    def _struct(self, position: int) -> _Type:
        self._expect("<")
        fields = [] if self._is_sign(">") else self.several(self.field)
        self._expect(">")
        return pa.struct(fields), {}

    def _numbers(self, most: int) -> list[int]:
        self._expect("(")
        numbers = self.several(self._number)
        if len(numbers) > most:
            self._fail(f"{most} number{'s' * (most > 1)} at most in these parentheses", self._tokens[self._next][2])
        self._expect(")")
        return numbers

    def _number(self) -> int:
        _, text, position = self._take()
        if not text.isdecimal():
            self._fail_at("a number", text, position)
        return int(text)

    def _take(self) -> tuple[str, str, int]:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _is_sign(self, text: str) -> bool:
        kind, found, _ = self._tokens[self._next]
        return kind in ("sign", "word") and found.lower() == text

    def _takes(self, text: str) -> bool:
        found = self._is_sign(text)
        self._next += found
        return found

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            self._fail_at(f"{text.upper()!r}", *self._tokens[self._next][1:])

    def _fail_unknown(self, text: str, position: int) -> NoReturn:
        import difflib  # for this message alone

        near = difflib.get_close_matches(text.lower(), _KNOWN, 1)
        hint = f"; is {near[0].upper()} meant?" if near else f" ({', '.join(_KNOWN).upper()})"
        self._fail(f"{text!r} is no type that Headrace knows{hint}", position)

    def _fail_at(self, expected: str, found: str, position: int) -> NoReturn:
        self._fail(f"expected {expected}, found {repr(found) if found else 'the end'}", position)

    def _fail(self, what: str, position: int) -> NoReturn:
        start = self._text.rfind("\n", 0, position) + 1
        line = self._text[start:].partition("\n")[0]
        raise ValueError(f"at character {position + 1} of the schema: {what}\n  {line}\n  {' ' * (position - start)}^")


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[1]) if match[1] is not None else match[0][0]
