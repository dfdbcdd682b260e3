"""Where Spark runs tasks again the producer's own error reaches the user, not what the retries met; own Sparks."""

from __future__ import annotations

import pytest

from pushing import findings

pytestmark = [pytest.mark.timeout(300), pytest.mark.daily]


@pytest.mark.parametrize("action", ["collect", "native", "execute_stream"])
@pytest.mark.parametrize(
    ("how", "kind", "text", "cause"),
    [
        ("failed", "ProviderError", "LookupError: no such shard", "LookupError"),
        ("dropped", "ProducerLostError", "went away before close()", None),
        ("deregistered", "DeregisteredError", "was deregistered", None),
    ],
)
def test_producer_ending_where_tasks_have_four_attempts_is_what_the_query_fails_with(
    how: str, kind: str, text: str, cause: str | None, action: str
) -> None:
    found = findings("first_cause.py", "local[2,4]", timeout_s=280)[f"{how} {action}"]
    assert text in found[1]
    assert "StreamConsumedError" not in found[1]
    assert "limit was reached" not in found[1]
    if action != "native":
        assert found[0] == kind
        if cause is not None:
            assert found[2] == cause
