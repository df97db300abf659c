"""What `tercet serve` refuses, and the parameters of its runs."""

from pathlib import Path

import pytest
import yaml

from tercet.flows.running.arguments import RunArguments
from tercet.flows.service import deployments
from tercet.storage import locks
from tercet.storage.store import open_store
from tercet.tasks.corpus.sources import files
from tercet.tasks.stage import BadInput


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    lines = [f"The {n} old ships of harbour {n * 7} carry grain to the mill." for n in range(400)]
    (tmp_path / "lines.txt").write_text("\n".join(lines))
    path = tmp_path / "ships.yaml"
    content = {
        "name": "ships",
        "backbone": "package:nothing/here",
        "corpora": [{"name": "ships", "source": str(tmp_path / "lines.txt")}],
        "train": {"phases": [{"rows": "anchors", "loss": "info_nce"}]},
    }
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.parametrize(
    ("cron", "interval", "said"),
    [
        ("0 3 * * *", 5, "--interval"),
        ("often", None, "often"),
        ("0 3 * * * *", None, "schedule"),
        (None, 0, "1 or more"),
    ],
)
def test_wrong_schedules(
    recipe: Path, tmp_path: Path, cron: str | None, interval: int | None, said: str
) -> None:
    arguments = RunArguments(str(recipe), str(tmp_path / "s"))
    with pytest.raises(BadInput, match=said):
        deployments.serve_recipe(arguments, cron, interval)
    assert not (tmp_path / "s").exists()


def test_one_recipe_is_not_served_twice(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployments.interrupts, "listen", lambda: None)
    store = open_store(str(tmp_path / "s"))
    arguments = RunArguments(str(recipe), store.location, until="sample")
    with (
        locks.hold(store, "serve-ships", who="tercet serve"),
        pytest.raises(BadInput, match="ships is served"),
    ):
        deployments.serve_recipe(arguments)


def test_parameters_can_be_used_elsewhere(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = RunArguments("ships.yaml", "./here", ("a.b=1",), "pydocs")
    assert deployments.portable(arguments) == {
        "recipe": str(recipe),
        "corpus": "pydocs",
        "overrides": ["a.b=1"],
        "retry_failed": False,
        "store": str(tmp_path / "here"),
    }


def test_folders_and_globs_among_the_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "set [1]"
    for name in ("quickstart", "pydocs", "data"):
        (home / name).mkdir(parents=True)
    (home / "data" / "a.txt").write_text("One line.")
    monkeypatch.chdir(home)
    found = deployments.portable(RunArguments("quickstart", corpus="pydocs"))
    assert (found["recipe"], found["corpus"]) == ("quickstart", "pydocs")
    pattern = deployments.portable(RunArguments("quickstart", corpus="data/*.txt"))["corpus"]
    monkeypatch.chdir(tmp_path)
    assert [path for _, path in files.files_of(pattern)] == [home / "data" / "a.txt"]
    monkeypatch.setenv("HOME", str(home))
    assert deployments.portable(RunArguments("quickstart", "~/s"))["store"] == str(home / "s")
    for kept in ("hf:some/name", "absent.txt", "/somewhere/*.txt"):
        assert deployments.portable(RunArguments("quickstart", corpus=kept))["corpus"] == kept
