"""`gense_cpu` in little: rules write, `pair` judges, and MiniLM's stand-in trains in two phases."""

import csv
from itertools import product
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer
from tiny_run import ended_well, query, states, tercet

from tercet.flows.results.refs import find_artifact
from tercet.storage.store import open_store

# Words that the tiny model knows, some of which have an opposite.
THINGS = ["column", "row", "array", "list", "file", "function", "name", "value"]
LOOKS = [("new", "old"), ("small", "large"), ("first", "last")]
NUMBERS = ["two", "three"]
# A handful of rows, four steps of each phase, and one precision: the rest is the recipe's own.
SMALL = {
    "sample.rows": 200,
    "embed.precision": "fp32",
    "evaluate.precision": "fp32",
    "evaluate.bootstrap": 200,
    "train.precision": "fp32",
    "train.log_steps": 1,
    "train.phases.0.batch_size": 16,
    "train.phases.0.mini_batch": 5,
    "train.phases.0.max_steps": 4,
    "train.phases.1.batch_size": 12,
    "train.phases.1.mini_batch": 4,
    "train.phases.1.max_steps": 4,
}


def sentences() -> list[tuple[str, str]]:
    """Each with the same sentence, in which one word is the opposite."""
    drawn = list(product(THINGS, LOOKS, THINGS, NUMBERS))
    return [
        tuple(
            f"The {look} {thing} of the {other} is in {number} red files and one blue list."
            for look in looks
        )
        for thing, looks, other, number in drawn
        if thing != other
    ]


def write_texts(folder: Path) -> None:
    """The corpus, and 48 other sentences with what follows from each and what denies it."""
    told = sentences()
    corpus, nli = folder / "lines.txt", folder / "nli.csv"
    corpus.write_text("".join(f"{text}\n" for text, _ in told[48:]), encoding="utf-8")
    with nli.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["anchor", "positive", "negative"])
        for text, other in told[:48]:
            rows.writerow([text, text.replace("The ", "").replace("the ", ""), other])


def words(backbone: Path, folder: Path) -> list[str]:
    models = {"backbone": backbone, "evaluator.model": backbone}
    sets = {**SMALL, **models, "corpora.2.source": folder / "nli.csv"}
    given = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    run = ["run", "gense_cpu", "--no-server", "--store", str(folder / "store")]
    return [*run, "--corpus", str(folder / "lines.txt"), *given]


@pytest.fixture(scope="module")
def store(tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gense_cpu")
    write_texts(folder)
    done = ended_well(tercet(*words(tiny_backbone, folder)))
    assert "Traceback" not in done.stderr
    return folder / "store"


def test_what_is_judged_too_low_trains_nothing(store: Path) -> None:
    judged = query(
        store,
        """SELECT c.relation, bool_or(s.value IS NULL) FROM candidates c
        LEFT JOIN scores s ON s.candidate_id = c.candidate_id AND s.scorer = 'pair'
        WHERE c.relation IN ('keeps', 'alters') GROUP BY ALL ORDER BY ALL""",
    )
    assert judged == [("alters", False), ("keeps", False)]
    ((trained, right),) = query(
        store,
        """SELECT count(*), count(*) FILTER (p.value >= 0.5) FROM triplets t
        JOIN scores p ON p.candidate_id = t.positive_id AND p.scorer = 'pair'
        WHERE t.relation = 'alters'""",
    )
    assert trained == right > 0
    ((refused,),) = query(store, "SELECT count(*) FROM rejects WHERE reason = 'below_p_min'")
    assert refused > 0


def test_the_judge_is_measured_on_anchors_that_it_has_not_seen(store: Path) -> None:
    ((names,),) = query(store, "SELECT count(DISTINCT metric) FROM discriminator_metrics")
    assert names > 1


def test_both_phases_train_by_cached_gradients_and_are_measured(store: Path) -> None:
    log = query(store, "SELECT phase, max(step) FROM training_log GROUP BY ALL ORDER BY ALL")
    assert log == [("nli", 4), ("synthetic", 4)]
    phases = query(store, "SELECT DISTINCT phase FROM evaluations ORDER BY phase NULLS FIRST")
    assert {phase for (phase,) in phases} >= {"encoder", "synthetic"}
    encoder = find_artifact(open_store(str(store), create=False), "train", None).model_dir()
    vectors = SentenceTransformer(str(encoder), device="cpu").encode(["the red column", "a row"])
    assert vectors.shape == (2, 32)


def test_another_mini_batch_trains_again_and_scores_nothing_again(
    tiny_backbone: Path, store: Path
) -> None:
    again = words(tiny_backbone, store.parent)
    ended_well(tercet(*again, "--set", "train.phases.1.mini_batch=6", "--until", "train.nli"))
    found = states(store)
    assert {step for step, state in found.items() if state != "reused"} == {"train.nli"}
