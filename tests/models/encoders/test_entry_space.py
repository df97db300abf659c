"""Spaces of entries: their rows against a loop, independent components, their file, their shape."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import FastICA
from sklearn.preprocessing import StandardScaler

from tercet.models.encoders import entry_space
from tercet.models.encoders.entry_space import (
    create_space,
    fill_means,
    make_independent,
    read_space,
    shape_of,
)


@pytest.mark.parametrize("block", [1, 2, 7, 10_000])
def test_a_row_is_the_mean_of_its_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(entry_space, "_BLOCK", block)
    draw = np.random.default_rng(1)
    vectors = draw.normal(size=(30, 4)).astype(np.float32)
    # Every definition belongs to one to three of twelve entries, and every entry has some.
    owners = [sorted({int(e) for e in draw.integers(0, 12, 3)} | {i % 12}) for i in range(30)]
    pairs = [(entry, number) for number, own in enumerate(owners) for entry in own]
    rows, definitions = (np.array(column) for column in zip(*pairs, strict=True))
    ids = np.arange(12) * 3
    matrix = create_space(tmp_path, ids, [f"entry {i}" for i in ids], 4)
    fill_means(matrix, vectors, rows, definitions)
    matrix.flush()  # type: ignore[attr-defined]
    space = read_space(tmp_path)
    for place in range(12):
        own = [vectors[number] for number, entries in enumerate(owners) if place in entries]
        assert np.allclose(space.matrix[place].numpy(), sum(own) / len(own), atol=1e-6)
    assert space.entry_ids.tolist() == ids.tolist()
    assert space.texts[2] == "entry 6"


def test_the_components_have_the_deviation_that_is_asked_for() -> None:
    draw = np.random.default_rng(2)
    # Independent sources with heavy tails, mixed.
    sources = draw.laplace(size=(2_000, 3))
    matrix = (sources @ draw.normal(size=(3, 3)) + 5).astype(np.float32)
    before = matrix.copy()
    turn = make_independent(matrix, 0.26)
    assert 1 <= turn.rounds < 1_000
    assert np.allclose(before @ turn.weight.T + turn.bias, matrix, atol=1e-4)
    assert np.allclose(matrix.std(axis=0), 0.26, atol=1e-3)
    assert np.allclose(matrix.mean(axis=0), 0, atol=1e-4)
    assert np.allclose(np.corrcoef(matrix.T), np.eye(3), atol=1e-3)
    # Each source comes out again, whatever its place and sign.
    alike = np.abs(np.corrcoef(matrix.T, sources.T)[:3, 3:])
    assert (alike.max(axis=0) > 0.99).all()
    literal = FastICA(
        whiten="unit-variance", fun="logcosh", tol=1e-4, max_iter=1_000, random_state=42
    ).fit_transform(StandardScaler().fit_transform(before))
    assert np.allclose(np.abs(np.corrcoef(matrix.T, literal.T)[:3, 3:]).max(axis=0), 1, atol=1e-2)


def test_a_sample_finds_the_components_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_space, "_BLOCK", 700)
    draw = np.random.default_rng(5)
    sources = draw.laplace(size=(20_000, 3))
    matrix = (sources @ draw.normal(size=(3, 3)) - 2).astype(np.float32)
    again = matrix.copy()
    make_independent(matrix, 0.26, rows=5_000)
    # What is drawn says where the components point; their spread is that of all rows.
    assert np.allclose(matrix.mean(axis=0), 0, atol=1e-5)
    assert np.allclose(np.cov(matrix.T), 0.26**2 * np.eye(3), atol=1e-5)
    alike = np.abs(np.corrcoef(matrix.T, sources.T)[:3, 3:])
    assert (alike.max(axis=0) > 0.99).all()
    make_independent(again, 0.26, rows=4_000)
    assert not np.allclose(np.abs(matrix), np.abs(again), atol=1e-4)


def test_directions_in_which_nothing_varies_are_no_components() -> None:
    matrix = np.random.default_rng(3).laplace(size=(500, 4)).astype(np.float32)
    matrix[:, 3] = 2 * matrix[:, 0] - matrix[:, 1] + 1
    before = matrix.copy()
    turn = make_independent(matrix, 0.5)
    assert np.allclose(before @ turn.weight.T + turn.bias, matrix, atol=1e-5)
    assert np.allclose(matrix.std(axis=0), [0.5, 0.5, 0.5, 0], atol=1e-3)
    assert np.allclose(np.corrcoef(matrix[:, :3].T), np.eye(3), atol=1e-3)


def test_components_whose_inverse_is_not_found_are_kept_mocked_lapack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise np.linalg.LinAlgError("SVD did not converge")

    matrix = np.random.default_rng(6).laplace(size=(500, 4)).astype(np.float32)
    again = matrix.copy()
    rounds = make_independent(matrix, 0.26).rounds
    monkeypatch.setattr("sklearn.decomposition._fastica.linalg.pinv", fails)
    assert make_independent(again, 0.26).rounds == rounds
    assert np.array_equal(matrix, again)


@pytest.mark.parametrize(
    ("matrix", "given", "name"),
    [
        (np.zeros((3, 4), np.float32), {}, "ica"),
        (np.ones((50, 4), np.float32), {}, "same"),
        (np.ones((50, 4), np.float32), {"rows": 4}, "ica_rows"),
    ],
)
def test_too_few_entries(matrix: np.ndarray, given: dict[str, int], name: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(ValueError, match=name):
        make_independent(matrix, 0.26, **given)


def test_the_shape_of_a_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_space, "_BLOCK", 7)
    draw = np.random.default_rng(4)
    matrix = draw.normal(size=(40, 3)).astype(np.float32) * [3, 2, 1]
    shape = shape_of(matrix)
    assert np.allclose(shape.singular, np.linalg.svd(matrix, compute_uv=False), atol=1e-4)
    assert np.allclose(
        np.abs(shape.directions), np.abs(np.linalg.svd(matrix, full_matrices=False)[2]), atol=1e-4
    )
    unit = matrix / np.linalg.norm(matrix, axis=1)[:, None]
    cosines = [unit[i] @ unit[j] for i in range(40) for j in range(40) if i != j]
    assert shape.mean_cosine == pytest.approx(np.mean(cosines), abs=1e-6)
    assert shape.deviation == pytest.approx(matrix.std(), rel=1e-5)
    scaled = matrix / np.linalg.norm(matrix, axis=1).mean()
    sums = [np.exp(sign * scaled @ a).sum() for a in shape.directions for sign in (1, -1)]
    assert shape.isotropy == pytest.approx(min(sums) / max(sums), rel=1e-5)
    # A row of zeros has cosine 0 with all others.
    sparse = np.insert(matrix, [0, 9, 40], 0, axis=0)
    assert shape_of(sparse).mean_cosine == pytest.approx(np.sum(cosines) / (43 * 42), abs=1e-6)
    assert shape_of(np.zeros((3, 4), np.float32)).mean_cosine == 0
    cone = shape_of(np.abs(matrix) + 5)
    assert cone.isotropy < shape.isotropy
    assert cone.mean_cosine > 0.9
