"""Hand-made sentences, mentions and graphs for the tests of generators."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.models import seeding
from tercet.models.generation import Method, MethodInput
from tercet.models.knowledge.extraction import extract
from tercet.models.knowledge.lexicon import load_lexicon
from tercet.tasks.knowledge.extract import mentions as mention_rows
from tercet.tasks.synthesis.methods import method_of


def sentences(
    documents: Sequence[Sequence[Sequence[str]]], split: str = "train", corpus: str = "c"
) -> pa.Table:
    """Sentences of documents, each a list of paragraphs, each a list of sentences."""
    rows: dict[str, list[Any]] = {
        name: [] for name in ("text", "doc_id", "paragraph", "position", "n_words")
    }
    for number, document in enumerate(documents):
        position = 0
        for paragraph, texts in enumerate(document):
            for text in texts:
                rows["text"].append(text)
                rows["doc_id"].append(1000 + number)
                rows["paragraph"].append(paragraph)
                rows["position"].append(position)
                rows["n_words"].append(len(text.split()))
                position += 1
    count = len(rows["text"])
    return pa.table(
        {
            "sentence_id": pa.array(seeding.text_ids(rows["text"]), pa.uint64()),
            "text": pa.array(rows["text"], pa.string()),
            "corpus": [corpus] * count,
            "source": ["s"] * count,
            "doc_id": pa.array(rows["doc_id"], pa.uint64()),
            "paragraph": pa.array(rows["paragraph"], pa.int32()),
            "position": pa.array(rows["position"], pa.int32()),
            "n_words": pa.array(rows["n_words"], pa.int32()),
            "split": [split] * count,
        }
    )


def alone(texts: Sequence[str]) -> pa.Table:
    """Each text a document of its own."""
    return sentences([[[text]] for text in texts])


def mentions_of(rows: pa.Table) -> pa.Table:
    """The mentions that `extract` finds with our own lexicon."""
    found = extract(rows["text"].to_pylist(), load_lexicon())
    return mention_rows(found, rows["sentence_id"].to_numpy())


def generated(
    method: str,
    rows: pa.Table,
    params: Mapping[str, Any] | None = None,
    seed: int = 7,
    **known: Any,
) -> list[dict[str, Any]]:
    """What a method generates for all rows; mentions are extracted if it needs them."""
    chosen: Method = method_of(method)
    if "mentions" in chosen.needs:
        known.setdefault("mentions", mentions_of(rows))
    given = MethodInput(rows, np.arange(len(rows)), **known)
    table = chosen.generate(given, chosen.params.model_validate(dict(params or {})), seed)
    texts = dict(zip(rows["sentence_id"].to_pylist(), rows["text"].to_pylist(), strict=True))
    return [row | {"source": texts[row["sentence_id"]]} for row in table.to_pylist()]


def raws(method: str, text: str, **params: Any) -> list[str]:
    """The texts that a method generates for one sentence."""
    return [row["raw"] for row in generated(method, alone([text]), params)]
