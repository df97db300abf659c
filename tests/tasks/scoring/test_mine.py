"""Stage `mine`: the nearest text of another document that is farther than the positive."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from stages import stored

from tercet.models import seeding
from tercet.tasks.scoring import mine
from tercet.tasks.scoring.embed import embeddings_table
from tercet.tasks.scoring.mine import MineConfig, nearest_below
from tercet.tasks.scoring.score import SCORES
from tercet.tasks.stage import Resources, Work
from tercet.tasks.synthesis.parse import CANDIDATES

# Anchor, its document, its topical positive, and where both point, in degrees.
Topic = tuple[str, int, str, float, float]


def mined(folder: Path, topics: list[Topic], parts: int = 1, **config: Any) -> Any:
    """The mined texts and their scores, of all parts, by anchor."""
    degrees = {anchor: at for anchor, _, _, at, _ in topics}
    degrees |= {positive: at for _, _, positive, _, at in topics}
    angles = np.radians(list(degrees.values()))
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    ids = pa.array(seeding.text_ids(list(degrees)), pa.uint64())
    docs = {topic[0]: topic[1] for topic in topics}
    anchors = list(docs)
    sentences = {
        "sentence_id": pa.array(seeding.text_ids(anchors), pa.uint64()),
        "text": anchors,
        "doc_id": pa.array(docs.values(), pa.uint64()),
    }
    common = {"role": "positive", "relation": "topic", "method": "rest_of_paragraph"}
    rows = [
        {"candidate_id": place, "sentence_id": seeding.text_id(topic[0]), "text": topic[2]} | common
        for place, topic in enumerate(topics)
    ]
    # What is not topical neither asks nor answers.
    rows.append({**rows[0], "candidate_id": 99, "relation": "keeps", "text": topics[-1][2]})
    inputs = stored(
        folder,
        embeddings=embeddings_table(ids, vectors),
        sentences=pa.table(sentences),
        candidates=pa.Table.from_pylist(rows, CANDIDATES),
    )
    tables: dict[str, list[pa.Table]] = {}
    emit = lambda name, table: tables.setdefault(name, []).append(table)  # noqa: E731
    work = Work(MineConfig(**config), 1, inputs, {}, {}, Resources(), folder, emit)
    specs = mine.plan(work)
    assert len(specs) == parts
    for spec in specs:
        work.spec.clear()  # type: ignore[attr-defined]
        work.spec.update(spec)  # type: ignore[attr-defined]
        mine.run(work)
    candidates = pa.concat_tables(tables["candidates"]).cast(CANDIDATES)
    scores = pa.concat_tables(tables["scores"]).cast(SCORES)
    names = dict(zip(seeding.text_ids(anchors).tolist(), anchors, strict=True))
    values = dict(zip(scores["candidate_id"].to_pylist(), scores["value"].to_pylist(), strict=True))
    found: dict[str, dict[str, float]] = {}
    for row in candidates.to_pylist():
        assert (row["role"], row["relation"], row["method"]) == ("negative", "other", "mined")
        assert (row["detail"]["operation"], row["generation_id"]) == ("mined", None)
        # As `parse` would number it.
        own = seeding.text_id(str(row["sentence_id"]), "mined", "negative", row["text"])
        assert row["candidate_id"] == own
        found.setdefault(names[row["sentence_id"]], {})[row["text"]] = values[own]
    return found


TOPICS: list[Topic] = [
    ("a", 1, "of a", 0, 40),
    ("b", 2, "of b", 90, 45),
    ("c", 3, "of c", 180, 70),
]


def test_the_nearest_below_the_positives_share(tmp_path: Path) -> None:
    found = mined(tmp_path, TOPICS, below=0.95)
    # a's positive has cos 40 = 0.766, so the cap is 0.728: b's at 45 degrees has 0.707.
    assert found["a"] == {"of b": pytest.approx(np.cos(np.radians(45)), abs=1e-6)}
    # b's has cos 45: of those at most 0.672 the nearest is a's, at 50 degrees.
    assert found["b"] == {"of a": pytest.approx(np.cos(np.radians(50)), abs=1e-6)}
    # c's positive is behind it: what is farther still is a itself.
    assert found["c"] == {"of b": pytest.approx(np.cos(np.radians(135)), abs=1e-6)}


def test_texts_of_the_same_document_and_of_several_are_left_out(tmp_path: Path) -> None:
    near: list[Topic] = [*TOPICS, ("d", 1, "mine too", 100, 44), ("e", 5, "of b", 30, 45)]
    found = mined(tmp_path, near, below=0.95)
    # "mine too" is of a's document, "of b" now stands in two.
    assert found["a"].keys() == {"of c"}


def test_each_positive_has_its_own(tmp_path: Path) -> None:
    topics: list[Topic] = [*TOPICS, ("a", 1, "far of a", 0, 72)]
    found = mined(tmp_path, topics, below=0.95)
    assert set(found["a"]) == {"of b", "b"}


def test_parts_give_what_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    topics: list[Topic] = [
        (f"a{i}", i // 3, f"p{i}", float(rng.uniform(0, 360)), float(rng.uniform(0, 360)))
        for i in range(40)
    ]
    whole = mined(tmp_path, topics)
    monkeypatch.setattr(mine, "_PART", 13)
    monkeypatch.setattr(mine, "_BLOCK", 7)
    assert mined(tmp_path, topics, parts=4) == whole


def unit(rng: np.random.Generator, rows: int) -> np.ndarray:
    vectors = rng.normal(size=(rows, 6)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("block", [1, 7, 40, 100])
def test_it_finds_what_a_search_row_by_row_finds(block: int) -> None:
    rng = np.random.default_rng(block)
    # More than are asked at once.
    queries, pool = unit(rng, 523), unit(rng, 60)
    docs = rng.integers(0, 9, 523).astype(np.uint64)
    owners = np.sort(rng.integers(0, 9, 60)).astype(np.uint64)
    caps = rng.uniform(-1, 1, (523, 3)).astype(np.float32)
    caps[4, 2] = np.nan
    blocks = [(pool[i : i + block], owners[i : i + block]) for i in range(0, 60, block)]
    rows, cosines = nearest_below(queries, docs, caps, blocks)
    cosine = queries @ pool.T
    for i in range(523):
        for k in range(3):
            near = np.where((owners != docs[i]) & (cosine[i] < caps[i, k]), cosine[i], -np.inf)
            assert cosines[i, k] == pytest.approx(near.max(), abs=1e-6)
            assert rows[i, k] == (-1 if np.isinf(near.max()) else near.argmax())
    assert rows[4, 2] == -1


def test_a_text_without_a_vector_is_nobodys_nearest() -> None:
    vectors = np.array([[np.nan, np.nan], [0.6, 0.8]], dtype=np.float32)
    owners = np.array([1, 2], dtype=np.uint64)
    query = np.array([[1.0, 0.0]], dtype=np.float32)
    caps = np.array([[0.9]], dtype=np.float32)
    rows, cosines = nearest_below(query, np.array([7], dtype=np.uint64), caps, [(vectors, owners)])
    assert rows.tolist() == [[1]]
    assert cosines[0, 0] == pytest.approx(0.6)
