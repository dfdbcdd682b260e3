"""The benchmarks run, their contenders agree, and a run's JSON is all that its table and picture need."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks import chart, document, growth, report, startup
from benchmarks.bench import Bench, Settings
from benchmarks.clock import CpuTimes, cpu_times
from benchmarks.groups import GROUPS, Group
from benchmarks.harness import (
    Case,
    Contender,
    Figure,
    Probe,
    Result,
    Timing,
    WrongAnswerError,
    measure,
    same,
)
from benchmarks.run import run

import headrace as hr
from effort import share
from places import ROOT

SOME_CASES: dict[str, Callable[[list[Case | Probe]], Sequence[Case | Probe]]] = {
    "pull": share,
    "shapes": share,
    "tpcds": lambda cases: cases[2:4],  # the others have a test of their own, and there are 99
    "tpch": lambda cases: cases[:2],  # the others have a test of their own, and there are 22
    "turns": lambda cases: [cases[0], cases[1], cases[-1]],  # the same queries
}
ONE_START = Probe("startup", lambda: startup.first_queries(1, {"headrace": "Headrace"}))  # a JVM takes its time
BY_NAME = {
    group.name: replace(group, build=lambda bench: [ONE_START]) if group.name == "startup" else group
    for group in GROUPS
}


@pytest.fixture
def bench(ctx: hr.SessionContext) -> Iterator[Bench]:
    with Bench(ctx, Settings.tiny()) as made:
        yield made


def timed(name: str, *seconds: float, cpu: float = 1.0, limit: bool = False) -> Timing:
    return Timing(name, seconds, (cpu,) * len(seconds), limit)


def result(bars: dict[str, float], *timings: Timing, **options: object) -> Result:
    contenders = [Contender(timing.contender, lambda: None) for timing in timings]
    return Result(replace(Case("a case", contenders, bars), **options), timings)


@pytest.mark.daily
@pytest.mark.parametrize("name", share(list(BY_NAME)))
def test_group_tiny_run_every_case_runs_and_agrees(name: str, bench: Bench, tmp_path: Path) -> None:
    group = BY_NAME[name]
    few = replace(group, build=lambda bench: SOME_CASES.get(name, list)(list(group.build(bench))))
    target = tmp_path / "tiny.json"
    made = run(bench, target, only=name if group.full_only else "", groups=[few])
    assert made["failures"] == []
    assert made["complete"]
    assert made["cases"] or made["figures"]
    assert document.load(target) == made
    assert ElementTree.parse(target.with_suffix(".svg")).getroot().tag.endswith("svg")
    assert report.summary(made).splitlines()[0] in _printed(made)


def test_run_wrong_answer_is_noted_and_the_rest_still_runs(bench: Bench, tmp_path: Path) -> None:
    wrong = Case("wrong", [Contender("headrace", lambda: 1), Contender("rival", lambda: 2)])
    right = Case("right", [Contender("headrace", lambda: 1), Contender("rival", lambda: 1)])
    made = run(bench, tmp_path / "made.json", groups=[Group("any", lambda bench: [wrong, right])])
    assert [case["case"] for case in made["cases"]] == ["right"]
    assert "rival answers 2, headrace 1" in made["failures"][0]["error"]


def test_run_interrupted_keeps_what_was_measured(bench: Bench, tmp_path: Path) -> None:
    def interrupted() -> list[Figure]:
        raise KeyboardInterrupt

    first = Case("first", [Contender("headrace", lambda: 1)])
    group = Group("any", lambda bench: [first, Probe("second", interrupted)])
    run(bench, tmp_path / "made.json", groups=[group])
    kept = document.load(tmp_path / "made.json")
    assert [case["case"] for case in kept["cases"]] == ["first"]
    assert not kept["complete"]


def test_run_only_selects_by_substring(bench: Bench, tmp_path: Path) -> None:
    cases = [Case(name, [Contender("headrace", lambda: 1)]) for name in ("pull: one", "pull: two")]
    made = run(bench, tmp_path / "made.json", only="two", groups=[Group("any", lambda bench: cases)])
    assert [case["case"] for case in made["cases"]] == ["pull: two"]


@pytest.mark.parametrize(
    ("only", "full", "wanted"),
    [("", False, False), ("", True, True), ("adbc", False, True), ("adbc: four", False, True), ("pull", True, False)],
)
def test_group_of_full_runs_wanted_when_named_or_in_full(only: str, full: bool, wanted: bool) -> None:
    assert BY_NAME["adbc"].is_wanted(only, full=full) == wanted


def test_measure_contenders_disagree_refused() -> None:
    case = Case("sums", [Contender("headrace", lambda: [(1, 2.0)]), Contender("rival", lambda: [(1, 2.1)])])
    with pytest.raises(WrongAnswerError, match=r"sums: rival answers \[\(1, 2.1\)\], headrace \[\(1, 2.0\)\]"):
        measure(case, 1)


def test_measure_limit_without_answer_is_not_compared() -> None:
    case = Case("sums", [Contender("headrace", lambda: 3), Contender("bare", lambda: None, limit=True)])
    assert measure(case, 2).timing("bare").limit


def test_measure_rounds_contenders_alternate_and_finish_runs_after_an_error() -> None:
    order: list[str] = []
    case = Case(
        "turns",
        [Contender(name, lambda name=name: order.append(name)) for name in "ab"],
        warmups=0,
        most_rounds=2,
        prepare=lambda: order.append("prepare"),
        finish=lambda: order.append("finish"),
    )
    measure(case, 5)
    assert order == ["prepare", "a", "b", "a", "b", "finish"]
    order.clear()
    with pytest.raises(ZeroDivisionError):
        measure(replace(case, contenders=[Contender("bad", lambda: 1 / 0)]), 1)
    assert order == ["prepare", "finish"]


def test_measure_turns_another_contender_begins_each_round() -> None:
    order: list[str] = []
    contenders = [Contender(name, lambda name=name: order.append(name)) for name in "abc"]
    measure(Case("turns", contenders, warmups=0, turns=True), 4)
    assert "".join(order) == "abc" + "bca" + "cab" + "abc"


def test_ratio_best_of_rival_over_best_of_headrace() -> None:
    measured = result({}, timed("headrace", 2.0, 1.0, 3.0, cpu=3.0), timed("rival", 9.0, 4.0, 5.0, cpu=2.0))
    assert measured.ratio("rival") == 4.0
    assert measured.median_ratio("rival") == 2.5
    assert measured.cpu_ratio("rival") == 1.5


def test_bars_reached_and_missed_are_counted() -> None:
    measured = result(
        {"slow": 3.0, "slower": 9.0},
        timed("headrace", 1.0),
        timed("slow", 3.0),
        timed("slower", 8.0, cpu=0.5),
        cpu_bars={"slower": 1.35},
    )
    made = document.empty(Settings.whole())
    made["cases"].append(document.case_entry(measured))
    made["figures"] += [document.figure_entry(Figure("planning", 12.0, "ms", 15.0))]
    found = {(bar.case, bar.against): bar.reached for bar in document.bars(made)}
    assert found == {
        ("a case", "slow"): True,
        ("a case", "slower"): False,
        ("a case", "CPU of slower"): False,
        ("planning", ""): True,
    }
    assert report.summary(made).startswith("2 of 4 bars reached\n  MISSED a case, slower: 8.00 x, bar: at least 9.00")
    assert any("MISSED" in line for line in _printed(made))


def test_bars_either_one_of_two_is_enough() -> None:
    timings = (timed("headrace", 1.0), timed("socket", 0.1, limit=True), timed("memory", 0.7, limit=True))
    made = document.empty(Settings.whole())
    made["cases"].append(document.case_entry(result({"socket": 0.6, "memory": 0.6}, *timings, either=True)))
    assert [(bar.against, bar.reached) for bar in document.bars(made)] == [("memory", True)]


def test_growth_figures_linear_is_one() -> None:
    points = [
        result({}, timed("headrace", seconds), curve="rows", x=x)
        for x, seconds in ((10, 1.0), (100, 5.0), (1000, 50.0))
    ]
    (figure,) = growth.figures(points)
    assert figure.value == pytest.approx(1.0)
    assert figure.reached


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (1.0, 1.0 + 1e-12, True),
        (1.0, 1.1, False),
        (float("nan"), float("nan"), True),
        ([(1, "a")], [(1, "a")], True),
        ([(1, "a")], [(1, "b")], False),
        ([1], [1, 1], False),
        (None, 0.0, False),
        ([(None,)], [(None,)], True),
    ],
)
def test_same_values_compared_up_to_rounding(one: object, other: object, expected: bool) -> None:
    assert same(one, other) is expected


def test_cpu_times_ended_process_is_neither_lost_nor_negative() -> None:
    before = CpuTimes({(1, 0.0): 5.0, (2, 0.0): 7.0}, 0.0)
    assert CpuTimes({(1, 0.0): 6.0}, 9.0).since(before) == 3.0  # its parent waited for it: 7 before, 9 in the end
    assert CpuTimes({(1, 0.0): 6.0}, 0.0).since(before) == 1.0  # nobody did


def test_cpu_times_child_at_work_is_counted() -> None:
    counted: list[float] = []
    for _ in range(5):  # a process of an earlier test may end meanwhile, and its time with it
        before = cpu_times()
        subprocess.run([sys.executable, "-c", "sum(range(10_000_000))"], check=True)
        counted.append(cpu_times().since(before))
    assert max(counted) > 0.05


def test_chart_redrawn_from_json_alone_is_the_same(tmp_path: Path) -> None:
    made = document.empty(Settings.quick())
    points = [
        result({"rival": 2.0}, timed("headrace", 1.0), timed("rival", 3.0), curve="rows", x=x, rows=int(x), name=name)
        for x, name in ((1e6, "pull: four columns"), (1e7, "growth & <more>"))
    ]
    made["cases"] += [document.case_entry(point) for point in points]
    path = tmp_path / "run.json"
    document.save(made, path)
    subprocess.run([sys.executable, "-m", "benchmarks.chart", str(path)], cwd=ROOT, check=True)
    assert path.with_suffix(".svg").read_text() == chart.draw(json.loads(path.read_text()))


def _printed(made: document.Document) -> list[str]:
    console = report.console()
    console.width = 200
    with console.capture() as captured:
        console.print(report.whole(made), soft_wrap=True)
    return captured.get().splitlines()
