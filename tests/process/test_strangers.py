"""What other users of the machine find open of a session: nothing of Headrace; a Spark of its own, for the umask."""

from __future__ import annotations

from typing import Any

import pytest

from pushing import findings

pytestmark = [pytest.mark.timeout(300), pytest.mark.daily]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return findings("strangers.py", timeout_s=280)


def test_session_without_foreach_batch_has_no_callback_server(found: dict[str, Any]) -> None:
    assert found["rows"] == [3, 4]
    assert not found["callback server"]
    if found["unix sockets"]:  # from 4.1 on; before, PySpark listens for accumulators, with a secret
        assert found["ports"] == []


def test_stranger_at_the_callback_server_of_foreach_batch_reaches_nothing_of_headrace(found: dict[str, Any]) -> None:
    assert found["reachable"] == ["pyspark.sql.utils.ForeachBatchFunction"]
    assert not [answer for answer in found["answers"] if "default" in answer]
    assert found["asked"] == 0


def test_sockets_at_a_generous_umask_lie_in_directories_of_the_user_alone(found: dict[str, Any]) -> None:
    assert len(found["sockets"]) >= (3 if found["unix sockets"] else 1), (
        "the endpoint's, the accumulators', the workers'"
    )
    assert set(found["sockets"].values()) == {"0o700"}, found["sockets"]
