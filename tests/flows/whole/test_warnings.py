"""What a run says where a language model finds nothing, says one thing, or is never accepted."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from faulty_server import FaultyServer
from obeying_server import Obeying, named
from tiny_run import Finished, Tiny, ended_well, query, tercet

from tercet.flows.results import queries, summary
from tercet.flows.results.queries import Row
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.flows.running.runner import open_run, run_step
from tercet.flows.running.warnings import _FIND
from tercet.storage.artifacts import all_artifacts
from tercet.storage.catalog import views as catalog
from tercet.storage.store import open_store
from tercet.tasks.stage import silent
from tercet.tasks.warning import sentence

EMPTY = json.dumps({"category": "other", "entities": [], "quantities": []})
RUBBISH = "asdf qwer zxcv"
FLUENT = "The committee met again on Thursday to talk about the budget."
REFUSAL = "I'm sorry, but I can't help with that."
REVISIONS = ("rewrite", "antisense", "entity_revision")
# The summary's lines in which a warning must stand.
FIRST = 10

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


def told(
    tiny: Tiny, folder: Path, says: Says, **select: Any
) -> tuple[list[Row], list[str], list[str]]:
    """The rows of a run up to its triplets, all that it said, and the lines of its summary."""
    content = yaml.safe_load(tiny.recipe.read_text())
    with FaultyServer(says) as server:
        content |= {
            "sample": {"rows": 120},
            "llm": {"name": "says", "api": "completions"},
            "extract_generate": {},
            "synthesise": dict.fromkeys(REVISIONS),
            "select": {"pairing": "role", "positive_min": 0.0, "negative_max": 1.0} | select,
        }
        content["run"]["llm"] = {"endpoints": [server.url], "concurrency": 8}
        path = folder / "says.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        plan = prepare(RunArguments(str(path), str(folder / "store"), until="triplets"))
        said: list[str] = []
        with open_run(plan, said.append) as handle:
            for step in plan.steps:
                run_step(handle, step, silent)
        lines = (
            summary.summarise_run(plan, handle.run_id, "tercet run says.yaml").strip().splitlines()
        )
        with catalog.connect(open_store(plan.store, create=False)) as connection:
            return queries.read_warnings(connection), said, lines


def named_kinds(found: list[Row]) -> set[tuple[str, str | None, str]]:
    return {(row["step"], row["key"], row["kind"]) for row in found}


@pytest.mark.parametrize(
    ("says", "select", "expected"),
    [
        (Says(EMPTY, None), {}, ("extract_parse", None, "no_mention")),
        (Says(None, FLUENT), {}, ("synthesise.rewrite", "rewrite", "one_answer")),
        (Says(None, beside), {"positive_min": 0.999}, ("select", "rewrite", "refused")),
        (Says(None, REFUSAL), {}, ("synthesise.antisense", "antisense", "one_answer")),
        (Says(None, copy), {}, ("parse", "rewrite", "copied")),
    ],
    ids=["nothing extracted", "one constant", "beside the point", "refusals", "copies"],
)
def test_what_a_bad_model_does_stands_in_the_first_lines_of_the_summary(
    tiny: Tiny, tmp_path: Path, says: Says, select: Any, expected: tuple[str, str | None, str]
) -> None:
    found, said, lines = told(tiny, tmp_path, says, **select)
    assert expected in named_kinds(found)
    (row,) = (row for row in found if (row["step"], row["key"], row["kind"]) == expected)
    assert f"  {sentence(row)}" in lines[:FIRST]
    # Each as soon as it is known, too.
    assert all(sentence(other) in said for other in found)
    assert 0 < row["count"] <= row["total"]
    assert row["remedy"]


def test_an_empty_extraction_is_told(tiny: Tiny, tmp_path: Path) -> None:
    found, *_ = told(tiny, tmp_path, Says(EMPTY, None))
    (row,) = (row for row in found if row["kind"] == "no_mention")
    assert (row["count"], row["total"], row["stage"]) == (120, 120, "extract_parse")
    assert sentence(row).startswith(
        f"extract_parse: no mention was found in 120 of 120 sentences, such as {row['example']!r}: "
        "read the answers (tercet try RECIPE --method extract)"
    )


@pytest.mark.parametrize("text", [RUBBISH, FLUENT])
def test_one_answer_to_everything_is_told(tiny: Tiny, tmp_path: Path, text: str) -> None:
    found, said, _ = told(tiny, tmp_path, Says(text if text == RUBBISH else None, text))
    kinds = named_kinds(found)
    for method in ("rewrite", "antisense"):
        assert (f"synthesise.{method}", method, "one_answer") in kinds
        assert any(
            line.startswith(
                f"synthesise.{method}: 120 of 120 answers are the same text, such as {text!r}: "
            )
            for line in said
        )
    if text == RUBBISH:
        assert ("extract_parse", None, "no_mention") in kinds
    else:
        # None of the answers has the entity that was to be written in.
        assert ("parse", "entity_revision", "refused") in kinds
        (line,) = (line for line in said if line.startswith("parse: "))
        assert "rows of entity_revision were refused, such as" in line
        assert "most often as missing_entity" in line


def test_a_method_without_an_accepted_text_and_what_stands_in_for_it_are_told(
    tiny: Tiny, tmp_path: Path
) -> None:
    methods = {"rewrite": {"positive_min": 1.0}, "antisense": {"negative_max": 0.0}}
    methods["entity_revision"] = {"negative_max": 0.0}
    found, said, _ = told(tiny, tmp_path, Says(None, None), methods=methods)
    kinds = named_kinds(found)
    assert {("select", None, "random_negative"), ("select", None, "self_positive")} <= kinds
    assert ("select", "antisense", "refused") in kinds
    assert any(
        "most often as above_negative_max; raise select.negative_max (where they count instead, "
        "select.methods.antisense.negative_max" in line
        for line in said
    )


def test_a_method_that_the_recipe_gives_no_weight_is_not_told_of(
    tiny: Tiny, tmp_path: Path
) -> None:
    found, *_ = told(tiny, tmp_path, Says(None, None), methods={"antisense": {"weight": 0.0}})
    assert ("select", "antisense", "refused") not in named_kinds(found)


def test_rows_are_looked_at_once_and_shown_by_every_command(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = yaml.safe_load(tiny.recipe.read_text())
    content["select"] |= {"methods": {"entity_swap": {"negative_max": 0.0}}}
    path, store = tmp_path / "strict.yaml", tmp_path / "store"
    path.write_text(yaml.safe_dump(content))
    words = (str(path), "--store", str(store), "--until", "triplets")
    first = ended_well(tercet("run", *words, "--no-server"))
    (line,) = [line for line in first.stdout.splitlines() if "rows of entity_swap were" in line]
    assert line in first.stdout.strip().splitlines()[:FIRST]
    assert line.strip() in first.stderr
    assert line in ended_well(tercet("plan", *words)).stdout
    assert line in ended_well(tercet("show", "select", "--store", str(store))).stdout
    monkeypatch.setattr("tercet.flows.running.warnings._FIND", dict.fromkeys(_FIND, None))
    plan = prepare(RunArguments(str(path), str(store), until="triplets"))
    said: list[str] = []
    with open_run(plan, said.append) as handle:
        for step in plan.steps:
            run_step(handle, step, silent)
    assert line in summary.summarise_run(plan, handle.run_id, "tercet run").splitlines()
    # What was made earlier was told when it was made.
    assert line.strip() not in said
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
