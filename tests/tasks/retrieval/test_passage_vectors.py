"""Stage `passage_vectors`: the vectors are the encoder's, of context and text, in any parts."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stages import emitted

from tercet.models.encoders import encoder
from tercet.models.encoders.settings import Prompts
from tercet.models.text.passages import passage_text
from tercet.storage.rows import rows_of
from tercet.tasks.corpus.passages import PASSAGES
from tercet.tasks.retrieval import passage_vectors
from tercet.tasks.retrieval.passage_vectors import PassageVectorsConfig, read_blocks


def vectors_of(
    texts: list[str], contexts: list[str], folder: Path, model: Path, **config: Any
) -> dict[str, pa.Table]:
    columns: dict[str, Any] = {one.name: pa.nulls(len(texts), one.type) for one in PASSAGES}
    ids = pa.array(range(100, 100 + len(texts)), pa.uint64())
    columns |= {"passage_id": ids, "text": texts, "context": contexts}
    inputs = {"passages": pa.table(columns, schema=PASSAGES)}
    settings = PassageVectorsConfig(**config)
    return emitted(passage_vectors.STAGE, settings, inputs, folder, {"encoder": model})


def test_vectors_are_those_of_documents_with_their_context(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_vectors, "_BLOCK", 16)
    texts, contexts = tiny_texts[:40], ["", "new value"] * 20
    prompts = Prompts(query="red", document="blue list")
    made = vectors_of(texts, contexts, tmp_path, tiny_backbone, prompts=prompts)
    rows = made["passage_vectors"]
    assert rows["passage_id"].to_pylist() == list(range(100, 140))
    model = encoder.load_encoder(tiny_backbone, prompts=prompts)
    whole = [passage_text(*both) for both in zip(contexts, texts, strict=True)]
    wanted = encoder.encode(model, whole, side="document")
    plain = encoder.encode(model, whole)
    assert np.abs(wanted - plain).max() > 0.01
    np.testing.assert_allclose(np.array(rows["vector"].to_pylist()), wanted, atol=1e-5)


def test_stored_vectors_are_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_vectors, "_BLOCK", 4)
    vectors = np.random.default_rng(1).normal(size=(10, 3)).astype(np.float32)
    for number, some in enumerate((vectors[:6], vectors[6:])):
        ids = pa.array(range(len(some)), pa.uint64())
        table = pa.table([ids, some.tolist()], schema=passage_vectors.PASSAGE_VECTORS)
        pq.write_table(table, tmp_path / f"{number}.parquet")
    rows = rows_of({"passage_vectors": [tmp_path / "0.parquet", tmp_path / "1.parquet"]})
    blocks = list(read_blocks(rows))
    assert [len(block) for block in blocks] == [4, 2, 4]
    np.testing.assert_array_equal(np.concatenate(blocks), vectors)


def test_a_vector_that_is_no_number_is_a_reject(
    tiny_backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(model: Any, texts: list[str], *args: Any, **options: Any) -> Any:
        vectors = np.eye(len(texts), 4, dtype=np.float32)
        vectors[1] = np.nan
        return vectors

    monkeypatch.setattr(encoder, "encode", encode)
    made = vectors_of(["a", "b", "c"], [""] * 3, tmp_path, tiny_backbone)
    assert made["passage_vectors"].to_pylist() == [
        {"passage_id": 100, "vector": [1, 0, 0, 0]},
        {"passage_id": 102, "vector": [0, 0, 1, 0]},
    ]
    (lost,) = made["rejects"].to_pylist()
    del lost["detail"]
    assert [*lost.values()] == ["passage_vectors", 101, "nan_vector", "b"]


def test_no_passages_make_no_vectors(tiny_backbone: Path, tmp_path: Path) -> None:
    assert len(vectors_of([], [], tmp_path, tiny_backbone)["passage_vectors"]) == 0
