"""The judgement of ``make spark-tests``: which failures are known, which are news."""

from __future__ import annotations

import pytest
from tools.spark_data_source_tests import KNOWN, NOT_OF_READING, Outcome, judged

from places import ROOT

PASSED, FAILED = Outcome("test_a", "passed"), Outcome("test_b", "failed", "Traceback\nValueError: no")


@pytest.mark.parametrize(
    ("found", "known", "right"),
    [
        ([PASSED], {}, True),
        ([PASSED, FAILED], {"test_b": "it cannot"}, True),
        ([PASSED, FAILED], {}, False),
        ([PASSED], {"test_a": "it cannot"}, False),
        ([Outcome("test_c", "not applicable", "writes")], {}, True),
    ],
    ids=["passed", "failed as known", "failed otherwise", "known and passed", "not applicable"],
)
def test_outcomes_are_right_only_if_just_the_known_tests_failed(
    found: list[Outcome], known: dict[str, str], right: bool
) -> None:
    assert judged(found, known)[1] is right


def test_outcomes_as_text_have_reasons_and_sums() -> None:
    text, _ = judged([PASSED, FAILED, Outcome("test_c", "not applicable", "writes")], {})
    assert "test_b  failed          ValueError: no" in text
    assert "test_c  not applicable  writes" in text
    assert "1 of 2 tests of reading passed, 0 failed as known, 1 failed otherwise; 1 not applicable" in text
    assert text.endswith("\ntest_b\nTraceback\nValueError: no")


def test_known_failures_stand_in_the_guide() -> None:
    guide = (ROOT / "docs" / "howto" / "databases.md").read_text()
    assert [name for name in KNOWN if f"`{name}`" not in guide] == []
    assert not KNOWN.keys() & NOT_OF_READING.keys()
