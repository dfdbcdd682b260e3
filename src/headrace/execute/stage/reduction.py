"""One aggregation over tables in memory: rows to groups, groups to fewer groups, rows to groups of one; executors.

Groups, whichever way they were made, have the aggregation's own schema. Spark merges them once more, so a group may
come several times. Everything is done by the thread that calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headrace.execute.stage.extremes import is_ordered_alike, ordered, restored
from headrace.expr.nodes import Expr
from headrace.plan import AggregateFunction, Aggregation

try:  # pyarrow.acero is this, and pyarrow.dataset and pandas too: a third of a second in each new worker
    from pyarrow import _acero as acero
except ImportError:
    from pyarrow import acero

SUM_LIMIT = 2**63
"""A sum of integers is handed out before the absolute values in it add up to so much: only Spark decides whether it
fails or wraps around."""

_LEAST_PIECE = 1024  # rows; of values so large that these could overflow, each is handed out by itself
_MERGED_BY = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}

Dictionaries = Sequence[pa.Array | None]
"""For each key the values to which its rows point; None for a key that is there itself."""
_Wanted = tuple[str | None, str]
"""A column, None for the rows themselves, and what is computed of it."""


class Reduction:
    """The columns that an aggregation is computed from, and how. Any number of threads."""

    def __init__(self, aggregation: Aggregation) -> None:
        self.schema = aggregation.schema
        self.keys: tuple[Expr, ...] = aggregation.group_by
        operands = (one.operand for one in aggregation.functions if one.operand is not None)
        self.operands: tuple[Expr, ...] = tuple(dict.fromkeys(operands))
        self.key_names = [f"key {i}" for i in range(len(self.keys))]
        self.operand_names = [f"value {i}" for i in range(len(self.operands))]
        self._functions = aggregation.functions
        self.only_counted = frozenset(self.operands).difference(
            one.operand for one in aggregation.functions if one.operand is not None and one.name != "count"
        )
        """Operands of which it matters only whether they are null."""
        self._columns = [None if one.operand is None else self._name_of(one.operand) for one in self._functions]

    def _name_of(self, operand: Expr) -> str:
        return self.operand_names[self.operands.index(operand)]

    def reduced(self, rows: pa.Table, dictionaries: Dictionaries = ()) -> pa.Table:
        """The groups of ``rows``, in which no sum may overflow; without keys one row.

        ``rows`` has the columns ``key_names`` and ``operand_names``, in wire types. Keys with a dictionary are
        places in it; it has a wire type.
        """
        wanted: list[_Wanted] = [(column, one.name) for column, one in zip(self._columns, self._functions, strict=True)]
        return self._aggregated(rows, self.key_names, wanted, dictionaries)

    def of_no_rows(self) -> pa.Table:
        """The one row of an aggregation without keys: counts are zero, all else is null."""
        columns = [
            pa.chunked_array([pa.array([0 if one.name == "count" else None], one.type)]) for one in self._functions
        ]
        return self._typed(columns, ())

    def merged(self, groups: Sequence[pa.Table]) -> pa.Table:
        """The groups of several tables, each once; no sum may overflow."""
        if len(groups) == 1:
            return groups[0]
        keys, results = self.schema.names[: len(self.keys)], self.schema.names[len(self.keys) :]
        named = zip(results, self._functions, strict=True)
        wanted: list[_Wanted] = [(name, _MERGED_BY[one.name]) for name, one in named]
        return self._aggregated(pa.concat_tables(groups), keys, wanted)

    def one_each(self, rows: pa.Table, dictionaries: Dictionaries = ()) -> pa.Table:
        """A group for each row of ``rows``, which has the columns as for ``reduced``."""
        columns = [rows[name] for name in self.key_names]
        for name, function in zip(self._columns, self._functions, strict=True):
            columns.append(_of_one_row(function, None if name is None else rows[name], rows.num_rows))
        return self._typed(columns, dictionaries)

    def most(self, rows: pa.Table) -> int:
        """What the absolute values in any sum of integers over ``rows`` add up to, at most."""
        return max(
            (
                _most(rows[name])
                for name, one in zip(self._columns, self._functions, strict=True)
                if name is not None and one.name == "sum" and pa.types.is_integer(one.type)
            ),
            default=0,
        )

    def pieces(self, rows: pa.Table, dictionaries: Dictionaries = ()) -> Iterator[pa.Table]:
        """Groups of rows whose values are so large that a sum of all could overflow."""
        if rows.num_rows <= _LEAST_PIECE:
            yield self.one_each(rows, dictionaries)
            return
        half = rows.num_rows // 2
        for piece in (rows.slice(0, half), rows.slice(half)):
            if self.most(piece) < SUM_LIMIT:
                yield self.reduced(piece, dictionaries)
            else:
                yield from self.pieces(piece, dictionaries)

    def _aggregated(
        self, table: pa.Table, keys: list[str], wanted: list[_Wanted], dictionaries: Dictionaries = ()
    ) -> pa.Table:
        extremes = dict.fromkeys(name for name, function in wanted if name is not None and function in ("min", "max"))
        in_order = {name: f"{name} in order" for name in extremes if not is_ordered_alike(table[name])}
        types = {one: table[name].type for name, one in in_order.items()}
        for name, one in in_order.items():
            table = table.append_column(one, ordered(table[name]))
        asked: list[_Wanted] = [
            (in_order[name], function) if function in ("min", "max") and name in in_order else (name, function)
            for name, function in wanted
        ]
        found = _grouped(table, keys, asked) if keys else [_of_all_rows(table, *one) for one in asked]
        for i, (column, _) in enumerate(asked, len(keys)):
            if column in types:
                found[i] = restored(found[i], types[column])
        return self._typed(found, dictionaries)

    def _typed(self, columns: list[pa.ChunkedArray], dictionaries: Dictionaries) -> pa.Table:
        for i, values in enumerate(dictionaries):
            if values is not None:
                columns[i] = pc.take(values, columns[i])
        typed = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, self.schema, strict=True)
        ]
        return pa.Table.from_arrays(typed, schema=self.schema)


def _grouped(table: pa.Table, keys: list[str], wanted: list[_Wanted]) -> list[pa.ChunkedArray]:
    """The keys of each group, and what was wanted of each."""
    results = [f"result {i}" for i in range(len(wanted))]
    asked = [
        ([], "hash_count_all", None, result) if name is None else (name, f"hash_{function}", None, result)
        for (name, function), result in zip(wanted, results, strict=True)
    ]
    columns = dict.fromkeys([*keys, *(name for name, _ in wanted if name is not None)])
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table.select(list(columns))))
    aggregate = acero.Declaration("aggregate", acero.AggregateNodeOptions(asked, keys), inputs=[source])
    groups = aggregate.to_table(use_threads=False)
    return [groups[name] for name in (*keys, *results)]


def _of_all_rows(table: pa.Table, name: str | None, function: str) -> pa.ChunkedArray:
    """What was wanted, of all rows, as one value."""
    if name is None:
        value = pa.scalar(table.num_rows, pa.int64())
    elif function == "count":
        value = pc.count(table[name])
    elif function == "sum":
        value = pc.sum(table[name])
    else:
        value = pc.min_max(table[name])[function]
    return pa.chunked_array([pa.repeat(value, 1)])  # not by way of Python, which has no moment after the year 9999


def _of_one_row(function: AggregateFunction, values: pa.ChunkedArray | None, rows: int) -> pa.ChunkedArray:
    if values is None:
        return pa.chunked_array([pa.repeat(pa.scalar(1, pa.int64()), rows)])
    return values.is_valid().cast(pa.int8()) if function.name == "count" else values


def _most(values: pa.ChunkedArray) -> int:
    bits = values.type.bit_width
    if bits < 64:
        return int(len(values) << (bits - 1))
    ends = pc.min_max(values).as_py()
    if ends["min"] is None:
        return 0
    most = len(values) * max(-ends["min"], ends["max"])
    if most >= SUM_LIMIT:  # perhaps only a few are so large; the factor is for what doubles lose
        most = min(most, int(pc.sum(pc.abs(values.cast(pa.float64(), safe=False))).as_py() * (1 + 1e-6)))
    return int(most)
