"""Digests of every data table that a small recipe makes: equal where a change left all rows alone.

    python benchmarks/row_digests.py                  prints them, and what differs from the record
    python benchmarks/row_digests.py --write          makes them the record

The corpus is made up by `tests/support/tiny_run.py`, the encoder has random weights and is made on
the spot, and a stub answers for the language model, so that nothing but the code decides the rows.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "benchmarks" / "row_digests" / "digests.json"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "support")]

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

# Columns, not *: one that joins later changes no row that was there. Scores are rounded, since the
# last digits of a sum depend on the processor.
TABLES = {
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
    "scores": "candidate_id, measure, round(value, 4) AS value",
    "triplets": "triplet_id, sentence_id, anchor, positive, positive_method, negative, "
    "negative_method, positive_id, negative_id, round(positive_similarity, 4), "
    "round(negative_similarity, 4)",
    "rejects": "stage, row_id, reason, text",
}


def made(folder: Path) -> dict[str, str]:
    """Runs the recipe up to its triplets; table to digest and number of rows."""
    from conftest import tiny_backbone
    from faulty_server import FaultyServer
    from tiny_run import documents, write_corpus, write_recipe

    class Folders:
        def mktemp(self, name: str) -> Path:
            (folder / name).mkdir()
            return folder / name

    backbone = tiny_backbone.__wrapped__(Folders())
    corpus, path = folder / "prose.jsonl", folder / "tiny.yaml"
    write_corpus(corpus, documents(140))
    write_recipe(path, corpus, backbone)
    recipe = yaml.safe_load(path.read_text())
    prompt = folder / "prompt.jinja"
    prompt.write_text("{{ sentence }}")
    for method in ("rest_of_paragraph", "synonym", "number_form", "negation", "antonym"):
        recipe["synthesise"][method] = None
    recipe["synthesise"]["rewrite"] = {"prompt": str(prompt)}
    recipe["llm"] = {"name": "capitals", "api": "completions"}
    recipe["select"] = {"pairing": "role", "positive_min": 0.0, "negative_max": 1.0}
    digests = {}
    with FaultyServer() as server:
        recipe["run"]["llm"] = {"endpoints": [server.url], "concurrency": 16, "list_size": 4}
        path.write_text(yaml.safe_dump(recipe, sort_keys=False))
        store = folder / "store"
        tercet = [sys.executable, "-c", "from tercet.flows.cli import main; main()"]
        until = ["run", str(path), "--no-server", "--store", str(store), "--until", "select"]
        subprocess.run([*tercet, *until], check=True, stdout=subprocess.DEVNULL)
        for table, columns in TABLES.items():
            asked = f"SELECT {columns} FROM {table}"
            told = subprocess.run(
                [*tercet, "sql", asked, "--store", str(store), "--format", "json"],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            place = str(folder)
            lines = sorted(
                json.dumps(row, sort_keys=True).replace(place, "") for row in json.loads(told)
            )
            found = hashlib.sha256("\n".join(lines).encode()).hexdigest()
            digests[table] = f"{found[:16]} of {len(lines)} rows"
    return digests


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        digests = made(Path(folder))
    known = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    for table, digest in digests.items():
        same = "" if known.get(table) == digest else f"   was {known.get(table, 'not recorded')}"
        print(f"{table:<20} {digest}{same}")
    if "--write" in sys.argv:
        RECORD.write_text(json.dumps(digests, indent=1) + "\n")


if __name__ == "__main__":
    main()
