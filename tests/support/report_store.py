"""A store that is written down, not run: every table that a report reads, with values known."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tercet.storage.artifacts import open_artifact
from tercet.storage.part_writer import PartWriter
from tercet.storage.runs import end_run, record_step, start_run
from tercet.storage.store import Store, open_store
from tercet.tasks.stages import known_schemas

METHODS = {"next_sentences": "positive", "entity_swap": "negative", "random": "negative"}
EVIL = "</script><script>document.title = 'taken'</script><img src=x onerror=alert(1)>"
Tables = dict[str, list[dict[str, Any]]]


def number(text: str) -> int:
    """The id of a text, as the catalog's `md5_number_lower` has it."""
    return int.from_bytes(hashlib.md5(text.encode()).digest()[8:], "little")


def write_run(
    location: Path,
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    name: str = "written",
    state: str = "done",
    version: str = "0123456789abcdef",
    recipe: Mapping[str, Any] | None = None,
    stages: Sequence[str] = ("ingest", "train", "evaluate"),
    end: Mapping[str, Any] | None = None,
) -> str:
    """A run whose one artifact has these rows; the other steps are noted without one. Its id."""
    store = open_store(str(location))
    schemas = known_schemas()
    artifact = open_artifact(store, "everything", version)
    artifact.adopt_plan([{"spec": {}}])
    with PartWriter(artifact.scratch() / "staging", schemas, 1000) as writer:
        for table, rows in tables.items():
            if rows:
                writer.emit(table, pa.Table.from_pylist(list(rows), schemas[table]))
        artifact.commit(0, writer.close(None), f"key-{version}", {})
    artifact.finish({"components": {"stage": "everything"}, "inputs": [], "seconds": 1.5})
    steps = ["everything", *stages, "select"]
    defaults = {"name": name, "seed": 42, "evaluate": {"bootstrap": 2_000}}
    run_id = start_run(store, name, {**defaults, **(recipe or {})}, {"steps": steps})
    _note(store, run_id, "everything", version, "made", tables)
    for stage in stages:
        _note(store, run_id, stage, f"{number(stage):016x}", "reused", {})
    end_run(store, run_id, state, end or {})
    return run_id


def _note(
    store: Store, run_id: str, step: str, version: str, state: str, tables: Mapping[str, Any]
) -> None:
    counts = {table: len(rows) for table, rows in tables.items()}
    entry = {"stage": step.partition(".")[0], "version": version, "state": state, "seconds": 2.0}
    record_step(store, run_id, step, {**entry, "tables": counts})


def made(anchors: int = 30) -> Tables:
    """A corpus, candidates of three methods, their scores, and what selection made of them.

    Of each anchor there is one candidate a method. `next_sentences` scores 0.5 for even anchors and
    0.1, which is refused, for odd ones. `entity_swap` scores 0.9 for anchors that 3 divides, and
    0.99, which is refused, for the others. The text of sentence 0 is hostile.
    """
    texts = [EVIL if i == 0 else f"Sentence {i} of the corpus." for i in range(anchors)]
    ids = [number(text) for text in texts]
    found: Tables = {name: [] for name in ("sentences", "candidates", "generations", "scores")}
    found |= {"triplets": [], "rejects": [], "embeddings": []}
    draw = np.random.default_rng(3)
    for i, (text, own) in enumerate(zip(texts, ids, strict=True)):
        found["sentences"].append(
            {"sentence_id": own, "text": text, "doc_id": 1, "split": "train", "corpus": "c"}
        )
        found["embeddings"].append({"text_id": own, "vector": _vector(draw)})
        chosen = {}
        for method, role in METHODS.items():
            said = f"{method} says {EVIL if i == 0 else i}"
            value = {
                "next_sentences": 0.5 if i % 2 == 0 else 0.1,
                "entity_swap": 0.9 if i % 3 == 0 else 0.99,
                "random": 0.0,
            }[method]
            key = number(f"{method}{i}")
            detail = {"operation": method, "old": EVIL, "new": "new", "pool": "T_r"}
            row = {"generation_id": key, "sentence_id": own, "method": method}
            row["detail"] = detail if method == "entity_swap" else None
            found["generations"].append({**row, "purpose": role, "raw": said})
            found["candidates"].append({**row, "candidate_id": key, "role": role, "text": said})
            found["scores"].append(
                {"candidate_id": key, "scorer": "evaluator", "measure": "similarity"}
                | {"value": value}
            )
            found["embeddings"].append({"text_id": number(said), "vector": _vector(draw)})
            reason = {0.1: "below_positive_min", 0.99: "above_negative_max"}.get(value)
            if reason:
                found["rejects"].append(
                    {"stage": "select", "row_id": key, "reason": reason, "detail": "met the bound"}
                )
            else:
                chosen[method] = key
        if "next_sentences" in chosen and "entity_swap" in chosen:
            found["triplets"].append(
                {"triplet_id": own, "sentence_id": own, "positive_id": chosen["next_sentences"]}
                | {"negative_id": chosen["entity_swap"], "positive_method": "next_sentences"}
            )
    found["rejects"].append({"stage": "parse", "row_id": 7, "reason": "empty"})
    found["documents"] = [{"doc_id": 1, "corpus": "c", "split": "train"}]
    found["anchor_shares"] = [
        {"corpus": "c", "role": "domain", "sentences": anchors, "anchors": anchors}
    ]
    found["acceptance"] = [
        _accepted("positive", "next_sentences", anchors, (anchors + 1) // 2, 0.2),
        _accepted("negative", "entity_swap", anchors, (anchors + 2) // 3, 0.97),
        _accepted("negative", "random", anchors, anchors, 0.97),
    ]
    return found


def trained(seeds: Sequence[int] = (42,)) -> Tables:
    """A log of one phase, a gate that opens, and a value on dev at each tenth step."""
    return {
        "training_log": [
            {"phase": "triplets", "step": step, "epoch": step / 20, "loss": 2.0 - step / 20}
            | {
                "terms": [
                    ("gate_opening", step / 20),
                    ("gradient_share", step / 40),
                    ("student_negative", 0.6),
                    ("teacher_negative", 0.7),
                ]
            }
            | {"seed": seed, "dev_metric": "spearman", "learning_rate": 1e-5}
            | {"dev_value": 80.0 + step if step % 10 == 0 else None, "chosen": step == 20}
            for seed in seeds
            for step in range(1, 21)
        ]
    }


def measured(gains: Mapping[int, float] | None = None, queries: int = 500) -> Tables:
    """Recall and Spearman of the untouched model (60 and 80) and of one trained a seed.

    queries: of how many recall is; Spearman is of 500 pairs.
    """
    rows: list[dict[str, Any]] = []
    rows += _measures("base-version", "base", 42, 60.0, 80.0)
    items = _items("base-version", 0.0)
    for seed, gain in (gains or {42: 5.0}).items():
        rows += _measures(f"encoder-{seed}", "encoder", seed, 60.0 + gain, 80.0 + gain)
        for suite, task, subset, metric in (
            ("retrieval", "document_pairs", "test", "recall@1_gain"),
            ("sts", "STS-B dev", "all", "spearman_gain"),
        ):
            rows.append(
                {"model_version": f"encoder-{seed}", "phase": "encoder", "suite": suite}
                | {"task": task, "subset": subset, "metric": metric, "value": gain}
                | {"ci_low": gain - 2, "ci_high": gain + 2, "n": 500, "seed": seed}
            )
        items += _items(f"encoder-{seed}", 0.05)
    for row in rows:
        row["n"] = queries if row["suite"] == "retrieval" else 500
    return {"evaluations": rows, "evaluation_items": items}


def contaminated() -> Tables:
    """Three texts of STS-B, two of them removed."""
    return {
        "contamination": [
            {"text_id": i, "text": f"Training text {i}.", "suite": "sts", "task": "STS-B"}
            | {"level": level, "score": score, "evaluation_text": EVIL, "removed": removed}
            for i, (level, score, removed) in enumerate(
                [("exact", 1.0, True), ("exact", 1.0, True), ("ngram", 0.6, False)]
            )
        ]
    }


def _measures(
    version: str, phase: str, seed: int, recall: float, spearman: float
) -> list[dict[str, Any]]:
    own = {"model_version": version, "phase": phase, "seed": seed, "text_form": "raw"}
    own |= {"data_digest": "abcdef0123", "n": 500}
    retrieval = {**own, "suite": "retrieval", "task": "document_pairs", "subset": "test"}
    sts = {**own, "suite": "sts", "task": "STS-B dev", "subset": "all"}
    interval = {"ci_low": recall - 3, "ci_high": recall + 3}
    shift = 0.0 if phase == "base" else -0.1
    return [
        {**retrieval, "metric": "recall@1", "value": recall, **interval},
        {**retrieval, "metric": "alignment", "value": 0.9 + shift},
        {**retrieval, "metric": "uniformity", "value": -3.0 + shift},
        {**sts, "metric": "spearman", "value": spearman},
        {**sts, "metric": "alignment", "value": 0.3 + shift},
        {**sts, "metric": "uniformity", "value": -2.5 + shift},
    ]


def _items(version: str, shift: float) -> list[dict[str, Any]]:
    """Six pairs of each score, cosines around a fifth of it; one odd pair."""
    rows = []
    for score in range(6):
        for place in range(6):
            value = score / 5 * 0.8 + 0.1 + (place - 2.5) * 0.01 + shift
            rows.append({"gold": float(score), "value": value})
    rows.append({"gold": 5.0, "value": 0.1})
    own = {"model_version": version, "suite": "sts", "task": "STS-B dev", "subset": "all"}
    own["metric"] = "spearman"
    return [{**own, "item": item, **row} for item, row in enumerate(rows)]


def _accepted(
    role: str, method: str, candidates: int, accepted: int, threshold: float
) -> dict[str, Any]:
    own = {"role": role, "method": method, "candidates": candidates, "accepted": accepted}
    quantiles = {f"similarity_{name}": 0.5 for name in ("p10", "median", "p90")}
    return {**own, "used": min(accepted, 5), "threshold": threshold, **quantiles}


def _vector(draw: np.random.Generator) -> list[float]:
    vector = draw.normal(size=8)
    return [float(value) for value in vector / np.linalg.norm(vector)]


@dataclass(frozen=True)
class Written:
    """A store and the ids of its runs: a whole one, one of three seeds, one that failed early."""

    store: Path
    whole: str
    seeds: str
    failed: str


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    store = tmp_path_factory.mktemp("report") / "store"
    all_stages = ("ingest", "guard.sentences", "embed", "train", "evaluate.encoder")
    whole = write_run(
        store,
        {**made(), **trained(), **measured(), **contaminated()},
        recipe={"select": {"negative_max": 0.97}, "train": {"phases": [{"tau": 0.05}]}},
        stages=all_stages,
    )
    seeds = write_run(
        store,
        {**made(24), **trained((42, 43, 44)), **measured({42: 4.0, 43: 5.0, 44: 6.0})},
        name="sown",
        version="fedcba9876543210",
        recipe={"select": {"negative_max": 0.9}, "train": {"phases": [{"tau": 0.05}]}},
        stages=all_stages,
    )
    failed = write_run(
        store,
        {},
        name="broken",
        state="failed",
        version="00000000deadbeef",
        stages=("ingest",),
        end={"error": "The disk said <b>no</b>."},
    )
    return Written(store, whole, seeds, failed)
