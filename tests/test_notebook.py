"""What a notebook shows, in a kernel that has nothing but itself: no ipywidgets."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel
from report_store import made, measured, write_run

Cell = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    location = tmp_path_factory.mktemp("notebook") / "store"
    write_run(location, {**made(), **measured()})
    return location


@pytest.fixture(scope="module")
def cell(store: Path) -> Iterator[Cell]:
    """Runs a cell and gives what it shows. TERCET_STORE names the store."""
    manager, client = start_new_kernel(kernel_name="python3")

    def run(code: str) -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = []
        client.execute_interactive(
            code, timeout=120, output_hook=lambda message: shown.append(message["content"])
        )
        return [one for one in shown if "execution_state" not in one and "code" not in one]

    run(f"import os; os.environ['TERCET_STORE'] = {str(store)!r}")
    assert run("import tercet") == []
    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_queries_are_answered_in_html(cell: Cell) -> None:
    (shown,) = cell("tercet.open().sql('SELECT text, sentence_id FROM sentences ORDER BY doc_id')")
    html = shown["data"]["text/html"]
    assert html.count("<tr") == 1 + 20
    assert "and 10 rows more" in html
    (shown,) = cell("tercet.open().sql('FROM sentences ORDER BY starts_with(text, $$<$$) DESC')")
    assert "<script>" not in shown["data"]["text/html"]


def test_a_run_shows_its_state_and_its_figures(cell: Cell) -> None:
    (shown,) = cell("tercet.open().run()")
    html = shown["data"]["text/html"]
    assert "of written: done" in html
    assert "recall@1" in html


@pytest.mark.parametrize(
    "code", ["tercet.open().sql('SELECT nothing FROM sentences')", "tercet.run('no_such_recipe')"]
)
def test_a_fault_is_one_sentence(cell: Cell, code: str) -> None:
    (fault,) = cell(code)
    assert fault["traceback"] == [f"BadInput: {fault['evalue']}"]
