"""The BM25 index of a run's passages is built once, and again for other passages."""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands_store import make_artifact
from searched_store import passages

from tercet.flows.results import search
from tercet.models.retrieval import bm25
from tercet.models.text.passages import passage_text
from tercet.storage.store import is_own, open_store

TEXTS = ["the red file", "an old list", "blue and green", "one large column of the red index"]


def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many documents each index that is built has, as they are built."""
    counts: list[int] = []

    def counting(texts: Iterable[str]) -> bm25.Bm25:
        made = bm25.build(texts)
        counts.append(made.documents)
        return made

    monkeypatch.setattr(search, "bm25", SimpleNamespace(**(vars(bm25) | {"build": counting})))
    return counts


def test_an_index_is_kept_and_answers_as_the_one_that_was_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = built(monkeypatch)
    store = open_store(str(tmp_path / "store"))
    table = passages(TEXTS)
    artifact = make_artifact(store, "passages", "aaaa", {"passages": table})
    texts = [passage_text(row["context"], row["text"]) for row in table.to_pylist()]
    wanted = bm25.search(bm25.build(texts), ["red file"], 4)
    for _ in range(3):
        index = search.open_index(store, artifact)
        places, scores = bm25.search(index, ["red file"], 4)
        assert places.tolist() == wanted[0].tolist()
        assert scores.tolist() == wanted[1].tolist()
    assert counts == [4]
    root = tmp_path / "store"
    files = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    assert [path for path in files if not is_own(path)] == []
    fewer = make_artifact(store, "passages", "bbbb", {"passages": passages(TEXTS[:3])})
    search.open_index(store, fewer)
    assert counts == [4, 3]


def test_a_damaged_index_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = built(monkeypatch)
    store = open_store(str(tmp_path / "store"))
    artifact = make_artifact(store, "passages", "aaaa", {"passages": passages(TEXTS)})
    search.open_index(store, artifact)
    for file in sorted((tmp_path / "store/cache/bm25").rglob("*.npy")):
        file.write_bytes(file.read_bytes()[:20])
    search.open_index(store, artifact)
    search.open_index(store, artifact)
    assert counts == [4, 4]


def test_passages_without_any_word_have_an_index_too(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    table = passages(["?"])
    artifact = make_artifact(store, "passages", "aaaa", {"passages": table})
    for _ in range(2):
        places, _ = bm25.search(search.open_index(store, artifact), ["red"], 1)
        assert places.tolist() == [[-1]]
