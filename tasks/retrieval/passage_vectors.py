"""Stage `passage_vectors`: the vector of every passage, by one encoder, on the documents' side."""

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models.encoders.settings import Prompts
from tercet.models.text.passages import passage_text
from tercet.storage.rows import Rows
from tercet.tasks.config import Wired, WiredForm
from tercet.tasks.encoders import load_encoder, load_mix
from tercet.tasks.rejects import rejects
from tercet.tasks.stage import EachPart, Stage, Work

PASSAGE_VECTORS = pa.schema([("passage_id", pa.uint64()), ("vector", pa.list_(pa.float32()))])
"""Table `passage_vectors`. The passages as one encoder has them: the evaluator's
(`passage_vectors.evaluator`), those of the backbone (`passage_vectors.base`) or of the trained
encoder (`passage_vectors.encoder`). Where the step `choose` reads questions to them: those of each
candidate (`passage_vectors.mix25` to `.mix100`), and in `choose` those of the one that it shipped.

Key: `passage_id`.

Columns:
    passage_id: → `passages.passage_id`
    vector: of its context and text, with the encoder's prompt for documents; of length 1
"""

Vectors: TypeAlias = npt.NDArray[np.float32]

# Passages encoded in one go, and vectors read at once.
_BLOCK = 4_096


class PassageVectorsConfig(WiredForm):
    """How an encoder makes vectors of passages.

    max_length: in tokens; null: the model's own. cnn_seed: draws the weights of a token_cnn, if the
    encoder has none yet. mix: weight of the encoder in a mix with the untouched one; null: the
    encoder alone.
    """

    max_length: Wired[int | None] = None
    prompts: Wired[Prompts] = Prompts()
    cnn_seed: Wired[int | None] = None
    mix: Wired[float | None] = None


def run(work: Work) -> None:
    """Emits the vectors of one part of the passages; a vector that is not finite is a reject."""
    from tercet.models.encoders.encoder import encode

    config: PassageVectorsConfig = work.config
    if config.mix is None:
        model = work.once(load_encoder, "encoder", config.cnn_seed)
    else:
        model = work.once(load_mix, "encoder", config.mix)
    done, total = 0, work.inputs["passages"].count("passages")

    def tell(of_block: int) -> None:
        work.resources.progress(done + of_block, total, "passages")

    columns = ["passage_id", "context", "text"]
    for batch in work.inputs["passages"].batches("passages", columns, _BLOCK):
        contexts, bodies = batch["context"].to_pylist(), batch["text"].to_pylist()
        texts = [passage_text(*both) for both in zip(contexts, bodies, strict=True)]
        size = work.resources.batch_size
        vectors = encode(model, texts, size, config.precision, tell, side="document")
        finite = np.isfinite(vectors).all(axis=1)
        width = vectors.shape[1]
        lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors[finite].reshape(-1)), width)
        encoded, lost = batch.filter(pa.array(finite)), batch.filter(pa.array(~finite))
        columns_made = [encoded["passage_id"], lists.cast(pa.list_(pa.float32()))]
        work.emit("passage_vectors", pa.table(columns_made, schema=PASSAGE_VECTORS))
        if lost.num_rows:
            detail = "the encoder gives NaN or infinity: no search finds this passage"
            ids, lost_texts = lost["passage_id"], lost["text"]
            work.emit("rejects", rejects(work.stage, ids, "nan_vector", detail, lost_texts))
        done += batch.num_rows


def read_texts(rows: Rows) -> Iterator[str]:
    """The text of each row of `passages` as an encoder reads it, in order."""
    for batch in rows.batches("passages", ["context", "text"], _BLOCK):
        contexts, texts = (column.to_pylist() for column in batch.columns)
        yield from map(passage_text, contexts, texts)


def read_blocks(rows: Rows) -> Iterator[Vectors]:
    """The table's vectors in its order, in blocks of shape (any, dimension).

    rows: with a table `passage_vectors`, whose column `passage_id` has the ids in the same order.
    """
    for batch in rows.batches("passage_vectors", ["vector"], _BLOCK):
        flat = batch["vector"].flatten().to_numpy(zero_copy_only=False)
        yield flat.reshape(batch.num_rows, -1)


STAGE = Stage(
    name="passage_vectors",
    config=PassageVectorsConfig,
    tables={"passage_vectors": PASSAGE_VECTORS},
    run=run,
    cut=EachPart("passages"),
    seeded=False,
    libraries=("torch", "transformers", "sentence-transformers"),
)
