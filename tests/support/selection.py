"""The stage `select` over candidates that are written down by hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from stages import emitted

from tercet.models import seeding
from tercet.storage.rows import rows_of
from tercet.tasks.scoring import select
from tercet.tasks.scoring.select import SelectConfig
from tercet.tasks.synthesis.methods import METHOD_NAMES, method_of

# anchor, role, method, text, similarity (None: never scored), and perhaps P(true)
Row = tuple[str, str, str, str, float | None] | tuple[str, str, str, str, float | None, float]


class Result:
    def __init__(self, tables: dict[str, pa.Table]) -> None:
        self.triplets = tables["triplets"].to_pylist()
        self.rejects = tables["rejects"].to_pylist()
        self.acceptance = {row["method"]: row for row in tables["acceptance"].to_pylist()}

    def texts(self) -> list[tuple[str, str, str]]:
        return sorted((t["anchor"], t["positive"], t["negative"]) for t in self.triplets)

    def reasons(self) -> dict[str, str]:
        return {row["text"]: row["reason"] for row in self.rejects}


def _relation(role: str, method: str) -> str:
    """What the method does to the meaning; of names that are no methods, as their role suggests."""
    if method == "mined":
        return "other"
    if method in METHOD_NAMES:
        return method_of(method).relation
    return {"positive": "keeps", "negative": "alters"}[role]


def selected(
    tmp_path: Path,
    rows: list[Row],
    seed: int = 1,
    parts: int = 1,
    held_out: Sequence[str] = (),
    pairs: Sequence[tuple[str, str]] | None = None,
    pairing: str = "role",
    anchored: Mapping[str, str] = MappingProxyType({}),
    more_scores: Sequence[tuple[str, str, str, float]] = (),
    passages: Sequence[str] = (),
    **config: Any,
) -> Result:
    # A passage is a sentence too only where something else was made of it.
    queries = {row[0] for row in rows if row[0] in passages}
    queries -= {row[0] for row in rows if row[3] not in anchored}
    anchors = [one for one in dict.fromkeys(row[0] for row in rows) if one not in queries]
    owners = [row[0] for row in rows]
    sentence_ids = seeding.text_ids(owners)
    ids = seeding.text_ids(
        [str(i) for i in sentence_ids], *([row[k] for row in rows] for k in (2, 1, 3))
    )
    sentences = pa.table(
        {
            "sentence_id": pa.array(seeding.text_ids([*anchors, *held_out]), pa.uint64()),
            "text": [*anchors, *held_out],
            "split": ["train"] * len(anchors) + ["test"] * len(held_out),
            "doc_id": pa.array([1] * len(anchors) + [2] * len(held_out), pa.uint64()),
            "paragraph": pa.array([0] * (len(anchors) + len(held_out)), pa.int32()),
            "position": pa.array([*range(len(anchors)), *range(len(held_out))], pa.int32()),
        }
    )
    candidates = pa.table(
        {
            "candidate_id": pa.array(ids, pa.uint64()),
            "sentence_id": pa.array(sentence_ids, pa.uint64()),
            "role": [row[1] for row in rows],
            "relation": [_relation(row[1], row[2]) for row in rows],
            "method": [row[2] for row in rows],
            "anchor": pa.array([anchored.get(row[3]) for row in rows], pa.string()),
            "text": [row[3] for row in rows],
        }
    )
    values = [
        {"candidate_id": int(i), "scorer": "t", "measure": measure, "value": value}
        for i, row in zip(ids, rows, strict=True)
        for measure, value in (("similarity", row[4]), ("p_true", row[5] if len(row) > 5 else None))
        if value is not None
    ]
    by_text = dict(zip((row[3] for row in rows), ids.tolist(), strict=True))
    values += [
        {"candidate_id": by_text[text], "scorer": scorer, "measure": measure, "value": value}
        for text, scorer, measure, value in more_scores
    ]
    schema = pa.schema(
        [
            ("candidate_id", pa.uint64()),
            ("scorer", pa.string()),
            ("measure", pa.string()),
            ("value", pa.float64()),
        ]
    )
    pq.write_table(sentences, tmp_path / "s.parquet")
    pq.write_table(pa.Table.from_pylist(values, schema), tmp_path / "v.parquet")
    files, size = [], -(-len(rows) // parts)
    for part in range(parts):
        files.append(tmp_path / f"c{part}.parquet")
        pq.write_table(candidates.slice(part * size, size), files[-1])
    more = {}
    if pairs is not None:
        queries, answers = ([pair[k] for pair in pairs] for k in (0, 1))
        table = pa.table({"query": queries, "answer": answers, "split": ["dev"] * len(pairs)})
        pq.write_table(table, tmp_path / "p.parquet")
        more["document_pairs"] = rows_of({"document_pairs": [tmp_path / "p.parquet"]})
    if passages:
        known = pa.table({"passage_id": pa.array(seeding.text_ids(passages), pa.uint64())})
        pq.write_table(known, tmp_path / "passages.parquet")
        more["passages"] = rows_of({"passages": [tmp_path / "passages.parquet"]})
    inputs = {
        "sentences": rows_of({"sentences": [tmp_path / "s.parquet"]}),
        "scores": rows_of({"scores": [tmp_path / "v.parquet"]}),
        "candidates": rows_of({"candidates": files[:: -1 if parts > 1 else 1]}),
        **more,
    }
    settings = SelectConfig(pairing=pairing, **config)
    return Result(emitted(select.STAGE, settings, inputs, tmp_path, seed=seed))
