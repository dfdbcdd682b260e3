"""Thousands of conversations between the JVM's side and a worker's: no hang, no wrong answer, named errors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conversations import hold
from java_checks import GOLDEN, compiled_checks, run_check
from worker_daemon import WorkerDaemon

FIRST_SEED = 1_000_000  # others than those of every day
CONVERSATIONS = 10_000


@pytest.mark.timeout(1800)
def test_worker_in_random_conversations_answers_each_request_and_always_ends() -> None:
    with WorkerDaemon() as daemon, ThreadPoolExecutor(8) as threads:
        seeds = range(FIRST_SEED, FIRST_SEED + CONVERSATIONS)
        held = {seed: threads.submit(hold, daemon, seed) for seed in seeds}
        failed = {seed: error for seed, future in held.items() if (error := future.exception()) is not None}
    assert failed == {}


@pytest.mark.timeout(1800)
def test_connection_to_workers_of_every_fate_ends_whole_or_by_name(tmp_path: Path) -> None:
    printed = run_check(
        compiled_checks(tmp_path),
        "transport.WorkerConnectionCheck",
        str(GOLDEN),
        str(FIRST_SEED),
        str(CONVERSATIONS),
        timeout_s=1700,
    )
    assert f"{CONVERSATIONS} conversations held" in printed
