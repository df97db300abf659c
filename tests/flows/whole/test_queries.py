"""Whole runs on queries to passages: natural ones, trained on as what a search would be asked."""

from pathlib import Path
from typing import Any

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
    """The tiny recipe over pages."""
    content = yaml.safe_load(tiny.recipe.read_text())
    corpora = [{"name": "pages", "source": str(pages(tmp_path / "pages"))}]
    ingest = {"test": 0.2, "dev": 0.05, "passages": {"tokens": 64}}
    return content | {"corpora": corpora, "ingest": ingest} | changes


def run(tmp_path: Path, content: dict[str, Any], *options: str) -> Path:
    file, store = tmp_path / "own.yaml", tmp_path / "store"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    ended_well(tercet("run", str(file), "--no-server", "--store", str(store), *options))
    return store


def test_titles_and_headings_find_the_passages_below_them(tiny: Tiny, tmp_path: Path) -> None:
    """No evaluator is needed. The queries of a retrieval set, some titles, are not trained on."""
    content = recipe(tiny, tmp_path)
    del content["evaluator"], content["select"]
    content["synthesise"] = {"title": None, "heading": None}
    content["sample"] = {"passages": 60}
    content["train"]["phases"] = [{"rows": "queries", "loss": "info_nce", "max_steps": 2}]
    files = sorted((tmp_path / "pages").glob("*.md"))[:20]
    titles = {file.stem: file.read_text().partition("\n")[0].removeprefix("# ") for file in files}
    judged = {"test": [(name, name, 1) for name in titles]}
    held = write_beir(tmp_path / "held", dict.fromkeys(titles, "A page."), titles, judged)
    content["evaluate"] = {"retrieval_sets": {"mine": str(held)}, "bootstrap": 100}
    store = run(tmp_path, content)
    rows = query(
        store,
        """SELECT t.positive_method, t.anchor, t.positive, p.text, p.context, p.split, t.relation
           FROM triplets t JOIN passages p ON p.passage_id = t.sentence_id""",
    )
    assert {row[0] for row in rows} == {"title", "heading"}
    for method, anchor, positive, text, context, split, relation in rows:
        assert (positive, split, relation) == (text, "train", "topic")
        path = context.split(" > ")
        title, last = path[0], path[-1]
        # A heading that every page has is asked behind its page.
        names = {"title": title, "heading": f"{title} {last}" if last == "Parameters" else last}
        assert anchor == names[method]
        assert anchor.lower() not in text.lower()
    assert len({row[1] for row in rows}) == len(rows) > 20
    # Not all passages are asked about.
    ((asked,),) = query(store, "SELECT count(DISTINCT sentence_id) FROM generations")
    assert 30 < asked <= 60
    removed = query(store, "SELECT DISTINCT text FROM contamination WHERE removed")
    assert {text for (text,) in removed} <= set(titles.values())
    refused = "SELECT count(*) > 0 FROM rejects WHERE stage = 'guard' AND reason = 'contaminated'"
    assert query(store, refused) == [(True,)]


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
