"""Stage `embed`: every distinct text of the candidates and their anchors, encoded once.

Texts are ordered by (length, id) and cut into chunks of similar length. A chunk's texts follow from
the bounds in its spec and the input alone.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pydantic import Field

from tercet.models.encoders.settings import FormSettings
from tercet.models.machine import Precision
from tercet.storage.rows import Rows
from tercet.tasks.encoders import load_encoder
from tercet.tasks.stage import Planned, Stage, Work, connection

EMBEDDINGS = pa.schema([("text_id", pa.uint64()), ("vector", pa.list_(pa.float32()))])
"""Table `embeddings`.

Key: `text_id`.

Columns:
    text_id: `md5_number_lower(text)`: → `sentences.sentence_id` of an anchor, or
        `md5_number_lower(candidates.text)`
    vector: the evaluator's vector, of length 1
"""

# A part on a CPU takes seconds to a minute; faster devices get larger parts.
CPU_CHUNK = 2_000


class EmbedConfig(FormSettings):
    """How texts become vectors."""

    max_length: int = Field(default=128, ge=4, le=8192, description="Longest input, in tokens.")
    precision: Precision = Field(
        default="fp32", description="bf16 is faster and moves cosines by up to 4e-3."
    )
    trust_remote_code: bool = Field(
        default=False, description="Run Python code that comes with the model's files."
    )


def _texts_sql(inputs: Any, shortest: int = 0, longest: int | None = None) -> str:
    """Query of the distinct texts (text_id, text, length) still to be encoded.

    shortest, longest: bounds of their lengths, so that a chunk groups only its own texts.
    """
    bounds = f"length(text) >= {shortest}"
    if longest is not None:
        bounds += f" AND length(text) <= {longest}"
    candidates, sentences = inputs["candidates"], inputs["sentences"]
    anchors = f"SELECT DISTINCT sentence_id FROM {candidates.sql('candidates')}"
    query = f"""
        SELECT text_id, any_value(text) AS text, any_value(length(text)) AS length FROM (
            SELECT md5_number_lower(text) AS text_id, text FROM {candidates.sql("candidates")}
            WHERE {bounds}
            UNION ALL
            SELECT md5_number_lower(text) AS text_id, text FROM
                (SELECT anchor AS text FROM {candidates.sql("candidates")}
                WHERE anchor IS NOT NULL)
            WHERE {bounds}
            UNION ALL
            SELECT sentence_id, text FROM {sentences.sql("sentences")}
            WHERE {bounds} AND sentence_id IN ({anchors})
        ) GROUP BY text_id"""
    if "known" in inputs:
        stored = inputs["known"].sql("embeddings")
        query = f"SELECT * FROM ({query}) WHERE text_id NOT IN (SELECT text_id FROM {stored})"
    return query


def plan(work: Work) -> list[dict[str, Any]]:
    """Chunks of the texts in order of (length, text_id), each named by its first and last text.

    With a slot `known` (embeddings that the same evaluator made in earlier runs), the first spec is
    {"known": true}: the known rows that are needed here, copied unchanged.
    """
    on_cpu = work.resources.device == "cpu"
    size = min(work.resources.part_rows, CPU_CHUNK) if on_cpu else work.resources.part_rows
    with connection(work) as db:
        db.execute(f"CREATE TEMP VIEW texts AS {_texts_sql(work.inputs)}")
        bounds = db.sql(
            f"""SELECT min((length, text_id)), max((length, text_id)), count(*) FROM (
                    SELECT length, text_id, ntile(greatest(1,
                        (SELECT (count(*) + {size} - 1) // {size} FROM texts)
                    )) OVER (ORDER BY length, text_id) AS chunk
                    FROM texts)
                GROUP BY chunk ORDER BY chunk"""
        ).fetchall()
    specs: list[dict[str, Any]] = [
        {"chunk": chunk, "of": len(bounds), "first": list(first), "last": list(last), "texts": n}
        for chunk, (first, last, n) in enumerate(bounds)
    ]
    if "known" in work.inputs or not specs:
        specs.insert(0, {"known": True})
    return specs


def run(work: Work) -> None:
    """Emits the embeddings of one chunk of texts."""
    if "first" not in work.spec:
        _emit_known(work)
        return
    (low, low_id), (high, high_id) = work.spec["first"], work.spec["last"]
    with connection(work) as db:
        rows = db.sql(
            f"""SELECT text_id, text FROM ({_texts_sql(work.inputs, low, high)})
                WHERE (length > {low} OR length = {low} AND text_id >= {low_id}::UBIGINT)
                    AND (length < {high} OR length = {high} AND text_id <= {high_id}::UBIGINT)
                ORDER BY text_id"""
        ).to_arrow_table()
    from tercet.models.encoders import encoder

    config: EmbedConfig = work.config
    texts: Sequence[str] = rows["text"].to_pylist()
    vectors = encoder.encode(
        work.once(load_encoder, "evaluator"),
        texts,
        work.resources.batch_size,
        config.precision,
        lambda done: work.resources.progress(done, len(texts), "texts"),
    )
    work.emit("embeddings", embeddings_table(rows["text_id"], vectors))


def _emit_known(work: Work) -> None:
    if "known" not in work.inputs:
        work.emit("embeddings", EMBEDDINGS.empty_table())
        return
    texts = _texts_sql({key: rows for key, rows in work.inputs.items() if key != "known"})
    stored: Rows = work.inputs["known"]
    with connection(work) as db:
        reader = db.sql(
            f"""SELECT text_id, any_value(vector) AS vector FROM {stored.sql("embeddings")}
                WHERE text_id IN (SELECT text_id FROM ({texts})) GROUP BY text_id"""
        ).to_arrow_reader(work.resources.part_rows)
        for batch in reader:
            work.emit("embeddings", pa.Table.from_batches([batch]))


def embeddings_table(text_ids: pa.ChunkedArray | pa.Array, vectors: Any) -> pa.Table:
    """Rows of `embeddings` from ids (n,) and vectors (n, dimension) in float32."""
    import numpy as np

    n, width = vectors.shape
    offsets = pa.array(np.arange(n + 1, dtype=np.int32) * np.int32(width))
    lists = pa.ListArray.from_arrays(offsets, pa.array(vectors.reshape(-1)))
    return pa.table({"text_id": text_ids, "vector": lists}, schema=EMBEDDINGS)


STAGE = Stage(
    name="embed",
    config=EmbedConfig,
    tables={"embeddings": EMBEDDINGS},
    run=run,
    cut=Planned(plan, recalls=True),
    seeded=False,
    libraries=("torch", "transformers", "sentence-transformers"),
)
