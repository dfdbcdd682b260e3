"""The protocol between JVM and worker, driven through random interleavings of both sides: no hang, no wrong answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from conversations import hold
from effort import cases
from worker_daemon import WorkerDaemon

pytestmark = pytest.mark.core

AT_A_TIME = 8  # most of them wait


@pytest.mark.timeout(1800)
def test_worker_in_random_conversations_answers_each_request_and_always_ends() -> None:
    with WorkerDaemon() as daemon, ThreadPoolExecutor(AT_A_TIME) as threads:
        held = {seed: threads.submit(hold, daemon, seed) for seed in range(cases(1500))}
        failed = {seed: error for seed, future in held.items() if (error := future.exception()) is not None}
    assert failed == {}
