"""Runs with an evaluation suite: what of it stands among the training texts stays out."""

from pathlib import Path

import pytest
from tiny_run import Finished, Tiny, copy_of, ended_well, query, states, tercet

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.resolved import Made, Weights

PHASES = (
    "train.phases=[{name: warm, rows: anchors, loss: info_nce, batch_size: 8, max_steps: 2}, "
    "{name: main, batch_size: 8, max_steps: 2}]"
)


def settings(suite: Path) -> list[str]:
    """As overrides of a recipe."""
    return [
        f"evaluate.suite={suite}",
        "evaluate.tasks=[STS-B]",
        "guard.embedding_min=null",
        PHASES,
    ]


def write_suite(home: Path, pairs: list[tuple[str, str]]) -> None:
    home.mkdir(parents=True)
    lines = [f"made\tby\thand\t{i}\t{i % 5}\t{a}\t{b}\n" for i, (a, b) in enumerate(pairs)]
    (home / "sts-test.csv").write_text("".join(lines))


def test_planted_rows_stay_out_of_training(finished: Finished, tmp_path: Path) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    ((anchor,), (other,)) = query(
        store, "SELECT DISTINCT anchor FROM triplets ORDER BY anchor LIMIT 2"
    )
    ((positive,),) = query(
        store,
        f"""SELECT DISTINCT positive FROM triplets WHERE anchor NOT IN ('{anchor}', '{other}')
        AND positive NOT IN (SELECT text FROM sentences) ORDER BY positive LIMIT 1""",
    )
    words = other.split()
    write_suite(
        tmp_path / "suite" / "STS" / "STSBenchmark",
        [
            (anchor.upper(), "Nothing of the kind was ever written."),
            (" ".join([*words[:3], "xylophone", *words[4:]]), "Of this neither, by anybody."),
            (positive.rstrip(".") + " !", "A third one that stands nowhere else."),
            *((f"Line {i} of an old ballad.", f"Verse {i * i} of a hymn.") for i in range(12)),
        ],
    )
    overrides = [w for s in settings(tmp_path / "suite") for w in ("--set", s)]
    ended_well(tercet(*finished.tiny.words(store, *overrides)))
    made = {step for step, state in states(store).items() if state != "reused"}
    assert {"guard.sentences", "guard.triplets", "train.warm", "train.main"} <= made
    found = query(
        store, "SELECT DISTINCT text, level, task, removed FROM contamination ORDER BY ALL"
    )
    planted = [
        (anchor, "exact", "STS-B", True),
        (other, "near", "STS-B", True),
        (positive, "exact", "STS-B", True),
    ]
    assert set(planted) <= set(found)
    # Every row with such a text is a reject, and no other.
    for rows, key, texts in (
        ("triplets", "triplet_id", "[anchor, positive, negative]"),
        ("(FROM sentences WHERE split = 'train')", "sentence_id", "[text]"),
    ):
        ((missing, left, refused),) = query(
            store,
            f"""WITH bad AS (SELECT {key} AS id FROM {rows}
                WHERE list_has_any({texts}, (SELECT list(text) FROM contamination))),
            refused AS (SELECT row_id AS id FROM rejects WHERE reason = 'contaminated'
                AND stage = 'guard' AND row_id IN (SELECT {key} FROM {rows}))
            SELECT (SELECT count(*) FROM bad WHERE id NOT IN (FROM refused)),
                (SELECT count(*) FROM refused WHERE id NOT IN (FROM bad)),
                (SELECT count(*) FROM refused)""",
        )
        assert (missing, left) == (0, 0)
        assert refused >= 2

    report = [*overrides, "--set", "guard.action=report", "--until", "guard"]
    ended_well(tercet(*finished.tiny.words(store, *report)))
    assert query(store, "SELECT DISTINCT removed FROM contamination") == [(False,)]
    assert query(store, "SELECT count(*) FROM rejects WHERE stage = 'guard'") == [(0,)]


def steps_of(tiny: Tiny, *overrides: str) -> dict[str, Step]:
    recipe = recipe_file.load(str(tiny.recipe), list(overrides))
    return {step.name: step for step in compile_steps(resolve(recipe))}


@pytest.fixture
def suite(tmp_path: Path) -> str:
    write_suite(tmp_path / "suite" / "STS" / "STSBenchmark", [("One.", "Two.")])
    return f"evaluate.suite={tmp_path / 'suite'}"


def test_without_a_suite_there_is_no_guard(tiny: Tiny) -> None:
    steps = steps_of(tiny, PHASES)
    assert not [name for name in steps if name.startswith("guard")]
    trained = [step for name, step in steps.items() if name.startswith("train.")]
    assert len(trained) == 2
    assert not [s for step in trained for s in step.inputs if s.startswith("guarded")]


def test_tasks_of_mteb_are_guarded_without_a_suite(tiny: Tiny) -> None:
    steps = steps_of(tiny, PHASES, "evaluate.tasks=[sts, mteb:Some]")
    for name in ("guard.sentences", "guard.triplets"):
        assert steps[name].config.model_dump()["tasks"] == ("mteb:Some",)
    assert "guarded_sentences" in steps["train.warm"].inputs
    assert "guarded_triplets" in steps["train.main"].inputs


def test_vectors_that_are_stored_are_looked_at(tiny: Tiny, suite: str) -> None:
    steps = steps_of(tiny, suite)
    assert "guard.sentences" not in steps
    assert set(steps["guard.triplets"].inputs) == {"triplets", "embeddings"}
    assert steps["train"].inputs["guarded_triplets"] == ("guard.triplets",)


def test_a_fitted_evaluator_is_guarded_and_encodes_no_shortlist(tiny: Tiny, suite: str) -> None:
    steps = steps_of(tiny, suite, "evaluator={fit: {}}")
    assert steps["fit_evaluator"].inputs["guarded_sentences"] == ("guard.sentences",)
    assert steps["guard.sentences"].models == {}
    assert steps["guard.triplets"].models == {"encoder": Made("fit_evaluator")}
    named = steps_of(tiny, suite, "evaluator={fit: {}}", "guard.encoder=here/it")
    assert named["guard.sentences"].models == {"encoder": Weights("here/it")}


def test_labelled_rows_and_document_pairs_are_guarded(tiny: Tiny, suite: str) -> None:
    prose = f"{{name: prose, source: {tiny.corpus}, query: query, answer: answer}}"
    nli = "{name: nli, source: nli.csv, role: labelled, kind: triplets}"
    corpus = f"corpora=[{prose}, {nli}]"
    phases = "train.phases=[{name: a, rows: nli}, {name: b, rows: document_pairs, loss: info_nce}]"
    steps = steps_of(tiny, suite, corpus, phases)
    assert steps["guard.labelled"].inputs == {"labelled": ("labelled",)}
    assert steps["train.a"].inputs["guarded_labelled"] == ("guard.labelled",)
    assert steps["train.b"].inputs["guarded_document_pairs"] == ("guard.document_pairs",)
    assert not {"guard.sentences", "guard.triplets"} & set(steps)


def test_mined_negatives_are_guarded(tiny: Tiny, suite: str) -> None:
    mined = ["ingest.passages={}", "negatives={by: bm25}"]
    phases = "train.phases=[{rows: {from: document_pairs, negatives: 2}, loss: info_nce}]"
    steps = steps_of(tiny, suite, *mined, phases)
    assert steps["guard.negatives"].inputs == {"negatives": ("negatives.document_pairs",)}
    assert steps["train"].inputs["guarded_negatives"] == ("guard.negatives",)
    assert "guard.negatives" not in steps_of(tiny, suite, *mined)


def test_what_a_checkpoint_is_chosen_on_is_guarded(tiny: Tiny, suite: str) -> None:
    chosen = [suite, "evaluate.tasks=[MRPC]", "train.choose={by: STS-B}"]
    given = steps_of(tiny, *chosen)["guard.triplets"].config.model_dump()
    assert (given["tasks"], given["chosen_on"]) == (("MRPC",), ("STS-B",))
    given = steps_of(tiny, suite, "train.choose={by: retrieval}")["guard.triplets"].config
    assert given.model_dump()["chosen_on"] == ()
