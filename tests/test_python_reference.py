"""docs/python.md is current, its examples run, and the notebook shows captures, frames and findings."""

from __future__ import annotations

import ast
import json
import runpy
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import ibdissect
from ibdissect import Capture

pytest.importorskip("pyarrow")


def cells(repo: Path) -> list[str]:
    notebook = json.loads((repo / "docs/examples/tour.ipynb").read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_the_package_shows_what_it_has() -> None:
    assert dir(ibdissect) == ["Capture", "__version__", "open"] and ibdissect.open is Capture


@pytest.mark.slow
@pytest.mark.skipif(find_spec("duckdb") is None, reason="needs duckdb")
def test_the_page_is_current(repo: Path, monkeypatch: pytest.MonkeyPatch, written: Callable[[Path, bytes | str], None]) -> None:
    monkeypatch.chdir(repo)  # where its examples find captures
    written(repo / "docs/python.md", runpy.run_path("docs/python_reference.py")["page"]())


@pytest.mark.slow
def test_the_cells_of_the_notebook_show_tables(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs each cell as a notebook does: statements, then the value of the last expression as HTML."""
    monkeypatch.chdir(repo / "docs/examples")  # where Jupyter starts it
    scope: dict[str, Any] = {}
    shown = []
    for cell in cells(repo):
        *statements, last = ast.parse(cell).body
        exec(compile(ast.Module(statements, []), "cell", "exec"), scope)
        assert isinstance(last, ast.Expr)
        shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), scope)._repr_html_())
    scope["capture"].close()
    for html, part in zip(shown, ("SubnGet(NodeInfo)", "Partition Key", "PKY003,PKY004", "limited member"), strict=True):
        assert part in html and "<script" not in html


@pytest.mark.slow
@pytest.mark.skipif(not (find_spec("nbclient") and find_spec("ipykernel")), reason="needs nbclient and ipykernel")
def test_the_notebook_runs_in_jupyter(repo: Path) -> None:
    import nbclient
    import nbformat

    notebook = nbformat.read(repo / "docs/examples/tour.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(repo / "docs/examples")}}).execute()
    outputs = [cell.outputs[-1].data for cell in notebook.cells if cell.cell_type == "code"]
    assert len(outputs) == len(cells(repo)) and all("text/html" in data for data in outputs)
