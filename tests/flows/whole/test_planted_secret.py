"""Secrets of the environment, and of what is typed, are looked for in all that a run leaves."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from faulty_server import FaultyServer, Reply, Seen, error
from tiny_run import Tiny, ended_well, query, tercet

from tercet.flows.service import server

KEY, TOKEN, TYPED = "planted-endpoint-key", "hf_plantedhubtoken0123456789", "planted-password"


def echoes(seen: Seen) -> Reply | None:
    """An endpoint that says in each error what it was sent."""
    if seen.number % 10 == 3:
        return error(500, f"I cannot read {seen.headers['authorization']}")
    return None


def holding(folder: Path, secret: str) -> list[Path]:
    """The files of which any byte, or any cell of a table, says it."""
    holders = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content += repr(pq.read_table(path).to_pylist()).encode()
        if secret.encode() in content:
            holders.append(path)
    return holders


@pytest.fixture(scope="module")
def left(
    tiny: Tiny, prefect_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str, list[str]]:
    """The folder with a store, its report and its exports; what was printed; what was sent."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "prompt.jinja").write_text("{{ sentence }}")
    content = yaml.safe_load(tiny.recipe.read_text())
    content["sample"] = {"rows": 60}
    content["llm"] = {"name": "capitals"}
    content["synthesise"]["rewrite"] = {"prompt": str(folder / "prompt.jinja")}
    recipe, store = folder / "asks.yaml", folder / "store"
    home = server.folder(store)
    with FaultyServer(echoes) as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MY_KEY", KEY)
        patch.setenv("HF_TOKEN", TOKEN)
        asking = {"endpoints": [endpoint.url], "key_env": "MY_KEY", "tries": 1}
        content["run"]["llm"] = asking
        recipe.write_text(yaml.safe_dump(content))
        shown = [
            tercet("run", str(recipe), "--store", str(store), "--no-server", "--until", "ingest")
        ]
        shutil.copytree(prefect_folder, home)
        shown.append(tercet("run", str(recipe), "--store", str(store)))
        for words in (
            ["report", "-o", str(folder / "report.html")],
            ["export", "train", str(folder / "encoder")],
            ["export", "generations", str(folder / "table")],
        ):
            shown.append(tercet(*words, "--store", str(store)))
        for done in shown:
            ended_well(done)
        sent = [seen.headers["authorization"] for seen in endpoint.log]
        typed = f"run.llm.endpoints=[http://me:{TYPED}@127.0.0.1:9/v1]"
        shown.append(tercet("run", str(recipe), "--store", str(store), "--set", typed))
        assert shown[-1].returncode == 2
    return folder, "".join(done.stdout + done.stderr for done in shown), sent


@pytest.mark.parametrize("secret", [KEY, TOKEN, TYPED])
def test_no_secret_is_in_anything_that_a_run_leaves(
    left: tuple[Path, str, list[str]], secret: str
) -> None:
    folder, output, sent = left
    assert sent
    assert {*sent} == {f"Bearer {KEY}"}
    assert secret not in output
    assert holding(folder, secret) == []


def test_what_is_not_secret_is_found_there(left: tuple[Path, str, list[str]]) -> None:
    """The search is no blind one, and the key was in what the endpoint said."""
    folder, *_ = left
    store = folder / "store"
    ((detail,),) = query(store, "SELECT min(detail) FROM rejects WHERE reason = 'failed'")
    assert "I cannot read Bearer …" in detail
    assert ".parquet" in {path.suffix for path in holding(folder, "I cannot read ")}
    assert {path.name for path in holding(folder, "capitals")} >= {"report.html", "README.md"}
