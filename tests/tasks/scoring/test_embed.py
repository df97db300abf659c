"""Stage `embed`: every distinct text once."""

import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from failures import fails
from stages import stored

from tercet.models import seeding
from tercet.models.encoders.encoder import encode, load_encoder
from tercet.storage.rows import Rows
from tercet.tasks.findings.answers import FINDINGS
from tercet.tasks.findings.finding import Look, look_for
from tercet.tasks.scoring import embed
from tercet.tasks.stage import Loaded, Planned, Resources, Work

Inputs = dict[str, Rows]
Specs = list[dict[str, Any]]


def work(
    inputs: Inputs, scratch: Path, spec: Any, model: Path | None, **more: Any
) -> tuple[Work, list[pa.Table]]:
    """A call of the stage, and where its rows come."""
    tables: list[pa.Table] = []
    models = {} if model is None else {"evaluator": model}
    resources = Resources(part_rows=more.pop("part_rows", 50))
    emit = lambda name, table: tables.append(table)  # noqa: E731
    config = embed.STAGE.config()
    return Work(config, 0, inputs, models, spec, resources, scratch, emit, **more), tables


def planned(inputs: Inputs, scratch: Path, part_rows: int) -> Specs:
    assert isinstance(embed.STAGE.cut, Planned)
    return embed.STAGE.cut.specs(work(inputs, scratch, {}, None, part_rows=part_rows)[0])


def embedded(
    inputs: Inputs, scratch: Path, spec: Any, model: Path | None = None, **more: Any
) -> dict[int, list[float]]:
    """The vectors by the ids of their texts."""
    given, tables = work(inputs, scratch, spec, model, **more)
    embed.STAGE.run(given)
    rows = pa.concat_tables(table.cast(embed.EMBEDDINGS) for table in tables).to_pylist()
    return {row["text_id"]: row["vector"] for row in rows}


@pytest.fixture
def inputs(tmp_path: Path, tiny_texts: list[str]) -> Inputs:
    """60 anchors, of which 40 have a candidate; candidates repeat and one equals an anchor."""
    anchors, others = tiny_texts[:60], tiny_texts[60:120]
    texts = [anchors[5], *others[1:40], *others[:40][::-1]]
    owners = pa.array(seeding.text_ids([*anchors[:40], *anchors[:40]]), pa.uint64())
    ids = pa.array(seeding.text_ids(anchors), pa.uint64())
    candidates = {"candidate_id": pa.array(range(80), pa.uint64()), "sentence_id": owners}
    candidates |= {"anchor": pa.nulls(80, pa.string()), "text": texts}
    return stored(
        tmp_path,
        sentences=pa.table({"sentence_id": ids, "text": anchors}),
        candidates=pa.table(candidates),
    )


@pytest.fixture
def texts(tiny_texts: list[str]) -> list[str]:
    """The distinct texts of candidates and of sentences that have one."""
    return sorted({*tiny_texts[:40], *tiny_texts[60:100]})


def ids_of(texts: list[str]) -> list[int]:
    return seeding.text_ids(texts).tolist()


def test_every_distinct_text_is_in_one_chunk_with_texts_of_like_length(
    inputs: Inputs, texts: list[str], tmp_path: Path, tiny_backbone: Path
) -> None:
    specs = planned(inputs, tmp_path, 30)
    assert [spec["texts"] for spec in specs] == [27, 27, 26]
    for earlier, later in itertools.pairwise(specs):
        assert earlier["last"][0] <= later["first"][0]
    parts = [embedded(inputs, tmp_path, spec, tiny_backbone) for spec in specs]
    found = {text: vector for part in parts for text, vector in part.items()}
    assert len(found) == sum(len(part) for part in parts) == len(texts)
    expected = encode(load_encoder(tiny_backbone), texts)
    np.testing.assert_allclose([found[i] for i in ids_of(texts)], expected, atol=1e-5)


def test_known_embeddings_are_handed_on_and_not_made_again(
    inputs: Inputs, texts: list[str], tmp_path: Path
) -> None:
    vectors = np.arange(71 * 2, dtype=np.float32).reshape(71, 2)
    ids = pa.array(ids_of([*texts[:70], "a text that is not needed here"]), pa.uint64())
    known = stored(tmp_path, embeddings=embed.embeddings_table(ids, vectors))["embeddings"]
    inputs = {**inputs, "known": known}
    first, *rest = planned(inputs, tmp_path, 500)
    assert first == {"known": True}
    assert [spec["texts"] for spec in rest] == [len(texts) - 70]
    rows = embedded(inputs, tmp_path, first)
    assert rows == dict(zip(ids_of(texts[:70]), vectors[:70].tolist(), strict=True))


def test_no_candidates_make_one_empty_part(inputs: Inputs, tmp_path: Path) -> None:
    empty = inputs["candidates"].table("candidates").slice(0, 0)
    inputs = {**inputs, **stored(tmp_path / "empty", candidates=empty)}
    (spec,) = planned(inputs, tmp_path, 50)
    assert embedded(inputs, tmp_path, spec) == {}


def test_the_chunks_of_a_step_share_one_model(
    inputs: Inputs, tmp_path: Path, tiny_backbone: Path
) -> None:
    model = shutil.copytree(tiny_backbone, tmp_path / "evaluator")
    first, second, _ = planned(inputs, tmp_path, 30)
    loaded = Loaded()
    embedded(inputs, tmp_path, first, model, loaded=loaded)
    for path in model.iterdir():
        path.unlink()
    assert embedded(inputs, tmp_path, second, model, loaded=loaded)
    with fails("unfit_model", "evaluator"):
        embedded(inputs, tmp_path, second, model)


def test_candidates_that_are_longer_than_max_length_are_told(tmp_path: Path) -> None:
    texts = [" ".join(["word"] * 33)] * 10 + ["short"] * 90
    rows = stored(tmp_path, candidates=pa.table({"text": texts}))
    for longest, warnings in ((32, [("cut", 10, 100)]), (33, [])):
        config = embed.EmbedConfig(max_length=longest)
        given = replace(work(rows, tmp_path, {}, None)[0], config=config)
        found = look_for(FINDINGS["embed"], Look(given, rows["candidates"], []))
        assert [(one.kind, one.count, one.total) for one in found] == warnings
