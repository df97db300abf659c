"""Simple classifiers of pairs: each sees what its name says, and no more."""

import numpy as np
from sklearn.metrics import roc_auc_score

from tercet.models.measures.discriminator_controls import CONTROLS, Pairs, control_logits, words

THINGS = ["lamp", "boat", "fence", "kettle", "ladder", "violin", "tent", "saddle"]


def pairs(kind: str, rows: int, seed: int) -> Pairs:
    """Labels that show in the second text alone, or only in both together."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, rows)
    anchors, texts = [], []
    for label in labels:
        thing, other = generator.choice(THINGS, 2, replace=False)
        anchors.append(f"The {thing} is there.")
        if kind == "hypothesis":
            texts.append(f"{'It is' if label else 'No, it is not'} the {other}.")
        else:
            texts.append(f"See the {thing if label else other}.")
    cosines = generator.random(rows) + 0.5 * labels
    return Pairs(anchors, texts, labels, cosines)


def areas(kind: str) -> dict[str, float]:
    test = pairs(kind, 300, 2)
    found = control_logits(pairs(kind, 600, 1), [test])
    return {name: float(roc_auc_score(test.labels, logits[0])) for name, logits in found.items()}


def test_the_second_text_alone_gives_a_label_away_to_both_controls_of_words() -> None:
    found = areas("hypothesis")
    assert found["hypothesis"] > 0.99
    assert found["pair_words"] > 0.99


def test_what_shows_in_both_texts_together_is_hidden_from_the_second_alone() -> None:
    found = areas("pair")
    assert found["hypothesis"] < 0.6
    assert found["pair_words"] > 0.99
    assert 0.75 < found["cosine"] < 0.95


def test_without_cosines_there_is_no_control_of_them() -> None:
    given = pairs("pair", 50, 1)
    bare = Pairs(given.anchors, given.texts, given.labels)
    assert list(control_logits(bare, [given])) == [name for name in CONTROLS if name != "cosine"]


def test_words_are_those_of_any_script_without_case_and_punctuation() -> None:
    assert words("It isn't Zürich, но Москва!") == ["it", "isn", "'t", "zürich", "но", "москва"]
