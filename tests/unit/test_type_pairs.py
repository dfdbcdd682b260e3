"""Every pair of types and every test of them: what ``to_pyarrow`` translates runs in pyarrow, and means the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from arrays_of_types import arrays_of_types, taken
from headrace.arrow.types import _WIDENED, DIRECT
from headrace.errors import EvaluationError
from headrace.expr.nodes import (
    Call,
    Cast,
    Column,
    Comparison,
    ComparisonOp,
    Expr,
    InList,
    IsNull,
    Literal,
    Not,
    StringMatch,
    StringMatchOp,
)
from headrace.expr.semantics import kind_of, spark_view

ARRAYS = arrays_of_types()
PLAIN = [array for name, array in ARRAYS.items() if not name.startswith(("dictionary of", "runs of"))]
A, B, NESTED = Column("a"), Column("b"), Column("s", ("a",))
OPERATORS: tuple[ComparisonOp, ...] = ("=", "<=>", "<", "<=", ">", ">=")
MATCHES: tuple[StringMatchOp, ...] = ("STARTS_WITH", "ENDS_WITH", "CONTAINS")
CASTS = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(9,2)", "decimal(38,10)"),
    *("string", "binary", "date", "timestamp", "timestamp_ntz"),
)
FUNCTIONS = ("UPPER", "CHAR_LENGTH", "ABS", "-", "EXTRACT_YEAR", "EXTRACT_HOUR", "COALESCE", "TRIM")
DAILY = ("timestamp?ms, tz=UTC?", "string_view", "decimal128(9, 2)", "double", "dictionary of timestamp?us, tz=UTC?")
every_type = pytest.mark.parametrize("name", ARRAYS)


def reference(expr: Expr, batch: pa.RecordBatch) -> list[bool | None] | None:
    """What Spark answers; None where that is not built in or is a failure. It never fails in pyarrow's own words."""
    try:
        return expr.evaluate(batch, time_zone="Europe/Paris").to_pylist()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise AssertionError(f"{expr!r} over {batch.schema.types}") from error
    except (NotImplementedError, EvaluationError):
        return None


def differences(exprs: Iterator[Expr], table: pa.Table) -> Iterator[str]:
    """What is translated for ``table`` and fails over its rows, or over none, or has other answers."""
    (batch,) = table.to_batches()
    dataset = ds.dataset(table)
    for expr in exprs:
        expected = reference(expr, batch)
        translated = expr.to_pyarrow(schema=table.schema)
        if translated is None:
            continue
        try:
            found = dataset.to_table(columns={"found": translated})["found"].to_pylist()
            none = ds.dataset(table.slice(0, 0)).to_table(columns={"found": translated})
            kept = dataset.filter(translated).count_rows()
        except pa.ArrowException as error:
            yield f"{expr!r} over {table.schema.types}: {error}"
            continue
        if expected is not None and found != expected:
            yield f"{expr!r} over {table.schema.types}: {found} and not {expected}"
        if none.num_rows or kept != found.count(True):
            yield f"{expr!r} over {table.schema.types}: {none.num_rows} and {kept} rows"


def same_kind(left: pa.DataType, right: pa.DataType) -> bool:
    kinds = [None if (view := spark_view(type_)) is None else kind_of(view) for type_ in (left, right)]
    return kinds[0] is kinds[1]


def predicates_on_columns(left: pa.DataType, right: pa.DataType) -> Iterator[Expr]:
    for op in OPERATORS if same_kind(left, right) else ("=", "<=>", "<"):
        yield Comparison(op, A, B)
        yield Not(Comparison(op, A, B))
    yield InList(A, (B,))
    yield Not(InList(B, (A, A)))
    yield StringMatch("CONTAINS", A, B)


@pytest.mark.daily(*DAILY)
@every_type
def test_comparison_of_two_columns_runs_wherever_it_is_translated(name: str) -> None:
    left, found = ARRAYS[name], []
    for right in ARRAYS.values():
        pairs = [(i, j) for i in range(len(left)) for j in range(len(right))]
        columns = taken(left, [i for i, _ in pairs]), taken(right, [j for _, j in pairs])
        table = pa.table(columns, names=["a", "b"])
        found += differences(predicates_on_columns(left.type, right.type), table)
    assert found == []


def literals_of(array: pa.Array) -> list[Literal]:
    """The array's values, but for those that Python cannot hold: the year 0 or 10000 of a zone's clock."""
    found = []
    for scalar in array:
        with contextlib.suppress(OverflowError):
            found.append(Literal(scalar.as_py(), array.type))
    return found


def predicates_on_literals(type_: pa.DataType, literals: list[Literal]) -> Iterator[Expr]:
    related = same_kind(type_, literals[0].type)
    for literal in literals if related else literals[:1]:
        for op in OPERATORS if related else ("=", "<"):
            yield Comparison(op, A, literal)
            yield Not(Comparison(op, A, literal))
        yield Comparison("<", literal, A)
        for match in MATCHES if related else ("CONTAINS",):
            yield StringMatch(match, A, literal)
            yield Not(StringMatch(match, A, literal))
    for values in (literals[:2], literals, literals * 3):
        yield InList(A, tuple(values))
        yield Not(InList(A, tuple(values)))


@pytest.mark.daily(*DAILY)
@every_type
def test_comparison_with_a_literal_runs_wherever_it_is_translated(name: str) -> None:
    table, found = pa.table({"a": ARRAYS[name]}), []
    for other in PLAIN:
        found += differences(predicates_on_literals(ARRAYS[name].type, literals_of(other)), table)
    assert found == []


def test_literals_of_encoded_types_are_known_or_refused_by_name() -> None:
    table = pa.table({"a": pa.array(["a", None])})
    encoded = [array for name, array in ARRAYS.items() if name.startswith(("dictionary of", "runs of"))]
    for other in encoded:
        assert list(differences(predicates_on_literals(pa.string(), literals_of(other)), table)) == []


@every_type
def test_long_list_of_integers_runs_wherever_it_is_translated(name: str) -> None:
    integers = [Literal(number, pa.int64()) for number in range(20)]
    table = pa.table({"a": ARRAYS[name]})
    assert list(differences(iter([InList(A, tuple(integers)), Not(InList(A, tuple(integers)))]), table)) == []


@every_type
def test_single_column_runs_wherever_it_is_translated(name: str) -> None:
    array = ARRAYS[name]
    exprs: list[Expr] = [IsNull(A), Not(IsNull(A)), IsNull(NESTED), Not(IsNull(NESTED))]
    if array.type in (pa.bool_(), pa.null()):
        exprs += [A, Not(A)]
    struct = pa.StructArray.from_arrays([array, array], names=["a", "b"])
    exprs += [Comparison("<", NESTED, Column("s", ("b",))), Comparison("<=>", NESTED, A)]
    assert list(differences(iter(exprs), pa.table({"a": array, "s": struct}))) == []


@pytest.mark.daily(*DAILY)
@every_type
def test_cast_runs_wherever_it_is_translated(name: str) -> None:
    array, found = ARRAYS[name], []
    columns = [other for other in ARRAYS.values() if spark_view(other.type) == other.type]
    for target in CASTS:
        cast = Cast(A, target)
        found += differences(iter([IsNull(cast), Comparison("=", cast, cast)]), pa.table({"a": array}))
        for other in columns:
            count = min(len(array), len(other))
            both = pa.table({"a": array[:count], "b": other[:count]})
            literals = literals_of(other)[:2]
            exprs = [
                Comparison("<", cast, B),
                Comparison("=", B, cast),
                *(Comparison(">=", cast, one) for one in literals),
            ]
            found += differences(iter([*exprs, InList(cast, tuple(literals))]), both)
    assert found == []


@every_type
def test_function_runs_wherever_it_is_translated(name: str) -> None:
    array = ARRAYS[name]
    literals = literals_of(array)[:1]
    calls = [Call(function, (A,)) for function in FUNCTIONS] + [Call(op, (A, A)) for op in "+-*/%"]
    exprs = [IsNull(call) for call in calls]
    exprs += [Comparison("=", call, literal) for call in calls for literal in literals]
    assert list(differences(iter(exprs), pa.table({"a": array}))) == []


FAR: list[tuple[pa.DataType, int]] = [
    *((pa.timestamp(unit, zone), 2**62) for unit in ("s", "ms") for zone in (None, "UTC", "Europe/Paris")),
    *((pa.duration(unit), -(2**62)) for unit in ("s", "ms")),
]


@pytest.mark.parametrize(("type_", "value"), FAR, ids=str)
def test_value_that_spark_cannot_hold_never_gives_wrong_rows(type_: pa.DataType, value: int) -> None:
    """Multiplied to microseconds it would wrap round: the scan is right, or fails as it does without a filter."""
    far = pa.array([value], pa.int64()).cast(type_)
    wire = spark_view(type_)
    assert wire is not None
    table = pa.table({"a": far, "b": pa.array([0], pa.int64()).cast(wire)})
    for right in (B, Literal(table["b"][0].as_py(), wire)):
        translated = Comparison("<", A, right).to_pyarrow(schema=table.schema)
        assert translated is not None
        with contextlib.suppress(pa.ArrowInvalid):
            assert ds.dataset(table).to_table(filter=translated).num_rows == (value < 0)


def test_every_type_of_the_wire_is_among_the_arrays() -> None:
    types = {array.type for array in ARRAYS.values()}
    assert {*DIRECT, *_WIDENED} <= types
