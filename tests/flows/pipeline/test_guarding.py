"""Which rows a recipe has guarded, by what it measures and trains on."""

from pathlib import Path

import pytest
from tiny_run import Tiny

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.names import Made, Weights

PHASES = (
    "train.phases=[{name: warm, rows: anchors, loss: info_nce, batch_size: 8, max_steps: 2}, "
    "{name: main, batch_size: 8, max_steps: 2}]"
)


def steps_of(tiny: Tiny, *overrides: str) -> dict[str, Step]:
    recipe = recipe_file.load(str(tiny.recipe), list(overrides))
    return {step.name: step for step in compile_steps(resolve(recipe))}


@pytest.fixture
def suite(tmp_path: Path) -> str:
    home = tmp_path / "suite" / "STS" / "STSBenchmark"
    home.mkdir(parents=True)
    (home / "sts-test.csv").write_text("made\tby\thand\t0\t0\tOne.\tTwo.\n")
    return f"evaluate.suite={tmp_path / 'suite'}"


@pytest.mark.parametrize(
    ("overrides", "guarded"),
    [
        ([PHASES, "evaluate.tasks=[sts]"], set()),
        ([PHASES, "evaluate.tasks=[sts, mteb:Some]"], {"sentences", "triplets"}),
        (["SUITE"], {"triplets"}),
        (["SUITE", PHASES], {"sentences", "triplets"}),
        (
            [
                "SUITE",
                "corpora=[{name: prose, source: CORPUS, query: query, answer: answer}, "
                "{name: nli, source: nli.csv, role: labelled, kind: triplets}]",
                "train.phases=[{name: warm, rows: nli}, "
                "{name: main, rows: document_pairs, loss: info_nce}]",
            ],
            {"labelled", "document_pairs"},
        ),
        (
            [
                "SUITE",
                *("ingest.passages={}", "negatives={by: bm25}"),
                "train.phases=[{rows: {from: document_pairs, negatives: 2}, loss: info_nce}]",
            ],
            {"document_pairs", "negatives"},
        ),
        (["SUITE", "ingest.passages={}", "negatives={by: bm25}"], {"triplets"}),
    ],
)
def test_what_is_trained_on_is_guarded(
    tiny: Tiny, suite: str, overrides: list[str], guarded: set[str]
) -> None:
    given = [one.replace("SUITE", suite).replace("CORPUS", str(tiny.corpus)) for one in overrides]
    steps = steps_of(tiny, *given)
    named = {name.removeprefix("guard.") for name in steps if name.startswith("guard")}
    assert named == guarded
    read = {
        slot
        for name, step in steps.items()
        if name.partition(".")[0] == "train"
        for slot in step.inputs
        if slot.startswith("guarded_")
    }
    assert read == {f"guarded_{rows}" for rows in guarded}


def test_a_fitted_evaluator_is_guarded_and_encodes_no_shortlist(tiny: Tiny, suite: str) -> None:
    stored = steps_of(tiny, suite)["guard.triplets"]
    assert set(stored.inputs) == {"triplets", "embeddings"}
    steps = steps_of(tiny, suite, "evaluator={fit: {}}")
    assert steps["fit_evaluator"].inputs["guarded_sentences"] == ("guard.sentences",)
    assert steps["guard.sentences"].models == {}
    assert steps["guard.triplets"].models == {"encoder": Made("fit_evaluator")}
    named = steps_of(tiny, suite, "evaluator={fit: {}}", "guard.encoder=here/it")
    assert named["guard.sentences"].models == {"encoder": Weights("here/it")}


def test_what_a_checkpoint_is_chosen_on_is_guarded(tiny: Tiny, suite: str) -> None:
    chosen = [suite, "evaluate.tasks=[MRPC]", "train.choose={by: STS-B}"]
    given = steps_of(tiny, *chosen)["guard.triplets"].config.model_dump()
    assert (given["tasks"], given["chosen_on"]) == (("MRPC",), ("STS-B",))
    given = steps_of(tiny, suite, "train.choose={by: retrieval}")["guard.triplets"].config
    assert given.model_dump()["chosen_on"] == ()
