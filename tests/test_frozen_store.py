"""A store that a release froze opens in every later version, and answers what README asks."""

import re
import tarfile
from pathlib import Path

import pytest
from good_and_bad import Place

from tercet.flows.results.queries import connect
from tercet.storage.artifacts import open_artifact
from tercet.storage.catalog.read_only import checked
from tercet.storage.runs import list_runs, resolve_ref
from tercet.storage.store import open_store

ROOT = Path(__file__).parents[1]
FROZEN = sorted((ROOT / "tests" / "data").glob("store-*.tar.xz"))


@pytest.fixture(scope="module", params=FROZEN, ids=lambda path: path.name)
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The folder of a small project with its store, as `tests/data/freeze_store.py` made it."""
    folder = tmp_path_factory.mktemp("frozen")
    with tarfile.open(request.param) as archive:
        archive.extractall(folder, filter="data")
    return Place(folder, folder / "backbone")


def test_the_queries_of_the_docs_are_answered(project: Place) -> None:
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/sql.md")]
    queries = re.findall(r"```sql\n(.*?)```", pages[0], re.DOTALL)
    for title in ("Where a triplet comes from", "No text of the test set is in training"):
        part = pages[1].partition(f"### {title}\n")[2].partition("\n### ")[0]
        queries += re.findall(r"```sql\n(.*?)```", part, re.DOTALL)
    assert len(queries) == 2 + 3 + 1
    store = open_store(str(project.folder / "tercet-store"), create=False)
    with connect(store, None) as connection:
        rows = [connection.execute(checked(connection, query)).fetchall() for query in queries]
    assert [bool(found) for found in rows] == [True, True, True, True, False, True]
    assert rows[-2] == []  # no swap crosses the types of entities
    assert rows[-1] == [(0, 0, 0, 0)]  # no text of the test set is in training


def test_its_runs_answers_and_models_are_there(project: Place) -> None:
    store = open_store(str(project.folder / "tercet-store"), create=False)
    assert [run["state"] for run in list_runs(store)][-2:] == ["done", "done"]
    model = resolve_ref(store, "first").model_dir()
    assert model is not None
    assert list(model.rglob("model.safetensors"))
    with connect(store, None) as connection:
        (answers,) = connection.execute("SELECT answers FROM usage").fetchall()[0]
        (known,) = connection.execute("SELECT count(*) FROM responses").fetchall()[0]
    assert answers == known > 0
    for run in list_runs(store):
        for step in run["steps"]:
            assert open_artifact(store, step["step"], step["version"]).intact(), step["step"]


@pytest.mark.parametrize("words", ["ls", "show triplets", "plan recipe.yaml",
                                   "run recipe.yaml --until sample --no-server"])  # fmt: skip
def test_commands_work_on_it(project: Place, words: str) -> None:
    done = project.types(*words.split(), "--store", "tercet-store")
    assert done.returncode == 0, done.stderr


def test_its_runs_are_compared(project: Place) -> None:
    store = open_store(str(project.folder / "tercet-store"), create=False)
    newer, older = (run["run_id"] for run in list_runs(store)[-2:])
    done = project.types("diff", older, newer, "--store", "tercet-store")
    assert done.returncode == 0, done.stderr
    assert "config negative_max: 0.995 → 1.0" in done.stdout
