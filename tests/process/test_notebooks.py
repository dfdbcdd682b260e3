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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_kept_without_outputs(path: Path) -> None:
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell for cell in cells if cell.outputs or cell.execution_count] == []


def test_notebooks_are_found() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["1_pull", "2_push", "3_results_and_negotiation"]
