import numpy as np

from tercet.models.measures import neighbours


def unit(*angles: float) -> np.ndarray:
    radians = np.radians(angles)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


def test_the_commonest_label_among_the_nearest() -> None:
    known = unit(0, 4, 8, 90, 94, 98)
    labels = np.array([0, 0, 1, 1, 1, 1])
    found = neighbours.predicted(known, labels, unit(2, 95), k=3)
    assert found.tolist() == [0, 1]


def test_of_equally_common_labels_the_nearer_wins() -> None:
    known, labels = unit(0, 30), np.array([1, 0])
    assert neighbours.predicted(known, labels, unit(10, 20), k=2).tolist() == [1, 0]


def test_more_neighbours_than_there_are_texts() -> None:
    known, labels = unit(0, 1, 90), np.array([2, 2, 0])
    assert neighbours.predicted(known, labels, unit(90), k=10).tolist() == [2]
