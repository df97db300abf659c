"""A plan on a store that does not exist yet: upper bounds from the recipe's numbers alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_run import Tiny

from tercet.flows.commands.plan import show_plan
from tercet.flows.planning.plan import PlannedStep, plan
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare

METHODS = {"rewrite": {"per_unit": 3}, "antisense": {"max_tokens": 20}, "entity_swap": None}


@pytest.fixture
def recipe(tiny: Tiny, tmp_path: Path) -> Callable[..., Path]:
    def write(**changes: Any) -> Path:
        content = yaml.safe_load(tiny.recipe.read_text())
        content |= {
            "name": "bounded",
            "sample": {"rows": 50, "max_words": 30},
            "llm": {"name": "nobody", "max_tokens": 40},
            "extract_generate": {"max_tokens": 100},
            "synthesise": METHODS,
            "select": {"pairing": "role"},
        }
        content["run"]["llm"] = {"endpoints": ["http://127.0.0.1:9/v1"]}
        content["run"]["llm"] |= changes.pop("asking", {})
        path = tmp_path / "bounded.yaml"
        path.write_text(yaml.safe_dump({**content, **changes}))
        return path

    return write


def planned(path: Path, tmp_path: Path) -> dict[str, PlannedStep]:
    store = tmp_path / "store"
    found = {step.step: step for step in plan(prepare(RunArguments(str(path), str(store))))}
    assert not store.exists()
    return found


def test_rows_and_requests_are_bounded_by_the_sample(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    steps = planned(recipe(), tmp_path)
    rows = {name: (step.rows, step.at_most) for name, step in steps.items()}
    assert rows["ingest"] == (None, False)
    assert rows["graph"] == (None, False)
    for name in ("extract_generate", "extract_parse", "synthesise.rewrite", "synthesise.random"):
        assert rows[name] == (50, True), name
    # Three rewrites, an antisense, a swap and a random sentence an anchor.
    for name in ("parse", "embed", "select"):
        assert rows[name] == (50 * 6, True), name
    assert rows["train"] == (50, True)
    asked = {name: step.asking for name, step in steps.items() if step.asking is not None}
    assert {name: (one.requests, one.answer_tokens) for name, one in asked.items()} == {
        "extract_generate": (50, 50 * 100),
        "synthesise.rewrite": (150, 150 * 40),
        "synthesise.antisense": (50, 50 * 20),
    }
    # Longer than any prompt of these sentences and its three shots, and not ten times that.
    assert asked["synthesise.antisense"].prompt_tokens is not None
    assert 50 * 240 < asked["synthesise.antisense"].prompt_tokens < 50 * 2400
    assert {one.seconds for one in asked.values()} == {None}
    assert {one.money for one in asked.values()} == {None}


def test_shares_of_corpora_are_counted_as_the_sample_rounds_them(
    recipe: Callable[..., Path], tiny: Tiny, tmp_path: Path
) -> None:
    corpora = [
        {"name": name, "source": str(tiny.corpus), "query": "query", "answer": "answer"}
        for name in ("a", "b")
    ]
    steps = planned(recipe(corpora=corpora, sample={"rows": 3}), tmp_path)
    # 1.5 of each, rounded up for both.
    assert steps["synthesise.entity_swap"].rows == 4


def test_without_a_number_of_rows_nothing_is_known_unless_lines_are_limited(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    steps = planned(recipe(sample={}), tmp_path)
    assert steps["parse"].rows is None
    assert steps["synthesise.rewrite"].asking is None
    lines = tmp_path / "lines.txt"
    lines.write_text("One sentence stands here.\nAnother one stands there.\n")
    corpora = [{"name": "lines", "source": str(lines), "limit": 20}]
    steps = planned(recipe(corpora=corpora, sample={}), tmp_path)
    assert steps["sample"].rows == 20
    assert steps["parse"].rows == 20 * 6


def test_the_last_lines_add_it_up(
    recipe: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recipe(asking={"price_out": 100.0})
    steps = prepare(RunArguments(str(path), str(tmp_path / "store"))).steps
    show_plan(RunArguments(str(path), str(tmp_path / "store")))
    lines = capsys.readouterr().out.splitlines()
    assert f"{len(steps)} steps: {len(steps)} to run; time unknown." in lines
    (total,) = [line for line in lines if line.startswith("In all: ")]
    assert total.startswith("In all: at most 250 requests, at most about ")
    # 5,000 + 6,000 + 1,000 tokens at 100 a million.
    assert ", at most 12,000 answer tokens; time unknown; at most 1.2000 by the recipe's" in total
    show_plan(RunArguments(str(recipe(sample={})), str(tmp_path / "store")))
    said = capsys.readouterr().out.splitlines()
    names = "extract_generate, synthesise.antisense and synthesise.rewrite"
    told = [line for line in said if line.startswith("How many requests ")]
    assert len(told) == 1
    assert told[0].startswith(f"How many requests {names} will make is known only after sample, ")


def test_the_endpoint_recipes_ceiling_is_above_what_its_anchors_take(tmp_path: Path) -> None:
    arguments = RunArguments("gcse_endpoint", str(tmp_path / "store"))
    recipe = prepare(arguments).recipe
    # What a sentence of 20 tokens took with MiniLM's tokenizer, chat template and answers
    # included: 1,500 tokens for extraction and seven methods.
    assert recipe.run.llm.max_tokens_total is not None
    assert recipe.run.llm.max_tokens_total > 1.4 * 1_500 * recipe.sample.rows


def test_no_bound_is_told_of_prompts_about_passages(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    """A paragraph has any number of sentences."""
    prompt = tmp_path / "ask.jinja"
    prompt.write_text("Ask what this answers: {{ passage }}")
    asked = {"prompt": str(prompt), "relation": "topic", "unit": "passage", "as_anchor": True}
    changes = {"synthesise": {"question": asked}, "select": {"pairing": "relation"}}
    asking = planned(recipe(**changes), tmp_path)["synthesise.question"].asking
    assert asking is not None
    assert asking.requests == 50
    assert asking.prompt_tokens is None
