"""The example notebooks: every cell runs in a real kernel, and runs again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from places import EXAMPLES
from producing import SOURCES

NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookClient]:
    """One kernel for all: Spark is started once, by the first cell that asks for it, and ends with the kernel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(SOURCES))
        patch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
        folder = tmp_path_factory.mktemp("notebooks")
        client = NotebookClient(
            nbformat.v4.new_notebook(),
            timeout=120,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
        )
        with client.setup_kernel(env=dict(os.environ)):
            yield client


@pytest.mark.daily
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_cells_run_and_run_again(kernel: NotebookClient, path: Path) -> None:
    """Each cell is run twice in a row, as people do; nbclient raises what a cell raises."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(cells) > 3
    kernel.nb = notebook
    for cell in cells:
        for _ in range(2):
            kernel.execute_cell(cell, notebook.cells.index(cell))


CELL = """
import threading, time
import headrace as hr, pyarrow as pa
ctx = hr.SessionContext.get_or_create()
def endless():
    while True:
        time.sleep(0.01)
        yield pa.record_batch({"a": [1]})
def interrupt_soon():
    while not ctx.spark.sparkContext.statusTracker().getActiveJobsIds():
        time.sleep(0.05)
    import os, signal
    os.kill(os.getpid(), signal.SIGINT)
def jobs():
    return list(ctx.spark.sparkContext.statusTracker().getActiveJobsIds())
ctx.register_table("t", hr.SimpleTable("a BIGINT", endless, placement=hr.Placement.DRIVER), replace=True)
threading.Thread(target=interrupt_soon, daemon=True).start()
"""
"""As the stop button does: a kernel is interrupted by SIGINT."""


@pytest.mark.daily
@pytest.mark.parametrize(
    "query",
    [
        "ctx.collect('SELECT sum(a) FROM t')",
        "ctx.sql('SELECT sum(a) FROM t').show()",
        "ctx.sql('SELECT sum(a) FROM t').toPandas()",
        "next(ctx.sql('SELECT a FROM t').where('a > 1').toLocalIterator())",
    ],
)
def test_notebook_cell_that_is_interrupted_shows_one_line_and_cancels_its_query(
    kernel: NotebookClient, query: str
) -> None:
    def run(source: str, *, fails: bool = False) -> nbformat.NotebookNode:
        tags = ["raises-exception"] if fails else []
        cell = nbformat.v4.new_code_cell(source, metadata={"tags": tags})
        kernel.nb = nbformat.v4.new_notebook(cells=[cell])
        return kernel.execute_cell(cell, 0)

    run("import headrace as hr; ctx = hr.SessionContext.get_or_create()")  # Spark is not started by the cell itself
    (error,) = run(CELL + query, fails=True).outputs
    assert error.traceback == ["KeyboardInterrupt: the query was cancelled"]
    run("while jobs(): time.sleep(0.05)")
    assert run("ctx.collect('SELECT 1 AS x').to_pylist()").outputs[0].data["text/plain"] == "[{'x': 1}]"


@pytest.mark.daily
def test_notebook_cell_that_is_interrupted_elsewhere_leaves_running_jobs(kernel: NotebookClient) -> None:
    running = CELL + (
        "reader = threading.Thread(target=lambda: ctx.sql('SELECT sum(a) FROM t').collect(), daemon=True)\n"
        "reader.start()\n"
        "try:\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    time.sleep(1)\n"
        "left = jobs()\n"
        "ctx.spark.sparkContext.cancelAllJobs()\n"
        "len(left)"
    )
    for source in ("import headrace as hr; ctx = hr.SessionContext.get_or_create()", running):
        cell = nbformat.v4.new_code_cell(source)
        kernel.nb = nbformat.v4.new_notebook(cells=[cell])
        outputs = kernel.execute_cell(cell, 0).outputs
    assert [output.data["text/plain"] for output in outputs if output.output_type == "execute_result"] == ["1"]


@pytest.mark.daily
def test_notebook_shows_a_progress_bar(kernel: NotebookClient) -> None:
    cell = nbformat.v4.new_code_cell(
        "import headrace as hr, time\n"
        "ctx = hr.SessionContext.get_or_create()\n"
        "seen = []\n"
        "stream = ctx.execute_stream(ctx.spark.range(0, 40, numPartitions=4), progress=True)\n"
        "for batch in stream:\n"
        "    time.sleep(0.11); stream._bar._cell and seen.append(1)\n"
        "stream._bar._cell is None, len(seen) > 0"
    )
    kernel.nb = nbformat.v4.new_notebook(cells=[cell])
    outputs = kernel.execute_cell(cell, 0).outputs
    assert [output.output_type for output in outputs] == ["display_data", "execute_result"]
    assert outputs[1].data["text/plain"] == "(True, True)"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_kept_without_outputs(path: Path) -> None:
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell for cell in cells if cell.outputs or cell.execution_count] == []


def test_notebooks_are_found() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["1_pull", "2_push", "3_results_and_negotiation"]
