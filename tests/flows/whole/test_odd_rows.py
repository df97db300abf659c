"""What a run says where a language model finds nothing, says one thing, or is never accepted."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from faulty_server import FaultyServer
from obeying_server import Obeying, named
from tiny_run import Finished, Tiny

from tercet.flows.running import odd_rows
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.odd_rows import Odd, sentence
from tercet.flows.running.one_step import artifact_of
from tercet.flows.running.run_plan import prepare
from tercet.flows.running.runner import open_run, run_step, run_steps
from tercet.tasks.stage import silent

EMPTY = json.dumps({"category": "other", "entities": [], "quantities": []})
RUBBISH = "asdf qwer zxcv"
FLUENT = "The committee met again on Thursday to talk about the budget."
REVISIONS = ("rewrite", "antisense", "entity_revision")


class Says(Obeying):
    """Says what is given about every prompt of extraction, and of methods; None: as asked."""

    def __init__(self, extraction: str | None, method: str | None) -> None:
        super().__init__(lambda name, text: None)
        self.said = {"extract": extraction}, method

    def answer(self, prompt: str) -> tuple[str, str]:
        of_name, method = self.said
        said = of_name.get(named(prompt), method)
        return super().answer(prompt) if said is None else (said, "stop")


def told(tiny: Tiny, folder: Path, says: Says, **select: Any) -> tuple[list[Odd], list[str]]:
    """The rows after each step of a run up to its triplets, and all that the run said."""
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
        found: list[Odd] = []
        with open_run(plan, said.append) as handle:
            for step in plan.steps:
                run_step(handle, step, silent)
                found += odd_rows.odd_rows(
                    step, plan.steps, lambda name: artifact_of(handle, name), "1GB"
                )
    return found, said


def test_rows_are_looked_at_once_for_each_artifact(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = yaml.safe_load(tiny.recipe.read_text())
    content["select"] |= {"methods": {"entity_swap": {"negative_max": 0.0}}}
    path = tmp_path / "strict.yaml"
    path.write_text(yaml.safe_dump(content))
    plan = prepare(RunArguments(str(path), str(tmp_path / "store"), until="triplets"))

    def run() -> list[str]:
        said: list[str] = []
        with open_run(plan, said.append) as handle:
            run_steps(handle)
        return [line for line in said if "were refused" in line]

    first = run()
    assert len(first) == 1
    monkeypatch.setattr(odd_rows, "_FIND", dict.fromkeys(odd_rows._FIND, None))
    assert run() == first


def named_kinds(found: list[Odd]) -> set[tuple[str, str | None, str]]:
    return {(odd.stage, odd.key, odd.kind) for odd in found}


def test_an_empty_extraction_is_told(tiny: Tiny, tmp_path: Path) -> None:
    found, said = told(tiny, tmp_path, Says(EMPTY, None))
    assert ("extract_parse", None, "no_mention") in named_kinds(found)
    (odd,) = (odd for odd in found if odd.kind == "no_mention")
    assert (odd.count, odd.total) == (120, 120)
    assert sentence(odd) in said
    assert sentence(odd).startswith(
        f"extract_parse: no mention was found in 120 of 120 sentences, such as {odd.example!r}: "
        "read the answers (tercet try RECIPE --method extract)"
    )
    assert all(sentence(other) in said for other in found)


@pytest.mark.parametrize("text", [RUBBISH, FLUENT])
def test_one_answer_to_everything_is_told(tiny: Tiny, tmp_path: Path, text: str) -> None:
    found, said = told(tiny, tmp_path, Says(text if text == RUBBISH else None, text))
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
    found, said = told(tiny, tmp_path, Says(None, None), methods=methods)
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
    found, _ = told(tiny, tmp_path, Says(None, None), methods={"antisense": {"weight": 0.0}})
    assert ("select", "antisense", "refused") not in named_kinds(found)


def test_a_run_as_it_should_be_says_nothing_of_the_kind(finished: Finished) -> None:
    phrases = ("no mention was found", "were refused", "are the same text", "triplets have")
    assert not [phrase for phrase in phrases if phrase in finished.stdout + finished.stderr]
