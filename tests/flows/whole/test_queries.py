"""Whole runs on queries to passages: natural ones, trained on as what a search would be asked."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from beir_folder import write_beir
from obeying_server import obeying_server
from tiny_run import Tiny, documents, ended_well, query, tercet

COUNT = 60


def pages(folder: Path) -> Path:
    """Markdown of a title, a section of its own, and one that every page has."""
    folder.mkdir()
    for number, row in enumerate(documents(COUNT, seed=3)):
        first, second = row["query"].split(". ")[0], row["answer"].split(". ")[0]
        text = f"# Report {number} on {first.split()[-1]}\n\n{row['query']}\n\n"
        text += f"## What {second.split()[-1]} did {number}\n\n{row['answer']}\n\n"
        text += f"## Parameters\n\n{' '.join(reversed(row['answer'].split()))}.\n"
        (folder / f"page{number:02}.md").write_text(text)
    return folder


def recipe(tiny: Tiny, tmp_path: Path, **changes: Any) -> dict[str, Any]:
    """A recipe that trains on queries, in two parts beside what sentences give."""
    content = yaml.safe_load(tiny.recipe.read_text())
    content |= {
        "corpora": [{"name": "pages", "source": str(pages(tmp_path / "pages"))}],
        "ingest": {"test": 0.2, "dev": 0.05, "passages": {"tokens": 64}},
        "synthesise": {"title": None, "heading": None, "next_sentences": None},
        "select": {"relations": {"topic": {"positive_min": 0.0}}},
    }
    loss = "info_nce"
    parts = [
        {"name": "found", "rows": "queries", "loss": loss},
        {"name": "near", "rows": "pairs", "loss": loss},
    ]
    content["train"]["phases"] = [{"name": "search", "batch_size": 8, "max_steps": 6}]
    content["train"]["phases"][0]["parts"] = parts
    return content | changes


def run(tmp_path: Path, content: dict[str, Any], *options: str) -> Path:
    file, store = tmp_path / "own.yaml", tmp_path / "store"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    ended_well(tercet("run", str(file), "--no-server", "--store", str(store), *options))
    return store


@pytest.fixture(scope="module")
def made(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of one run."""
    folder = tmp_path_factory.mktemp("queries")
    return run(folder, recipe(tiny, folder))


def test_titles_and_headings_find_the_passages_below_them(made: Path) -> None:
    rows = query(
        made,
        """SELECT t.positive_method, t.anchor, t.positive, p.text, p.context, p.split, t.relation
           FROM triplets t JOIN passages p ON p.passage_id = t.sentence_id""",
    )
    assert {row[0] for row in rows} == {"title", "heading"}
    for method, anchor, positive, text, context, split, relation in rows:
        assert (positive, split, relation) == (text, "train", "topic")
        path = context.split(" > ")
        title, last = path[0], path[-1]
        names = {"title": title, "heading": f"{title} {last}" if last == "Parameters" else last}
        assert anchor == names[method]
        assert anchor.lower() not in text.lower()
    assert len({row[1] for row in rows}) == len(rows) > 40
    # A heading that every page has is asked behind its page.
    assert 20 < sum(row[1].endswith(" Parameters") for row in rows) < len(rows)


def test_natural_pairs_alone_need_no_evaluator_and_none_is_a_held_out_question(
    tiny: Tiny, tmp_path: Path
) -> None:
    """The queries of a retrieval set are the corpus's own titles."""
    content = recipe(tiny, tmp_path)
    del content["evaluator"], content["select"]
    content["synthesise"] = {"title": None, "heading": None}
    content["sample"] = {"passages": 40}
    content["train"]["phases"] = [{"rows": "queries", "loss": "info_nce", "max_steps": 2}]
    titles = {
        str(number): file.read_text().partition("\n")[0].removeprefix("# ")
        for number, file in enumerate(sorted((tmp_path / "pages").glob("*.md")))
    }
    judged = {"test": [(name, name, 1) for name in titles]}
    held = write_beir(tmp_path / "held", dict.fromkeys(titles, "A page."), titles, judged)
    content["evaluate"] = {"retrieval_sets": {"mine": str(held)}, "bootstrap": 100}
    store = run(tmp_path, content)
    found = query(store, "SELECT anchor, positive_method, positive_similarity FROM triplets")
    assert {row[1:] for row in found} == {("title", None), ("heading", None)}
    # Not all passages are asked about.
    passages = query(store, "SELECT count(DISTINCT sentence_id) FROM generations")
    assert 20 < passages[0][0] <= 40
    removed = query(store, "SELECT DISTINCT text FROM contamination WHERE removed")
    assert {row[0] for row in found if row[1] == "title"} == {row[0] for row in removed}


def test_questions_are_kept_that_find_their_own_passage(tiny: Tiny, tmp_path: Path) -> None:
    """Moving the bound asks, encodes and ranks nothing again."""
    content = recipe(tiny, tmp_path, llm={"name": "obeying", "temperature": 0.3})
    content["synthesise"] = {"title": None, "question": {"kinds": ["keyword"]}}
    content["score"] = {"round_trip": None}
    content["train"]["phases"] = [{"rows": "queries", "loss": "info_nce", "max_steps": 2}]
    content["select"] = {"rank_max": 1}
    bounded = content | {"select": {"rank_max": 2, "rank": "fused"}}
    with obeying_server() as (server, asked):
        content["run"]["llm"] = {"endpoints": [server.url]}
        store = run(tmp_path, content, "--until", "select")
        count = len(asked.asked)
        run(tmp_path, bounded)
        assert len(asked.asked) == count
    newest = "run_id = (SELECT max(run_id) FROM run_steps)"
    reused = query(store, f"SELECT step FROM run_steps WHERE state = 'reused' AND {newest}")
    assert ("score.round_trip",) in reused
    assert ("select",) not in reused
    rows = query(
        store,
        """SELECT c.method, max(s.value) FILTER (s.measure = 'rank_vectors'),
               max(s.value) FILTER (s.measure = 'rank_bm25'),
               max(s.value) FILTER (s.measure = 'rank_fused'), any_value(r.reason),
               bool_or(t.triplet_id IS NOT NULL)
           FROM candidates c LEFT JOIN scores s USING (candidate_id)
           LEFT JOIN rejects r ON r.row_id = c.candidate_id AND r.stage = 'select'
           LEFT JOIN triplets t ON t.positive_id = c.candidate_id
           GROUP BY c.candidate_id, c.method""",
    )
    passages = query(store, "SELECT count(*) FROM passages")[0][0]
    reasons = {}
    for method, near, worded, fused, reason, kept in rows:
        if method == "title":
            assert (near, worded, fused) == (None, None, None)
            assert reason != "beyond_rank_max"
            continue
        assert 1 <= near <= passages
        assert worded in {*range(1, passages + 1), 1_001}
        assert kept == (reason is None)
        assert fused <= 2 if kept else reason != "beyond_rank_max" or fused > 2
        reasons[reason] = reasons.get(reason, 0) + 1
    assert reasons[None] > 5
    assert reasons["beyond_rank_max"] > 5
