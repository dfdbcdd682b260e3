"""The error for an unknown table names the registered tables with a similar name; driver Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException

from headrace.display import names_text
from headrace.spark.versions import add_to_message

_CONDITION = "TABLE_OR_VIEW_NOT_FOUND"
_FORMAT = "headrace"
_LIKE_A_FILE = "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"
_MOST_NEAR = 5
_CUTOFF = 0.5


@contextmanager
def naming_near_tables(names: Callable[[], list[str]], catalog: str) -> Iterator[None]:
    """Adds the similar ones of the registered ``names`` to Spark's own exception, and lets it pass.

    Or the name of the ``catalog``, where Spark takes another spelling of it for the name of the format.
    """
    try:
        yield
    except AnalysisException as error:
        if error.getCondition() == _CONDITION:
            wanted = (error.getMessageParameters() or {}).get("relationName", "")
            near = near_names(wanted, names())
            if near not in str(error):  # as Headrace's catalog says it
                add_to_message(error, f"{near}.")
        elif error.getCondition() == _LIKE_A_FILE:
            wanted = (error.getMessageParameters() or {}).get("dataSourceType", "")
            if wanted.lower() == _FORMAT:
                add_to_message(error, f"The catalog of this context is {catalog}, in just this spelling.")
        raise


def near_names(wanted: str, names: list[str]) -> str:
    """Which of ``names`` look like ``wanted``, perhaps quoted and qualified; all of them where none does."""
    import difflib  # takes a while, and most queries find their tables

    last = wanted.replace("`", "").rpartition(".")[2].lower()
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(last, by_lower, _MOST_NEAR, _CUTOFF)
    near += [lower for lower in by_lower if lower not in near and last and (last in lower or lower in last)]
    if near:
        return f"Registered here under a name near that: {', '.join(by_lower[lower] for lower in near[:_MOST_NEAR])}"
    return f"Registered here: {names_text(names)}" if names else "No table is registered here"
