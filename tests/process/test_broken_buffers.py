"""Broken batches from providers and sinks, in a process of their own: unchecked, they crash the JVM or Python."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import NamedTuple

import pytest

from broken_arrays import ALL, CONVERTED, ENDS, INSIDE, MANY_ROWS
from places import SCRIPTS

pytestmark = pytest.mark.timeout(300)


class Outcome(NamedTuple):
    table: str
    error: str
    message: str
    alive: bool


class Seen(NamedTuple):
    outcomes: dict[tuple[str, str], Outcome]
    output: str


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest) -> Seen:
    """What became of the batches that the chosen tests ask for."""
    cases = [item.callspec.params for item in request.session.items if item.path == request.path]  # type: ignore[attr-defined]
    wanted = sorted({(case["way"], case["name"]) for case in cases})
    process = subprocess.run(
        [sys.executable, str(SCRIPTS / "broken_buffers.py"), json.dumps(wanted)],
        capture_output=True,
        text=True,
        timeout=280,
    )
    outcomes = {}
    for line in process.stdout.splitlines():
        if line.startswith("FOUND "):
            way, name, *rest = json.loads(line.removeprefix("FOUND "))
            outcomes[way, name] = Outcome(*rest)
    return Seen(outcomes, f"{process.returncode}:\n{process.stdout[-500:]}\n{process.stderr[-3000:]}")


def outcome(seen: Seen, way: str, name: str) -> Outcome:
    found = seen.outcomes.get((way, name))
    assert found is not None, f"it did not get that far; the process ended with {seen.output}"
    assert found.alive
    return found


@pytest.mark.daily(every=6)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("way", ["EXECUTORS", "DRIVER"])
def test_broken_batch_of_a_provider_is_a_named_error_and_the_session_lives(seen: Seen, way: str, name: str) -> None:
    found = outcome(seen, way, name)
    assert found.error == "SchemaMismatchError"
    assert f"table '{found.table}'" in found.message
    assert "partition 0" in found.message
    assert "column 'c" in found.message


@pytest.mark.daily(every=6)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("way", ["sink"])
def test_broken_batch_of_a_sink_is_a_named_error_and_the_session_lives(seen: Seen, way: str, name: str) -> None:
    found = outcome(seen, way, name)
    assert found.error == "SchemaMismatchError"
    assert found.table in found.message
    assert "column 'c" in found.message
    # Found at once where Python reads it: by its ends, to convert it, inside of others. The JVM finds the others.
    inside_of_others = name.startswith(("maps", "lists of", "structs of"))
    shared = name in MANY_ROWS or (name in CONVERTED and "large" not in name)
    at_once = name in ENDS or shared or inside_of_others
    assert ("nothing was written" in found.message) == at_once


@pytest.mark.daily(every=6)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("way", ["limit"])
def test_broken_batch_cut_by_a_limit_is_a_named_error_or_what_lies_before_the_damage(
    seen: Seen, way: str, name: str
) -> None:
    found = outcome(seen, way, name)
    assert found.error in ("SchemaMismatchError", "no error")
    assert name not in INSIDE or found.error == "SchemaMismatchError" or "fall" in name


@pytest.mark.parametrize(("way", "name"), [("DRIVER", "text of other memory")])
def test_broken_batch_error_says_what_was_found_and_what_was_expected(seen: Seen, way: str, name: str) -> None:
    message = outcome(seen, way, name).message
    assert message.endswith("column 'c' (Arrow Utf8) has 4096 as offset 2 of 3, expected 5 to 11")


@pytest.mark.parametrize(
    ("name", "found"),
    {
        "indices far away": f"column 'c' (Arrow Int(32, true)) has {0x7FFFFF00} as index of row 8191, expected 0 to 2",
        "small indices that are negative": "has 255 as index of row 8191, expected 0 to 2",
        "many views just outside": "has a view of 40 bytes at 11 of data buffer 0 in row 8191, expected it inside of "
        "buffers of [50] bytes",
    }.items(),
)
@pytest.mark.parametrize("way", ["EXECUTORS"])
def test_broken_index_or_view_is_named_by_the_jvm(seen: Seen, way: str, name: str, found: str) -> None:
    assert outcome(seen, way, name).message.endswith(found)
