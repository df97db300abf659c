"""A small run makes the rows that are written down, so that a change of structure alters none.

TERCET_GOLDEN=write writes them down anew, after a change that is meant to alter them.
"""

import hashlib
import json
import os
from pathlib import Path

import pytest
import yaml
from faulty_server import FaultyServer
from tiny_run import Tiny, ended_well, query, started_anew

RECORD = Path(__file__).with_name("golden_digests.json")

# Columns, not *: one that joins later alters no row that was there. None of them depends on the
# processor.
ROWS = {
    "documents": "doc_id, source, corpus, split",
    "sentences": "sentence_id, text, corpus, doc_id, paragraph, position, n_words, split",
    "document_pairs": "pair_id, doc_id, query, answer, split",
    "mentions": "mention_id, node_id, sentence_id, kind, text, type, value, unit, of_mention_id, "
    'start, "end"',
    "sentence_categories": "sentence_id, category",
    "kg_nodes": "node_id, kind, text, count",
    "kg_edges": "source, target, kind, count",
    "anchors": "*",
    "generations": "generation_id, purpose, sentence_id, method, raw, finish_reason",
    "candidates": "candidate_id, generation_id, sentence_id, role, method, text, detail",
    "triplets": "triplet_id, sentence_id, anchor, positive, positive_method, negative, "
    "negative_method, positive_id, negative_id",
    "rejects": "stage, row_id, reason, text",
}
# Means, which agree between processors to this much.
FIGURES = {
    "scores": "SELECT measure, avg(value) FROM scores GROUP BY ALL ORDER BY ALL",
    "positives": "SELECT positive_method, avg(positive_similarity) FROM triplets "
    "GROUP BY ALL ORDER BY ALL",
    "negatives": "SELECT negative_method, avg(negative_similarity) FROM triplets "
    "GROUP BY ALL ORDER BY ALL",
    "training": "SELECT phase || step, loss FROM training_log ORDER BY phase, step",
}
TOLERANCE = 1e-3


def recipe_in(folder: Path, tiny: Tiny, endpoint: str) -> Path:
    """Rules of every kind and a prompted method, trained on for four steps."""
    recipe = yaml.safe_load(tiny.recipe.read_text())
    prompt = folder / "prompt.jinja"
    prompt.write_text("{{ sentence }}")
    for method in ("rest_of_paragraph", "synonym", "number_form", "negation", "antonym"):
        recipe["synthesise"][method] = None
    recipe["synthesise"]["rewrite"] = {"prompt": str(prompt)}
    recipe["llm"] = {"name": "capitals", "api": "completions"}
    recipe["run"]["llm"] = {"endpoints": [endpoint], "concurrency": 16}
    recipe["train"] |= {"log_steps": 1}
    recipe["train"]["phases"][0]["max_steps"] = 4
    path = folder / "golden.yaml"
    path.write_text(yaml.safe_dump(recipe, sort_keys=False))
    return path


def test_the_rows_of_a_small_run_are_those_written_down(tiny: Tiny, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with FaultyServer() as server:
        words = ("run", str(recipe_in(tmp_path, tiny, server.url)), "--no-server")
        ended_well(started_anew(*words, "--store", str(store), "--until", "train"))
    rows = {}
    for table, columns in ROWS.items():
        lines = sorted(repr(row) for row in query(store, f"SELECT {columns} FROM {table}"))
        lines = [line.replace(str(tiny.corpus.parent), "") for line in lines]
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        rows[table] = f"{digest[:16]} of {len(lines)} rows"
    figures = {name: dict(query(store, asked)) for name, asked in FIGURES.items()}
    if os.environ.get("TERCET_GOLDEN") == "write":
        RECORD.write_text(json.dumps({"rows": rows, "figures": figures}, indent=1) + "\n")
    golden = json.loads(RECORD.read_text())
    assert rows == golden["rows"]
    for name, values in figures.items():
        assert values == pytest.approx(golden["figures"][name], abs=TOLERANCE), name
