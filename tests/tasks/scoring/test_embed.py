"""Stage `embed`: every distinct text once."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails

from tercet.models import seeding
from tercet.models.encoders.encoder import encode, load_encoder
from tercet.storage.rows import Rows, rows_of
from tercet.tasks.scoring import embed
from tercet.tasks.stage import Loaded, Resources, Stage, Work

Tables = dict[str, list[pa.Table]]


def call(
    stage: Stage, inputs: Mapping[str, Rows], scratch: Path, spec: dict[str, Any], **more: Any
) -> Tables:
    tables: Tables = {}
    work = Work(
        config=stage.config(),
        seed=0,
        inputs=inputs,
        models=more.get("models", {}),
        spec=spec,
        resources=Resources(part_rows=more.get("part_rows", 50)),
        scratch=scratch,
        emit=lambda name, table: tables.setdefault(name, []).append(table),
        loaded=more.get("loaded", Loaded()),
    )
    if more.get("plan"):
        assert stage.plan is not None
        return {"specs": stage.plan(work)}
    stage.run(work)
    return tables


@pytest.fixture
def inputs(tmp_path: Path, tiny_texts: list[str]) -> dict[str, Rows]:
    """60 anchors, of which 40 have a candidate; candidates repeat and one equals an anchor."""
    anchors, others = tiny_texts[:60], tiny_texts[60:120]
    sentences = pa.table(
        {"sentence_id": pa.array(seeding.text_ids(anchors), pa.uint64()), "text": anchors}
    )
    texts = [*others[:40], *others[:40][::-1]]
    texts[0] = anchors[5]
    owners = [*anchors[:40], *anchors[:40]]
    candidates = pa.table(
        {
            "candidate_id": pa.array(range(80), pa.uint64()),
            "sentence_id": pa.array(seeding.text_ids(owners), pa.uint64()),
            "anchor": pa.nulls(80, pa.string()),
            "text": texts,
        }
    )
    pq.write_table(sentences, tmp_path / "sentences.parquet")
    pq.write_table(candidates, tmp_path / "candidates.parquet")
    return {
        "sentences": rows_of({"sentences": [tmp_path / "sentences.parquet"]}),
        "candidates": rows_of({"candidates": [tmp_path / "candidates.parquet"]}),
    }


def wanted(inputs: dict[str, Rows]) -> set[str]:
    """Distinct texts of candidates and of sentences that have one."""
    candidates = inputs["candidates"].table("candidates")
    owners = set(candidates["sentence_id"].to_pylist())
    anchors = inputs["sentences"].table("sentences").to_pylist()
    return set(candidates["text"].to_pylist()) | {
        row["text"] for row in anchors if row["sentence_id"] in owners
    }


def test_every_distinct_text_is_in_one_chunk_with_texts_of_like_length(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path
) -> None:
    specs = call(embed.STAGE, inputs, tmp_path, {}, plan=True, part_rows=30)["specs"]
    texts = wanted(inputs)
    assert [spec["texts"] for spec in specs] == [27, 27, 26]
    assert sum(spec["texts"] for spec in specs) == len(texts)
    ids: list[int] = []
    for earlier, later in itertools.pairwise(specs):
        assert earlier["last"][0] <= later["first"][0]
    for spec in specs:
        tables = call(embed.STAGE, inputs, tmp_path, spec, models={"evaluator": tiny_backbone})
        (part,) = tables["embeddings"]
        assert part.schema == embed.EMBEDDINGS
        ids.extend(part["text_id"].to_pylist())
    assert sorted(ids) == sorted(seeding.text_ids(sorted(texts)).tolist())


def test_vectors_are_the_encoders(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path
) -> None:
    (spec,) = call(embed.STAGE, inputs, tmp_path, {}, plan=True, part_rows=500)["specs"]
    tables = call(embed.STAGE, inputs, tmp_path, spec, models={"evaluator": tiny_backbone})
    texts = sorted(wanted(inputs))
    expected = dict(
        zip(
            seeding.text_ids(texts).tolist(),
            encode(load_encoder(tiny_backbone), texts),
            strict=True,
        )
    )
    for row in tables["embeddings"][0].to_pylist():
        np.testing.assert_allclose(row["vector"], expected[row["text_id"]], atol=1e-5)


def test_known_embeddings_are_handed_on_and_not_made_again(
    inputs: dict[str, Rows], tmp_path: Path
) -> None:
    texts = sorted(wanted(inputs))
    known = [*texts[:70], "a text that is not needed here"]
    vectors = np.arange(71 * 2, dtype=np.float32).reshape(71, 2)
    ids = pa.array(seeding.text_ids(known), pa.uint64())
    pq.write_table(embed.embeddings_table(ids, vectors), tmp_path / "known.parquet")
    inputs = {**inputs, "known": rows_of({"embeddings": [tmp_path / "known.parquet"]})}
    specs = call(embed.STAGE, inputs, tmp_path, {}, plan=True, part_rows=500)["specs"]
    assert specs[0] == {"known": True}
    assert [spec["texts"] for spec in specs[1:]] == [len(texts) - 70]
    emitted = pa.concat_tables(call(embed.STAGE, inputs, tmp_path, specs[0])["embeddings"])
    rows = {row["text_id"]: row["vector"] for row in emitted.to_pylist()}
    assert rows == dict(
        zip(seeding.text_ids(texts[:70]).tolist(), vectors[:70].tolist(), strict=True)
    )


def test_no_candidates_make_one_empty_part(inputs: dict[str, Rows], tmp_path: Path) -> None:
    empty = inputs["candidates"].table("candidates").slice(0, 0)
    pq.write_table(empty, tmp_path / "empty.parquet")
    inputs = {**inputs, "candidates": rows_of({"candidates": [tmp_path / "empty.parquet"]})}
    specs = call(embed.STAGE, inputs, tmp_path, {}, plan=True)["specs"]
    (spec,) = specs
    assert call(embed.STAGE, inputs, tmp_path, spec)["embeddings"][0].num_rows == 0


def test_a_missing_evaluator_is_one_sentence(inputs: dict[str, Rows], tmp_path: Path) -> None:
    (spec,) = call(embed.STAGE, inputs, tmp_path, {}, plan=True, part_rows=500)["specs"]
    empty = tmp_path / "nothing"
    empty.mkdir()
    with fails("unfit_model", "nothing"):
        call(embed.STAGE, inputs, tmp_path, spec, models={"evaluator": empty})


def test_the_chunks_of_a_step_share_one_model(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []

    def load(*args: Any, **options: Any) -> Any:
        loaded.append(args)
        return load_encoder(*args, **options)

    monkeypatch.setattr("tercet.models.encoders.encoder.load_encoder", load)
    models = {"evaluator": tiny_backbone}
    specs = call(embed.STAGE, inputs, tmp_path, {}, plan=True, part_rows=30)["specs"]
    assert len(specs) > 1
    for step in (Loaded(), Loaded()):
        for spec in specs:
            call(embed.STAGE, inputs, tmp_path, spec, models=models, loaded=step)
    assert len(loaded) == 2
