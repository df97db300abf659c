"""A key that has moved names its new place."""

import pytest
from faulty_recipes import GOOD, PHASE, fault

MOVED = [
    # What an earlier recipe said, its line and key, and the new place.
    ("seed: 1", "start: evaluator", 1, "start", "`backbone: evaluator` in the first phase"),
    ("seed: 1", "start: backbone", 1, "start", "leave it out"),
    ("  phases:", "  triplets: nli.csv", 14, "train.triplets", "role: labelled, kind: triplets"),
    (PHASE, "      rows: dropout", 17, "rows", "`rows: anchors`"),
    (PHASE, "      loss: contrastive", 17, "loss", "`info_nce`"),
    (
        PHASE,
        "      loss: {name: token_reconstruction, with: in_batch}",
        17,
        "loss.with",
        "`info_nce`",
    ),
    (PHASE, "      loss: {name: strict}", 17, "loss", "`pairwise_logistic`"),
    (PHASE, "      start: backbone", 17, "start", "`backbone: base`"),
    (PHASE, "      start: previous", 17, "start", "`backbone: previous`"),
    (PHASE, "      start_share: 0.3", 17, "start_share", "`weight_interpolation: 0.3`"),
    (PHASE, "      decay: false", 17, "decay", "`loss: {name: gaussian_decay, sigma_cosine: 0}`"),
    (PHASE, "      tau: 0.1", 17, "tau", "`loss: {name: gaussian_decay, tau: 0.1}`"),
    (PHASE, "      width: 0.1", 17, "width", "gaussian_decay, sigma_cosine: 0.1}`"),
    (PHASE, "      gate: one_sided", 17, "gate", 'gate: "one_sided"}`'),
    (PHASE, "      detach: false", 17, "detach", 'detach: "none"}`'),
    (PHASE, "      head: true", 17, "head", "head: true}`"),
    (
        PHASE,
        "      corpora: [notes]",
        17,
        "corpora",
        'corpora: ["notes"]}`',
    ),
    (PHASE, "      max_rows: 9", 17, "max_rows", "`rows: {from: triplets, max_rows: 9}`"),
    (PHASE, "      loss: {width: 0.1}", 17, "loss.width", "write `sigma_cosine: 0.1`"),
    (PHASE, "      loss: {detach: true}", 17, "loss.detach", "write `detach: opening`"),
    (PHASE, "      loss: {detach: false}", 17, "loss.detach", "write `detach: none`"),
    (
        PHASE,
        "      loss: {name: token_reconstruction, with: {name: gaussian_decay, width: 0}}",
        17,
        "loss.with.width",
        "write `sigma_cosine: 0`",
    ),
    (
        PHASE,
        "      parts: [{name: a, loss: {name: gaussian_decay, width: 0}}]",
        17,
        "parts.0.loss.width",
        "write `sigma_cosine: 0`",
    ),
]


@pytest.mark.parametrize(
    ("before", "key", "line", "place", "words"), MOVED, ids=[m[1].strip() for m in MOVED]
)
def test_a_key_that_has_moved_names_its_new_place(
    write, before: str, key: str, line: int, place: str, words: str
) -> None:
    text = "seed: 1\n" + GOOD
    if before == "seed: 1":
        path = write(text.replace("seed: 1", key))
    elif before == PHASE:
        path = write(text.replace(PHASE, f"{PHASE}{key}\n"))
        place = f"train.phases.0.{place}"
    else:
        path = write(text.replace(before, f"{key}\n{before}"))
        line = text.splitlines().index(before) + 1
    told = fault(path)
    assert told.startswith(f"{path}:{line}: {place}: "), told
    assert words in told
    assert told.count(". ") == 0


@pytest.mark.parametrize(
    ("method", "own"),
    [
        ("rewrite", "per_sentence: 2"),
        ("entity_revision", "params: {per_sentence: 2}"),
        ("mine", "like: precede, per_sentence: 2"),
        ("question", "prompt: question.jinja, relation: topic, per_sentence: 2"),
    ],
)
def test_of_a_prompted_method_per_sentence_is_called_per_unit(write, method: str, own: str) -> None:
    told = fault(write(GOOD), overrides=[f"synthesise.{method}={{{own}}}"])
    assert told.endswith("this key is now called per_unit: write `per_unit: 2`."), told


def test_a_moved_key_that_was_typed_is_told_as_typed(write) -> None:
    told = fault(write(GOOD), overrides=["train.phases.0.tau=0.1"])
    assert told.startswith("--set train.phases.0.tau=0.1: train.phases.0.tau: ")


RENAMED = {
    "sample.company": "min_context_sentences",
    "corpora.0.company": "min_context_sentences",
    "ingest.rare": "max_shingle_frequency",
}


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_a_renamed_key_names_the_new_one(write, old: str, new: str) -> None:
    told = fault(write(GOOD), overrides=[f"{old}=1"])
    assert told == f"--set {old}=1: {old}: this key is now called {new}: write `{new}: 1`."
