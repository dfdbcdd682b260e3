"""Batches and rows larger than the JVM's memory: split, or refused by name, with the session alive afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from producing import run_script


@pytest.mark.daily
@pytest.mark.timeout(300)
def test_small_heap_reads_large_batches_and_refuses_large_rows_by_name(tmp_path: Path) -> None:
    """One JVM of 512 MB for all, which must outlive everything that it is given."""
    found = run_script("small_heap.py", cwd=tmp_path, timeout_s=280)
    assert found["many rows"] == [160_000_000, 0]
    for case in ("huge row", "promised"):
        kind, text = found[case]
        assert kind == "TransportError", found[case]
        assert "which this JVM has no memory for" in text
        assert "spark.driver.memory" in text
    kind, text = found["huge result"]
    assert kind == "TransportError", found["huge result"]
    assert "spark.driver.memory" in text
    assert found["alive"] == ["10 rows"] * 4
