"""The probe: what it must reach, what it must not know, and the protocol against its definition."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from tercet.models.measures import probe
from tercet.models.measures.probe import Sample


def apart(n: int, classes: int = 2, seed: int = 0) -> Sample:
    """Clusters that lie far from each other."""
    draw = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    features = draw.normal(scale=0.2, size=(n, 3 + classes))
    features[np.arange(n), labels] += 4.0
    return Sample(features.astype(np.float32), labels.astype(np.int64))


def noisy(n: int, d: int, seed: int = 0) -> Sample:
    """Labels that the features foretell in part."""
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(n, d))
    labels = features[:, 0] + features[:, 1] + draw.normal(scale=1.5, size=n) > 0
    return Sample(features, labels.astype(np.int64))


def outcome_of(sample: Sample, **parts: Sample) -> tuple[list[int], tuple[float, ...]]:
    outcome = probe.accuracy_items(sample, **parts)
    return outcome.predictions.tolist(), outcome.chosen


def test_dev_chooses_c_and_is_never_fitted():
    train, dev, test = noisy(100, 5), noisy(50, 5, seed=1), noisy(50, 5, seed=2)
    scores = {
        c: LogisticRegression(C=c, tol=1e-10, max_iter=10_000)
        .fit(train.features, train.labels)
        .score(dev.features, dev.labels)
        for c in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    }
    best = max(scores.values())
    first = next(c for c, score in scores.items() if score == best)
    model = LogisticRegression(C=first, tol=1e-10, max_iter=10_000)
    expected = model.fit(train.features, train.labels).predict(test.features).tolist()
    assert outcome_of(train, dev=dev, test=test) == (expected, (first,))


def literal_choice(features, labels, powers):
    """C as SentEval's loops over grid and folds choose it."""
    scores = []
    for power in powers:
        found = []
        folds = StratifiedKFold(n_splits=10, shuffle=True, random_state=1111)
        for kept, held in folds.split(features, labels):
            model = LogisticRegression(C=2.0**power, tol=1e-10, max_iter=10_000)
            model.fit(features[kept], labels[kept])
            found.append(model.score(features[held], labels[held]))
        scores.append(round(100 * np.mean(found), 2))
    return 2.0 ** powers[int(np.argmax(scores))]


def test_nested_folds_are_those_of_the_definition():
    sample = noisy(60, 4, seed=5)
    order = np.random.default_rng(1).permutation(60)
    features, labels = sample.features[order], sample.labels[order]
    expected = np.empty(60, dtype=np.int64)
    chosen = []
    folds = StratifiedKFold(n_splits=10, shuffle=True, random_state=1111)
    for kept, held in folds.split(features, labels):
        c = literal_choice(features[kept], labels[kept], range(-2, 4))
        model = LogisticRegression(C=c, tol=1e-10, max_iter=10_000)
        model.fit(features[kept], labels[kept])
        expected[order[held]] = model.predict(features[held])
        chosen.append(c)
    outcome = probe.accuracy_items(Sample(sample.features, sample.labels, order))
    assert outcome.chosen == tuple(chosen)
    assert outcome.predictions.tolist() == expected.tolist()
    assert outcome.labels.tolist() == sample.labels.tolist()


def test_folds_of_training_data_are_those_of_the_definition():
    train, test = noisy(80, 4, seed=6), noisy(40, 4, seed=7)
    c = literal_choice(train.features, train.labels, range(-1, 6))
    model = LogisticRegression(C=c, tol=1e-10, max_iter=10_000).fit(train.features, train.labels)
    expected = model.predict(test.features).tolist()
    assert outcome_of(train, test=test) == (expected, (c,))


def test_the_same_twice_and_with_any_number_of_threads():
    train, dev, test = noisy(3000, 64), noisy(500, 64, seed=1), noisy(500, 64, seed=2)
    found = []
    for threads in (1, 2, 2):
        with threadpool_limits(limits=threads):
            found.append(outcome_of(train, dev=dev, test=test))
    assert found[0] == found[1] == found[2]


def test_sparse_features_say_what_dense_ones_say():
    first, second = noisy(70, 5), noisy(70, 5, seed=1)
    dense = probe.pair_features(first.features, second.features)
    thin = probe.pair_features(
        sparse.csr_matrix(first.features), sparse.csr_matrix(second.features)
    )
    a, b = first.features, second.features
    assert np.array_equal(dense, np.hstack([abs(a - b), a * b]))
    assert np.array_equal(thin.toarray(), dense)
    test = Sample(dense[:20], first.labels[:20])
    expected = outcome_of(Sample(dense, first.labels), test=test)
    assert outcome_of(Sample(thin, first.labels), test=Sample(thin[:20], test.labels)) == expected


@pytest.mark.parametrize(
    ("train", "parts", "fault"),
    [
        (Sample(np.full((40, 2), np.nan), np.arange(40) % 2), {}, "NaN"),
        (Sample(np.ones((40, 2)), np.zeros(40, dtype=int)), {}, "class"),
        (Sample(np.ones((40, 2)), (np.arange(40) < 9).astype(int)), {}, "class 1 .*9"),
        (Sample(np.ones((40, 2)), np.arange(39) % 2), {}, "40 .* 39"),
        (Sample(np.ones((0, 2)), np.zeros(0, dtype=int)), {}, "0"),
        (apart(40), {"test": Sample(np.ones((2, 5)), np.array([0, 7]))}, "class 7"),
        (apart(40), {"test": Sample(np.full((1, 5), np.inf), np.array([0]))}, "infinity"),
        (apart(40), {"dev": apart(20)}, "test"),
    ],
)
def test_what_cannot_be_fitted_is_said(train, parts, fault):
    with pytest.raises(ValueError, match=fault):
        probe.accuracy_items(train, **parts)


def unit(*angles: float) -> np.ndarray:
    radians = np.radians(angles)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


def test_the_commonest_label_among_the_nearest() -> None:
    known = unit(0, 4, 8, 90, 94, 98)
    labels = np.array([0, 0, 1, 1, 1, 1])
    found = probe.predicted(known, labels, unit(2, 95), k=3)
    assert found.tolist() == [0, 1]


def test_of_equally_common_labels_the_nearer_wins() -> None:
    known, labels = unit(0, 30), np.array([1, 0])
    assert probe.predicted(known, labels, unit(10, 20), k=2).tolist() == [1, 0]


def test_more_neighbours_than_there_are_texts() -> None:
    known, labels = unit(0, 1, 90), np.array([2, 2, 0])
    assert probe.predicted(known, labels, unit(90), k=10).tolist() == [2]
