"""The BM25 index of a run's passages is built once, and again for other passages."""

from pathlib import Path

from commands_store import make_artifact
from searched_store import passages

from tercet.flows.results import word_index
from tercet.models.retrieval import bm25
from tercet.models.text.passages import passage_text
from tercet.storage.layout import foreign
from tercet.storage.store import open_store

TEXTS = ["the red file", "an old list", "blue and green", "one large column of the red index"]


def files(store: Path) -> dict[Path, tuple[int, bytes]]:
    """Those of the kept indexes, with the time at which each was written."""
    paths = (store / "cache/bm25").rglob("*.npy")
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}


def test_an_index_is_kept_and_answers_as_the_one_that_was_built(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    table = passages(TEXTS)
    artifact = make_artifact(store, "passages", "aaaa", {"passages": table})
    texts = [passage_text(row["context"], row["text"]) for row in table.to_pylist()]
    wanted = bm25.search(bm25.build(texts), ["red file"], 4)
    kept = {}
    for _ in range(3):
        index = word_index.open_index(store, artifact)
        places, scores = bm25.search(index, ["red file"], 4)
        assert places.tolist() == wanted[0].tolist()
        assert scores.tolist() == wanted[1].tolist()
        kept = kept or files(store.work)
        assert files(store.work) == kept != {}
    assert list(foreign(tmp_path / "store")) == []
    fewer = make_artifact(store, "passages", "bbbb", {"passages": passages(TEXTS[:3])})
    assert word_index.open_index(store, fewer).documents == 3


def test_a_damaged_index_is_built_anew(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    artifact = make_artifact(store, "passages", "aaaa", {"passages": passages(TEXTS)})
    word_index.open_index(store, artifact)
    kept = files(store.work)
    for file, (_, content) in kept.items():
        file.write_bytes(content[:20])
    for _ in range(2):
        word_index.open_index(store, artifact)
        mended = {path: content for path, (_, content) in files(store.work).items()}
        assert mended == {path: content for path, (_, content) in kept.items()}


def test_passages_without_any_word_have_an_index_too(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    table = passages(["?"])
    artifact = make_artifact(store, "passages", "aaaa", {"passages": table})
    for _ in range(2):
        places, _ = bm25.search(word_index.open_index(store, artifact), ["red"], 1)
        assert places.tolist() == [[-1]]
