"""Search in a run's passages: each ranking is that of its encoder or of BM25, over all passages."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands_store import make_artifact, make_run, small_store
from failures import fails
from searched_store import CONFIG, Searched, passages, searched

from tercet.errors import ErrorKind
from tercet.flows.results.search import WAYS, Answer, open_index, open_passages
from tercet.flows.results.search import search as search_in
from tercet.models.retrieval import bm25
from tercet.models.retrieval.rankings import WEIGHT
from tercet.models.text.passages import passage_text
from tercet.storage.runs import get_run
from tercet.storage.store import Store, is_own, open_store

__all__ = ["searched"]

QUERY = "open the old file"


def search(
    store: Store, run: str | None, query: str, count: int = 5, by: str | None = None
) -> Answer:
    return search_in(open_passages(store, run), query, count, by)


def ranked(answer: Answer, way: str) -> list[int]:
    """The ids with a rank, in its order."""
    rows = [row for row in answer.rows.to_pylist() if row[way] is not None]
    return [row["passage_id"] for row in sorted(rows, key=lambda row: row[way])]


def by_hand(of: Searched, folder: Path) -> tuple[list[int], list[float]]:
    """Ids and cosines in order, by sentence-transformers with both prompts typed out."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    assert CONFIG.prompts.query is not None
    query = model.encode([CONFIG.prompts.query + QUERY], normalize_embeddings=True)
    documents = [f"{CONFIG.prompts.document}{text}" for text in of.texts]
    cosines = (model.encode(documents, normalize_embeddings=True) @ query.T)[:, 0]
    order = np.argsort(-cosines, kind="stable")
    return [of.ids[place] for place in order], cosines[order].tolist()


def test_each_ranking_is_that_of_its_model_over_all_passages(searched: Searched) -> None:
    answer = search(searched.store, None, QUERY, count=60)
    assert (answer.passages, answer.missing) == (60, {})
    rows = {row["passage_id"]: row for row in answer.rows.to_pylist()}
    assert len(rows) == answer.rows.num_rows == 60
    orders = []
    for way, folder in (("after", searched.trained), ("before", searched.backbone)):
        ids, cosines = by_hand(searched, folder)
        assert [rows[one][way] for one in ids] == list(range(1, 61))
        assert [rows[one][f"{way}_score"] for one in ids] == pytest.approx(cosines, abs=1e-5)
        orders.append(ids)
    assert orders[0] != orders[1]
    (places,), (scores,) = bm25.search(bm25.build(searched.texts), [QUERY], 60)
    found = [searched.ids[place] for place in places if place >= 0]
    assert 0 < len(found) < 60
    assert ranked(answer, "bm25") == found
    assert [rows[one]["bm25_score"] for one in found] == scores[: len(found)].tolist()
    sums = {
        one: row["after_score"] / max(row["after_score"] for row in rows.values())
        + WEIGHT * (row["bm25_score"] or 0.0) / scores[0]
        for one, row in rows.items()
    }
    assert ranked(answer, "both") == sorted(sums, key=lambda one: -sums[one])


def test_the_best_of_each_ranking_stand_in_the_order_of_both(
    searched: Searched,
) -> None:
    whole = search(searched.store, searched.run, QUERY, count=60)
    answer = search(searched.store, searched.run, QUERY, count=2)
    best = {one for way in WAYS for one in ranked(whole, way)[:2]}
    assert set(answer.rows["passage_id"].to_pylist()) == best
    order = [one for one in ranked(whole, "both") if one in best]
    assert answer.rows["passage_id"].to_pylist() == order
    nowhere = search(searched.store, None, "zzz", count=2)
    assert ranked(nowhere, "bm25") == []
    assert len(ranked(nowhere, "after")) >= 2
    for way in WAYS:
        only = search(searched.store, "notes", QUERY, count=2, by=way)
        assert only.rows["passage_id"].to_pylist() == ranked(whole, way)[:2]
        row = only.rows.to_pylist()[0]
        place = searched.ids.index(row["passage_id"])
        assert row["path"] == f"notes.md:{place}"
        assert row["context"] == ("Notes > File open" if place % 2 else "")


def test_passages_that_come_with_tercet_are_not_found_unless_there_are_no_others(
    searched: Searched,
) -> None:
    whole = search(searched.store, None, QUERY, count=60)
    steps = (get_run(searched.store, searched.run) or {})["steps"]
    has = {step["step"]: (step["version"], "made", step["tables"]) for step in steps}
    plain = {"name": "plain", "source": "package:tercet.recipes/plain_english.txt"}
    recipe = {"name": "notes", "backbone": str(searched.backbone), "corpora": [plain]}
    for shipped, there in ((25, searched.ids[25:]), (60, searched.ids)):
        texts = [text.rpartition("\n")[2] for text in searched.texts]
        table = {"passages": passages(texts, shipped)}
        make_artifact(searched.store, "passages", f"dddd{shipped}", table)
        has["passages"] = (f"dddd{shipped}", "made", {"passages": 60})
        run = make_run(searched.store, "notes", has, recipe)
        answer = search(searched.store, run, QUERY, count=60)
        assert answer.passages == len(there)
        assert ranked(answer, "both")
        for way in WAYS:
            # The sum's terms are scaled by the best of what may be found.
            if way != "both":
                assert ranked(answer, way) == [one for one in ranked(whole, way) if one in there]
            assert min(r for r in answer.rows[way].to_pylist() if r is not None) == 1


@pytest.mark.parametrize(
    ("query", "more", "kind", "name"),
    [
        ("  \n\t", {}, "bad_value", "query"),
        (QUERY, {"by": "tfidf"}, "unknown_name", "tfidf"),
        (QUERY, {"count": 0}, "bad_value", "count"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    searched: Searched, query: str, more: dict[str, Any], kind: ErrorKind, name: str
) -> None:
    with fails(kind, name):
        search(searched.store, None, query, **more)


def test_a_run_without_passages_is_refused(tmp_path: Path, searched: Searched) -> None:
    store, run = small_store(tmp_path / "other")
    with fails("not_reached", "ingest.passages"):
        search(store, None, QUERY)
    with fails("not_reached", run):
        search(store, run, QUERY)
    with fails("unknown_name", "20200101"):
        search(searched.store, "20200101", QUERY)
    # A newer run without any does not hide the one that has some.
    make_run(searched.store, "later", {"ingest": ("dddd", "made", {})})
    assert search(searched.store, None, QUERY).run["run_id"] == searched.run


def test_a_run_that_has_not_trained_is_searched_by_what_it_has(searched: Searched) -> None:
    steps = (get_run(searched.store, searched.run) or {})["steps"]
    has = {
        step["step"]: (step["version"], "made", step["tables"])
        for step in steps
        if step["step"] in ("passages", "passage_vectors.base")
    }
    content = {"name": "notes", "backbone": str(searched.backbone)}
    half = make_run(searched.store, "notes", has, content, state=None)
    answer = search(searched.store, half, QUERY, count=2)
    assert list(answer.missing) == ["after", "both"]
    assert "passage_vectors.encoder" in answer.missing["after"]
    assert ranked(answer, "after") == []
    assert len(ranked(answer, "before")) >= 2
    with fails("not_reached"):
        search(searched.store, half, QUERY, by="after")


def test_a_backbone_that_is_another_by_now_gives_no_ranks(
    searched: Searched, tmp_path: Path
) -> None:
    steps = (get_run(searched.store, searched.run) or {})["steps"]
    has = {step["step"]: (step["version"], "made", step["tables"]) for step in steps}
    other = shutil.copytree(searched.trained, tmp_path / "backbone")
    run = make_run(searched.store, "notes", has, {"name": "notes", "backbone": str(other)})
    answer = search(searched.store, run, QUERY)
    assert list(answer.missing) == ["before"]
    assert len(ranked(answer, "after")) >= 5


def test_what_was_removed_is_told(searched: Searched) -> None:
    root = Path(searched.store.location) / "artifacts"
    shutil.rmtree(root / "passage_vectors.encoder")
    assert "removed" in search(searched.store, None, QUERY).missing["after"]
    shutil.rmtree(root / "passages")
    with fails("gone", "removed"):
        search(searched.store, None, QUERY)


TEXTS = ["the red file", "an old list", "blue and green", "one large column of the red index"]


def test_an_index_is_built_once_and_again_for_other_passages_or_a_damaged_file(
    tmp_path: Path,
) -> None:
    root = tmp_path / "store"
    store = open_store(str(root))
    table = passages(TEXTS)
    texts = [passage_text(row["context"], row["text"]) for row in table.to_pylist()]
    artifact = make_artifact(store, "passages", "aaaa", {"passages": table})
    other = set(root.rglob("*"))

    def files() -> dict[Path, int]:
        """When each file of an index was written."""
        return {file: file.stat().st_mtime_ns for file in set(root.rglob("*.npy")) - other}

    def answer() -> list[Any]:
        return [part.tolist() for part in bm25.search(open_index(store, artifact), ["red file"], 4)]

    wanted = [part.tolist() for part in bm25.search(bm25.build(texts), ["red file"], 4)]
    assert answer() == wanted
    built = files()
    assert answer() == wanted
    assert files() == built != {}
    written = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    assert [path for path in written if not is_own(path)] == []
    for file in built:
        file.write_bytes(file.read_bytes()[:20])
    assert answer() == wanted
    artifact = make_artifact(store, "passages", "bbbb", {"passages": passages(["?"])})
    for _ in range(2):
        assert set(answer()[0][0]) == {-1}
