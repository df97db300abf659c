"""Warnings of a run whose language model finds nothing, says one thing, or is never accepted."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from faulty_server import FaultyServer
from obeying_server import Obeying, named
from tiny_run import Finished, Tiny, ended_well, query, states, tercet

from tercet.storage.artifacts import all_artifacts
from tercet.storage.store import open_store

EMPTY = json.dumps({"category": "other", "entities": [], "quantities": []})
RUBBISH = "asdf qwer zxcv"
FLUENT = "The committee met again on Thursday to talk about the budget."
REVISIONS = ("rewrite", "antisense", "entity_revision")

Kinds = set[tuple[str, str | None, str]]
Answer = Callable[[str], str]


def copy(prompt: str) -> str:
    """The sentence that the prompt asks about."""
    found = re.search(r"^Sentence: (.+)$", prompt, re.MULTILINE)
    return found[1] if found else ""


def beside(prompt: str) -> str:
    """Another sentence for each, about something else."""
    return f"The committee met again for the {sum(map(ord, prompt))}th time."


class Says(Obeying):
    """Says what is given about prompts of extraction, and of methods; None: as asked."""

    def __init__(self, extraction: str | None, method: str | Answer | None) -> None:
        super().__init__(lambda name, text: None)
        self.said = {"extract": extraction}, method

    def answer(self, prompt: str) -> tuple[str, str]:
        of_name, method = self.said
        said = of_name.get(named(prompt), method)
        if said is None:
            return super().answer(prompt)
        return (said if isinstance(said, str) else said(prompt)), "stop"


NEVER = {
    "rewrite": {"positive_min": 1.0},
    "antisense": {"negative_max": 0.0},
    "entity_revision": {"negative_max": 0.0},
}
ONE_ANSWER: Kinds = {
    (f"synthesise.{method}", method, "one_answer") for method in ("rewrite", "antisense")
}


@pytest.mark.parametrize(
    ("says", "select", "expected"),
    [
        (
            Says(RUBBISH, RUBBISH),
            {},
            {("extract_parse", None, "no_mention"), *ONE_ANSWER},
        ),
        # None of the answers has the entity that was to be written in.
        (Says(None, FLUENT), {}, {("parse", "entity_revision", "refused"), *ONE_ANSWER}),
        (Says(None, beside), {"positive_min": 0.999}, {("select", "rewrite", "refused")}),
        (Says(None, copy), {}, {("parse", "rewrite", "copied")}),
        (
            Says(EMPTY, None),
            {"methods": {"antisense": {"weight": 0.0}}},
            {("extract_parse", None, "no_mention")},
        ),
        (
            Says(None, None),
            {"methods": NEVER},
            {
                ("select", None, "random_negative"),
                ("select", None, "self_positive"),
                ("select", "antisense", "refused"),
            },
        ),
    ],
    ids=["rubbish", "one sentence", "beside the point", "copies", "empty", "none accepted"],
)
def test_what_a_bad_model_does_is_a_warning(
    tiny: Tiny, tmp_path: Path, says: Says, select: dict[str, Any], expected: Kinds
) -> None:
    content = yaml.safe_load(tiny.recipe.read_text())
    path, store = tmp_path / "says.yaml", tmp_path / "store"
    with FaultyServer(says) as server:
        content |= {
            "sample": {"rows": 120},
            "llm": {"name": "says", "api": "completions"},
            "extract_generate": {},
            "synthesise": dict.fromkeys(REVISIONS),
            "select": {"pairing": "role", "positive_min": 0.0, "negative_max": 1.0} | select,
        }
        content["run"]["llm"] = {"endpoints": [server.url], "concurrency": 8}
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        words = ("--no-server", "--store", str(store), "--until", "triplets")
        ended_well(tercet("run", str(path), *words))
    rows = query(store, "SELECT step, key, kind, count, total, remedy FROM warnings")
    kinds = {row[:3] for row in rows}
    assert expected <= kinds
    assert all(0 < count <= total and remedy for *_, count, total, remedy in rows)
    # A method that the recipe gives no weight is missed by nobody.
    assert ("select", "antisense", "refused") not in kinds - expected


def test_warnings_are_kept_with_what_they_are_of_and_shown_by_every_command(
    tiny: Tiny, tmp_path: Path
) -> None:
    content = yaml.safe_load(tiny.recipe.read_text())
    content["select"] |= {"methods": {"entity_swap": {"negative_max": 0.0}}}
    path, store = tmp_path / "strict.yaml", tmp_path / "store"
    path.write_text(yaml.safe_dump(content))
    words = (str(path), "--store", str(store), "--until", "triplets")
    first = ended_well(tercet("run", *words, "--no-server"))
    # Among the first lines of the summary, and as soon as it is known.
    lines = first.stdout.strip().splitlines()[:10]
    (line,) = [line for line in lines if "entity_swap" in line]
    assert line.strip() in first.stderr
    assert line in ended_well(tercet("plan", *words)).stdout
    assert line in ended_well(tercet("show", "select", "--store", str(store))).stdout
    # What was made earlier was told when it was made.
    again = ended_well(tercet("run", *words, "--no-server"))
    assert set(states(store).values()) == {"reused"}
    assert line in again.stdout.splitlines()
    assert line.strip() not in again.stderr
    # An artifact of an older Tercet says nothing, and is read all the same.
    for artifact in all_artifacts(open_store(str(store))):
        manifest = artifact.store.local(f"{artifact.path}/manifest.json")
        known = json.loads(manifest.read_text())
        del known["warnings"]
        manifest.write_text(json.dumps(known))
    assert query(store, "FROM warnings") == []
    assert query(store, "SELECT count(*) > 0 FROM triplets") == [(True,)]


def test_a_run_as_it_should_be_has_no_warning(finished: Finished) -> None:
    # But that the tiny backbone, which has a vocabulary of its own, knows few words.
    assert query(finished.store, "SELECT kind FROM warnings") == [("unknown",)]
