"""100,000 damaged streams for each end of the transport: no crash, no hang, named errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from damage import damaged, is_refused
from java_checks import GOLDEN, compiled_checks, run_check
from raw_frames import WHOLE

STREAMS = 100_000


@pytest.mark.timeout(1800)
def test_inbox_damaged_streams_are_refused_by_name_or_whole() -> None:
    refused = sum(is_refused(damaged(WHOLE, seed)) for seed in range(STREAMS))
    assert 0 < refused <= STREAMS


@pytest.mark.timeout(1800)
def test_reader_damaged_streams_are_refused_by_name_or_whole(tmp_path: Path) -> None:
    printed = run_check(
        compiled_checks(tmp_path),
        "transport.FrameFuzz",
        str(GOLDEN),
        "0",
        str(STREAMS),
        options=("-Xmx256m",),
        timeout_s=1700,
    )
    assert f"{STREAMS} streams" in printed
