"""The guard's weakest level: training texts whose vectors are close to an evaluation sentence's."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models import seeding
from tercet.models.seeding import Ids
from tercet.models.text import overlap
from tercet.models.text.overlap import Matches
from tercet.tasks.encoders import load_encoder
from tercet.tasks.guarding.sentences import Sentences
from tercet.tasks.stage import Work

# Vectors of the evaluation sentences are kept in scratch in pieces of so many.
_PIECE = 4_096
# How many sentences show what cosine an encoder gives to unrelated texts, and how far from there to
# 1 a cosine must lie to mean anything.
_SAMPLE = 512
_TELLING = 0.8


def by_stored(texts: pa.Array, ids: Ids, stored: Matches) -> Matches:
    """The matches of these texts by their stored vectors. ids: of the stored texts, ascending."""
    own = seeding.text_ids(texts.to_pylist())
    low, high = np.searchsorted(ids, own, side="left"), np.searchsorted(ids, own, side="right")
    sizes = high - low
    inside = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = np.repeat(low, sizes) + inside
    rows = np.repeat(np.arange(len(own)), sizes)
    return Matches(rows, stored.sentences[chosen], stored.scores[chosen])


def stored_matches(work: Work, sentences: Sentences) -> tuple[Ids, Matches]:
    """Stored texts whose cosine with some sentence is high: their ids, ascending, and the pairs."""
    long = np.flatnonzero(sentences.index.long)
    vectors = _sentence_vectors(work, sentences.texts.take(pa.array(long)).to_pylist())
    least = _telling(vectors, work.config.embedding_min)
    total, done = work.inputs["embeddings"].count("embeddings"), 0
    ids, numbers, scores = [np.empty(0, np.uint64)], [np.empty(0, np.int64)], [np.empty(0)]
    for batch in work.inputs["embeddings"].batches("embeddings", rows=overlap.BLOCK):
        flat = pc.list_flatten(batch["vector"]).to_numpy(zero_copy_only=False)
        found = overlap.near_vectors(flat.reshape(batch.num_rows, -1), vectors, least)
        ids.append(batch["text_id"].to_numpy()[found.rows])
        numbers.append(long[found.sentences])
        scores.append(found.scores)
        done += batch.num_rows
        work.resources.progress(done, total, "vectors")
    found_ids = np.concatenate(ids)
    order = np.argsort(found_ids, kind="stable")
    matches = Matches(
        np.arange(len(order)), np.concatenate(numbers)[order], np.concatenate(scores)[order]
    )
    return found_ids[order], matches


def _sentence_vectors(work: Work, texts: list[str]) -> overlap.Vectors:
    """The sentences' vectors; each piece is saved once it is computed."""
    pieces = []
    for first in range(0, len(texts), _PIECE):
        path = work.scratch / f"sentences-{first:08d}.npy"
        if not path.is_file():
            vectors = _encode(work, texts[first : first + _PIECE])
            with path.with_suffix(".part").open("wb") as file:
                np.save(file, vectors)
            path.with_suffix(".part").replace(path)
        pieces.append(np.load(path))
        work.resources.progress(min(first + _PIECE, len(texts)), len(texts), "sentences")
    return np.concatenate(pieces) if pieces else np.empty((0, 1), np.float32)


def _telling(vectors: overlap.Vectors, least: float) -> float:
    """The cosine from which two texts count as the same: `least`, or more if all are similar.

    An encoder never trained on sentences gives any two a cosine of 0.9, which then means nothing.
    """
    chosen = np.unique(np.linspace(0, len(vectors) - 1, _SAMPLE).astype(np.int64))
    if len(vectors) < 2:
        return least
    cosines = vectors[chosen] @ vectors[chosen].T
    usual = float(np.median(cosines[np.triu_indices(len(chosen), 1)]))
    return max(least, usual + _TELLING * (1 - usual))


def by_shortlist(work: Work, sentences: Sentences, texts: pa.Array, weak: Matches) -> Matches:
    """Pairs of the shortlist whose cosine is high."""
    if not len(weak):
        return weak
    rows, row = np.unique(weak.rows, return_inverse=True)
    numbers, number = np.unique(weak.sentences, return_inverse=True)
    first = _encode(work, texts.take(pa.array(rows)).to_pylist())
    second = _encode(work, sentences.texts.take(pa.array(numbers)).to_pylist())
    scores = np.einsum("ij,ij->i", first[row], second[number]).astype(np.float64)
    # Usual are some sentences of the whole suite: the same in every part.
    long = np.flatnonzero(sentences.index.long)
    chosen = long[np.unique(np.linspace(0, len(long) - 1, _SAMPLE).astype(np.int64))]
    usual = _sentence_vectors(work, sentences.texts.take(pa.array(chosen)).to_pylist())
    least = _telling(usual, work.config.embedding_min)
    return Matches(weak.rows, weak.sentences, scores).filter(scores >= least)


def _encode(work: Work, texts: list[str]) -> overlap.Vectors:
    from tercet.models.encoders.encoder import encode

    encoder = work.once(load_encoder, "encoder")
    return encode(encoder, texts, work.resources.batch_size, work.config.precision)
