"""A small part of the fault campaign of ``make faults``: a real standalone cluster, one run per kind of fault."""

from __future__ import annotations

import pytest
from faults.campaign import outcomes
from faults.hosts import can_isolate
from faults.injection import FAULTS
from faults.judge import Outcome, Verdict, chosen
from faults.report import BEGIN, END, replaced, tables

SEED = 5
RUNS = {"kill an executor", "kill a Python worker", "producer raises", "reset connections", "cancel all jobs"}


@pytest.mark.daily
@pytest.mark.timeout(400)
def test_small_campaign_ends_each_run_right_or_with_a_named_error_and_leaves_nothing() -> None:
    network = can_isolate()
    due = {fault.name for fault in FAULTS if fault.name in RUNS and (network or not fault.network)}
    indices = [index for index in range(len(FAULTS)) if chosen(SEED, index, network=network)[1].name in due]
    found = list(outcomes(SEED, indices[: len(due)]))
    assert {outcome.fault for outcome in found} == due
    assert [outcome for outcome in found if outcome.is_bad] == []


def test_every_fault_is_met_by_a_job() -> None:
    for index, fault in enumerate(FAULTS):
        assert chosen(SEED, index, network=True)[1] is fault


def test_same_seed_chooses_the_same_runs() -> None:
    def names(seed: int) -> list[tuple[str, str]]:
        return [(job.name, fault.name) for job, fault, _ in (chosen(seed, index, network=True) for index in range(60))]

    assert names(1) == names(1)
    assert names(1) != names(2)


def test_tables_count_what_went_wrong_and_replace_the_old_ones() -> None:
    bad = Outcome(1, "job", "a fault", Verdict.WRONG.value, "", 2.0, 0.5, "")
    good = Outcome(0, "job", "a fault", Verdict.RIGHT.value, "", 1.0, 0.0, "")
    assert bad.is_bad
    assert not good.is_bad
    text = tables([good, bad], seed=3)
    assert "2 runs, seed 3: 1 right, 0 named error, 0 unnamed error, 1 wrong, 0 hang" in text
    assert "| a fault | 2 | 1 | 0 | 1 |" in text
    document = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert "old" not in replaced(document, text)
    assert replaced(document, text).endswith("after\n")
    with pytest.raises(ValueError, match="no place"):
        replaced("nothing here", text)
