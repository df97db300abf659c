"""Stage `count_tokens`: counts each token of a vocabulary in the training sentences."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from tercet.tasks.config import Wired
from tercet.tasks.stage import BadInput, Config, Stage, Work, connection
from tercet.tasks.tokenizer import load_tokenizer

TOKEN_FREQUENCIES = pa.schema(
    [
        ("model", pa.string()),
        ("token_id", pa.int32()),
        ("token", pa.string()),
        ("count", pa.int64()),
        ("frequency", pa.float64()),
    ]
)
"""Table `token_frequencies`. One row per token that occurs in the training sentences, counted by
`count_tokens` without special tokens and without regard to `max_length`.

Key: `model`, `token_id`.

Columns:
    model: the name of the counts under `models`
    token_id: its number in the tokenizer's vocabulary
    token: the token as the tokenizer writes it
    count: number of occurrences
    frequency: its share of all tokens, 0 to 1
"""

# Texts that are tokenised at once.
_BATCH = 2_000
_TOKENS = pa.schema([("token_id", pa.int32())])


class CountTokensConfig(Config):
    """The model whose tokenizer counts, and the corpora that are counted."""

    name: Wired[str] = ""
    tokenizer: str = Field(
        min_length=1, description="The model whose tokenizer counts: the encoder's backbone."
    )
    corpora: tuple[str, ...] = Field(
        default=(), description="By name; empty: all that give sentences."
    )

    def models(self) -> dict[str, str]:
        """The models that are read, by slot."""
        return {"tokenizer": self.tokenizer}


def run(work: Work) -> Path:
    """Emits `token_frequencies`; returns the directory that losses read.

    A token's frequency is its share of all tokens (SARCSE, eq. 8). Raises BadInput without a
    sentence or a tokenizer.
    """
    from tercet.models.losses.token_frequencies import vocabulary_size, write_frequencies

    config: CountTokensConfig = work.config
    tokenizer = load_tokenizer(work.models["tokenizer"], f"count_tokens.{config.name}")
    with connection(work) as db:
        db.register("tokens", pa.RecordBatchReader.from_batches(_TOKENS, _tokens(work, tokenizer)))
        occurring = db.sql(
            "SELECT token_id, count(*) AS count FROM tokens GROUP BY ALL ORDER BY ALL"
        ).to_arrow_table()
    if not occurring.num_rows:
        raise BadInput(
            "no_rows",
            f"count_tokens.{config.name}: the train split of {', '.join(config.corpora)} has no "
            "text to count: check the corpora that the recipe names, and what ingest rejected.",
        )
    ids, counts = occurring["token_id"], occurring["count"].to_numpy()
    shares = counts / counts.sum()
    names = pa.array(tokenizer.convert_ids_to_tokens(ids.to_pylist()), pa.string())
    columns = [pa.repeat(config.name, len(counts)), ids, names, occurring["count"]]
    work.emit("token_frequencies", pa.table([*columns, pa.array(shares)], schema=TOKEN_FREQUENCIES))
    frequencies = np.zeros(vocabulary_size(tokenizer))
    frequencies[ids.to_numpy()] = shares
    return write_frequencies(work.scratch / "frequencies", frequencies, tokenizer)


def _tokens(work: Work, tokenizer: Any) -> Iterator[pa.RecordBatch]:
    """The tokens of the train split, in batches."""
    config: CountTokensConfig = work.config
    corpora, done = pa.array(config.corpora, pa.string()), 0
    columns = ["corpus", "split", "text"]
    for batch in work.inputs["sentences"].batches("sentences", columns, _BATCH):
        counted = pc.and_(pc.is_in(batch["corpus"], corpora), pc.equal(batch["split"], "train"))
        texts = batch["text"].filter(counted).to_pylist()
        if texts:
            ids = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
            flat = pa.array(ids, pa.list_(pa.int32())).flatten()
            yield pa.record_batch([flat], schema=_TOKENS)
        done += batch.num_rows
        work.resources.progress(done, None, "sentences")


STAGE = Stage(
    name="count_tokens",
    config=CountTokensConfig,
    tables={"token_frequencies": TOKEN_FREQUENCIES},
    run=run,
    model=True,
    seeded=False,
    libraries=("transformers", "tokenizers"),
    locations=("tokenizer",),
)
