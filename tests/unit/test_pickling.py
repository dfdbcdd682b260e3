"""Plans on their way to Spark's Python workers: what travels by value, what by name, and what cannot."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import cloudpickle
import pytest

import headrace as hr
from headrace.execute.failure import Failure
from headrace.execute.partition_stream import ScanTask
from headrace.negotiate import pickling
from headrace.negotiate.pickling import pickled_task
from plan_module import MODULE
from producing import NUMBERS, FunctionPlan, ten_rows

READ_IT = """
import pickle, sys
task = pickle.load(sys.stdin.buffer)
print([batch.to_pydict() for batch in task.plan.execute(0)])
"""


@pytest.fixture
def local_module(tmp_path: Path) -> Iterator[ModuleType]:
    """A module that is imported here and installed nowhere."""
    path = tmp_path / "only_here.py"
    path.write_text(MODULE)
    spec = importlib.util.spec_from_file_location("only_here", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["only_here"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["only_here"]


def task_of(plan: hr.ExecutionPlan) -> ScanTask:
    return ScanTask("t", plan, plan.schema, plan.schema, None)


def read_elsewhere(pickled: bytes, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-c", READ_IT], input=pickled, capture_output=True, cwd=cwd, timeout=60)


def test_plan_of_a_local_module_pickled_by_value_runs_where_the_module_is_not(
    local_module: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pickled = pickled_task(task_of(local_module.Plan()), by_value=True)
    done = read_elsewhere(pickled, tmp_path_factory.mktemp("elsewhere"))
    assert done.stdout.decode().strip() == "[{'a': [42]}]", done.stderr


def test_plan_of_a_local_module_on_one_machine_travels_by_name(
    local_module: ModuleType, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pickling, "_RELOADED", pickling._ReloadedModules())  # other tests load modules again
    pickled = pickled_task(task_of(local_module.Plan()), by_value=False)
    assert b"only_here" in pickled
    assert len(pickled) < 2000
    assert b"No module named 'only_here'" in read_elsewhere(pickled, tmp_path_factory.mktemp("elsewhere")).stderr


def test_pickling_by_value_leaves_cloudpickles_list_as_it_was(local_module: ModuleType) -> None:
    cloudpickle.register_pickle_by_value(local_module)
    try:
        before = cloudpickle.list_registry_pickle_by_value()
        pickled_task(task_of(local_module.Plan()), by_value=True)
        assert cloudpickle.list_registry_pickle_by_value() == before
    finally:
        cloudpickle.unregister_pickle_by_value(local_module)


def test_pickling_by_value_from_many_threads_is_safe(local_module: ModuleType) -> None:
    results: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: results.append(pickled_task(task_of(local_module.Plan()), by_value=True)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all(len(pickled) > 500 for pickled in results)
    assert "only_here" not in cloudpickle.list_registry_pickle_by_value()


def test_installed_packages_never_travel_by_value() -> None:
    task = task_of(FunctionPlan(NUMBERS, lambda _: [pytest.approx(1)], 1, hr.Placement.EXECUTORS))
    assert len(pickled_task(task, by_value=True)) < 20_000


def test_pickling_again_costs_little_however_many_modules_are_loaded() -> None:
    task = task_of(FunctionPlan(NUMBERS, ten_rows, 1, hr.Placement.EXECUTORS))
    pickled_task(task, by_value=True)
    looked_up = pickling._is_installed.cache_info().misses
    assert looked_up > 50
    pickled_task(task, by_value=True)
    assert pickling._is_installed.cache_info().misses == looked_up


def test_plan_that_cannot_be_pickled_names_plan_table_and_way_out() -> None:
    plan = FunctionPlan(NUMBERS, ten_rows, 1, hr.Placement.EXECUTORS)
    plan.connection = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(hr.PlanError, match=r"FunctionPlan \(table 't'\) cannot be pickled.*Placement\.DRIVER"):
        pickled_task(task_of(plan), by_value=False)


def test_plan_that_is_too_large_names_plan_size_and_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickling, "_MAX_PICKLED_BYTES", 1 << 20)
    plan = FunctionPlan(NUMBERS, ten_rows, 1, hr.Placement.EXECUTORS)
    plan.data = bytes(2 << 20)  # type: ignore[attr-defined]
    with pytest.raises(hr.PlanError, match=r"FunctionPlan \(table 't'\).*has 2 MB, more than the 1 MB.*offsets"):
        pickled_task(task_of(plan), by_value=False)


# -- failures travel too ------------------------------------------------------------------------------------------


class OwnError(hr.HeadraceError):
    """A user's class below Headrace's root."""


def failure_of(error: BaseException) -> Failure:
    def user_code() -> None:
        raise error

    try:
        user_code()
    except BaseException as caught:
        return Failure.from_json(Failure.of(caught, where="P.execute", table="t", partition=3).to_json())
    raise AssertionError


def test_failure_of_a_users_exception_comes_back_as_provider_error_with_its_cause() -> None:
    error = failure_of(ZeroDivisionError("by zero")).to_exception()
    assert isinstance(error, hr.ProviderError)
    assert (error.exception_type, error.message, error.table, error.partition) == (
        "ZeroDivisionError",
        "by zero",
        "t",
        3,
    )
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert "user_code" in error.traceback


def test_failure_of_a_headrace_error_comes_back_as_itself() -> None:
    error = failure_of(hr.StreamConsumedError("once only")).to_exception()
    assert type(error) is hr.StreamConsumedError
    assert str(error) == "once only"


def test_failure_of_a_users_subclass_of_headraces_root_keeps_its_traceback() -> None:
    failure = failure_of(OwnError("mine"))
    assert "user_code" in failure.traceback
    assert isinstance(failure.to_exception(), OwnError)


def test_failure_with_an_exception_that_is_too_big_to_send_keeps_the_text() -> None:
    failure = failure_of(ValueError(pickle.dumps(list(range(100_000)))))
    assert failure.parts is None
    error = failure.to_exception()
    assert isinstance(error, hr.ProviderError)
    assert error.__cause__ is None
    assert len(error.message) < 5000


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense"])
def test_failure_from_what_is_no_failure_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        Failure.from_json(text)


def test_plan_of_a_module_that_was_loaded_again_takes_the_new_code_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr(pickling, "_RELOADED", pickling._ReloadedModules())
    monkeypatch.syspath_prepend(str(tmp_path))
    path, elsewhere = tmp_path / "loaded_again.py", tmp_path_factory.mktemp("elsewhere")
    path.write_text(MODULE)
    module = importlib.import_module("loaded_again")
    assert b"No module named" in read_elsewhere(pickled_task(task_of(module.Plan()), by_value=False), elsewhere).stderr
    path.write_text(MODULE.replace("ANSWER = 42", "ANSWER = 42 + 1"))
    importlib.reload(module)
    done = read_elsewhere(pickled_task(task_of(module.Plan()), by_value=False), elsewhere)
    assert done.stdout.decode().strip() == "[{'a': [43]}]", done.stderr


def test_plan_of_a_module_that_was_loaded_again_and_cannot_be_pickled_warns_of_old_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pickling, "_RELOADED", pickling._ReloadedModules())
    monkeypatch.syspath_prepend(str(tmp_path))
    text = (
        MODULE.replace("return ANSWER", "return ANSWER if LOCK else 0") + "import threading\nLOCK = threading.Lock()\n"
    )
    (tmp_path / "with_a_lock.py").write_text(text)
    module = importlib.import_module("with_a_lock")
    pickled_task(task_of(module.Plan()), by_value=False)
    assert caplog.messages == []
    importlib.reload(module)
    assert pickle.loads(pickled_task(task_of(module.Plan()), by_value=False)).plan.__class__ is module.Plan
    (message,) = caplog.messages
    assert message.startswith("the module with_a_lock was loaded again, but Spark's Python workers go on with the code")
