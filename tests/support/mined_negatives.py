"""The stage `negatives` on passages and rows given as data, with an encoder of random vectors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tercet.models import seeding
from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.text.passages import passage_text
from tercet.storage.rows import Rows, rows_of
from tercet.tasks.corpus.ingest import DOCUMENT_PAIRS, SENTENCES
from tercet.tasks.corpus.labelled import LABELLED
from tercet.tasks.corpus.passages import PASSAGES
from tercet.tasks.retrieval import negatives
from tercet.tasks.retrieval.negatives import NEGATIVES, NegativesConfig
from tercet.tasks.retrieval.passage_vectors import PASSAGE_VECTORS
from tercet.tasks.scoring.select import TRIPLETS
from tercet.tasks.stage import Resources, Work

WORDS = [f"w{number}" for number in range(400)]


def static_encoder(folder: Path) -> Path:
    """A saved encoder: the mean of a random vector for each word."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {word: place for place, word in enumerate(["[UNK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    weights = np.random.default_rng(5).normal(size=(len(vocabulary), 256)).astype(np.float32)
    module = StaticEmbedding(tokenizer, embedding_weights=weights)
    SentenceTransformer(modules=[module], device="cpu").save(str(folder))
    return folder


def passage(text: str, context: str = "", doc: int = 0, split: str = "train") -> dict[str, Any]:
    """A row of `passages`."""
    passage_id = seeding.text_id(passage_text(context, text))
    own = {"passage_id": passage_id, "doc_id": doc, "text": text, "context": context}
    return {**own, "corpus": "docs", "split": split}


def written(folder: Path, name: str, rows: list[dict[str, Any]], schema: pa.Schema) -> Rows:
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / f"{name}.parquet")
    return rows_of({name: [folder / f"{name}.parquet"]})


def mined(
    folder: Path,
    encoder: Path,
    passages: Sequence[dict[str, Any]],
    rows: list[dict[str, Any]],
    source: str = "labelled",
    held_out: Sequence[str] = (),
    **settings: Any,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of `negatives` from all parts in order of their row and rank, and the rejects.

    rows: of the table that the source names. held_out: sentences of the split test.
    """
    schemas = {"document_pairs": DOCUMENT_PAIRS, "labelled": LABELLED, "queries": TRIPLETS}
    table = "triplets" if source == "queries" else source
    config = NegativesConfig.model_validate({"source": source, **settings})
    sentences = [
        {"doc_id": number, "paragraph": 0, "position": 0, "text": text, "split": "test"}
        for number, text in enumerate(held_out)
    ]
    inputs = {
        "sentences": written(folder, "sentences", sentences, SENTENCES),
        "passages": written(folder, "passages", list(passages), PASSAGES),
        table: written(folder, table, rows, schemas[source]),
    }
    models = {}
    if config.by != "bm25":
        texts = [passage_text(row["context"], row["text"]) for row in passages]
        vectors = encode(load_encoder(encoder), texts, side="document")
        made = [
            {"passage_id": row["passage_id"], "vector": vector}
            for row, vector in zip(passages, vectors.tolist(), strict=True)
        ]
        inputs["passage_vectors"] = written(folder, "passage_vectors", made, PASSAGE_VECTORS)
        models = {"encoder": encoder}
    found: dict[str, list[pa.Table]] = {"negatives": [NEGATIVES.empty_table()], "rejects": []}
    emit = lambda name, table: found[name].append(table)  # noqa: E731
    work = Work(config, 7, inputs, models, {}, Resources(), folder, emit, "negatives")
    for spec in negatives.plan(work):
        negatives.run(Work(**{**vars(work), "spec": spec}))
    order = [("triplet_id", "ascending"), ("rank", "ascending")]
    made = pa.concat_tables(found["negatives"]).sort_by(order).to_pylist()
    return made, [row for table in found["rejects"] for row in table.to_pylist()]
