"""`tercet diff` of runs that differ in one threshold or one prompt."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from faulty_server import FaultyServer, Reply, Seen
from tiny_run import Tiny, ended_well, query, tercet

from tercet.storage import runs
from tercet.storage.catalog import views as catalog
from tercet.storage.store import open_store

# Each table that may differ, with the columns that say which row it is.
IDS = {
    "mentions": "mention_id",
    "sentence_categories": "sentence_id",
    "kg_nodes": "node_id",
    "kg_edges": "source, target, kind",
    "generations": "generation_id",
    "candidates": "candidate_id",
    "embeddings": "text_id",
    "scores": "candidate_id, scorer, measure",
    "triplets": "triplet_id",
    "acceptance": "role, method",
}


AGAIN = "Say again: "


def reword(seen: Seen) -> Reply:
    """The end of each sentence; asked to say it again, with another beginning for blue things."""
    choices = []
    for place, prompt in enumerate(seen.prompts):
        begin = "There" if prompt.startswith(AGAIN) and " blue " in prompt else "Here"
        text = f"{begin} {' '.join(prompt.removeprefix(AGAIN).split()[3:])}"
        choices.append({"index": place, "text": text, "finish_reason": "stop"})
    return Reply(200, json.dumps({"choices": choices}).encode())


@dataclass(frozen=True, eq=False)
class Runs:
    """A store with a run, and one for each change of it. ids: by the change; the first: `base`."""

    store: Path
    ids: Mapping[str, str]

    @cache  # noqa: B019
    def rows(self, change: str) -> dict[str, dict[str, tuple[str, ...]]]:
        """Each table's rows by their ids, read by SQL."""
        tables = {}
        place = open_store(str(self.store), create=False)
        with catalog.connect(place, self.ids[change]) as connection:
            for table, ids in IDS.items():
                found = connection.execute(f"SELECT ({ids},), * FROM {table}").fetchall()
                tables[table] = {repr(key): tuple(map(repr, row)) for key, *row in found}
                assert len(tables[table]) == len(found)
        return tables


@pytest.fixture(scope="module")
def compared(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("compared")
    store, path = folder / "store", folder / "compared.yaml"
    prompt = folder / "prompt.jinja"
    prompt.write_text("{{ sentence }}")
    recipe = yaml.safe_load(tiny.recipe.read_text()) | {"name": "compared"}
    recipe["sample"] = {"rows": 120}
    recipe["synthesise"] = {
        "next_sentences": None,
        "rewrite": {"prompt": str(prompt)},
        "entity_swap": None,
    }
    del recipe["select"]["methods"]
    recipe["llm"] = {"name": "capitals", "api": "completions"}
    recipe["train"]["phases"][0]["max_steps"] = 4
    ids = {}

    def run(name: str, *options: str) -> None:
        ended_well(tercet("run", str(path), "--no-server", "--store", str(store), *options))
        ids[name] = runs.resolve_run(open_store(str(store), create=False), None)["run_id"]

    with FaultyServer(reword) as server:
        recipe["run"]["llm"] = {"endpoints": [server.url], "concurrency": 16}
        path.write_text(yaml.safe_dump(recipe, sort_keys=False))
        run("base")
        run("threshold", "--set", "select.negative_max=0.995")
        prompt.write_text(AGAIN + "{{ sentence }}")
        run("prompt", "--until", "triplets")
    return Runs(store, ids)


def counts(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[int, int, int]:
    """Rows added, removed and changed."""
    both = before.keys() & after.keys()
    changed = sum(before[key] != after[key] for key in both)
    return len(after) - len(both), len(before) - len(both), changed


def compare(compared: Runs, change: str) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
    """What `tercet diff` says, and its counts, which are those of SQL over both runs."""
    words = ("diff", compared.ids["base"], compared.ids[change], "--store", str(compared.store))
    told = json.loads(ended_well(tercet(*words, "--format", "json")).stdout)
    found = {t["table"]: (t["added"], t["removed"], t["changed"]) for t in told["tables"]}
    for table in IDS:
        expected = counts(compared.rows("base")[table], compared.rows(change)[table])
        assert found.get(table, (0, 0, 0)) == expected, table
    return told, {table: found[table] for table in IDS if any(found.get(table, ()))}


def own(told: dict[str, Any]) -> dict[str, list[str]]:
    """The steps that differ by themselves, and how."""
    return {step["step"]: step["why"] for step in told["steps"] if step["why"]}


def test_one_threshold(compared: Runs) -> None:
    told, rows = compare(compared, "threshold")
    assert told["recipe"] == [{"key": "select.negative_max", "a": "1.0", "b": "0.995"}]
    assert own(told) == {"select": ["config negative_max: 1.0 → 0.995"]}
    after = {step["step"]: step["after"] for step in told["steps"] if step["after"]}
    assert after == {"train": ["select"], "evaluate.encoder": ["train"]}
    assert rows.keys() == {"triplets", "acceptance"}
    assert all(rows["triplets"][:2])
    # Both encoders were measured on the same questions.
    figures = {figure["figure"]: figure for figure in told["figures"]}
    recall = figures["document pairs test, recall@1"]
    value = "SELECT value FROM evaluations WHERE phase = 'encoder' AND metric = 'recall@1'"
    ids = (compared.ids["base"], compared.ids["threshold"])
    measured = [query(compared.store, value, run)[0][0] for run in ids]
    assert [recall["a"], recall["b"]] == measured
    assert recall["over"].endswith(" queries")
    assert told["on_other_data"] == []


def test_one_prompt(compared: Runs) -> None:
    told, rows = compare(compared, "prompt")
    assert told["recipe"] == []
    assert own(told) == {"synthesise.rewrite": ["file prompt"]}
    (table,) = [table for table in told["tables"] if table["table"] == "generations"]
    assert set(table["columns"]) == {"prompt", "request_digest"}
    # Of blue things the server says something else, and the same of all others.
    blue = sum(" blue " in repr(row) for row in compared.rows("base")["candidates"].values())
    assert rows["generations"][0] == rows["generations"][1] > 0
    assert rows["generations"][2] > rows["generations"][0]
    assert blue >= rows["candidates"][0] > 0
