"""The choice of a checkpoint, on dev only: no key and no function here can name the test split."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models.measures import metrics
from tercet.tasks.evaluation.document_pairs import pairs_of_split
from tercet.tasks.evaluation.suites import sts
from tercet.tasks.stage import BadInput, Work

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from tercet.models.encoders.encoder import Precision, Vectors
    from tercet.models.training.choosing import Choice
    from tercet.tasks.training.train import ChooseConfig

    Measure = Callable[[SentenceTransformer], float | None]


def dev_files(config: "ChooseConfig", suite: Path | None) -> dict[str, Path]:
    """The file of the dev set that `by` names, if any. Raises BadInput if it is missing."""
    if config.by == "retrieval":
        return {}
    if suite is None:
        raise BadInput(
            f"train.choose.by is {config.by}, but evaluate.suite names no directory that has its "
            "dev set: name one, or choose by retrieval."
        )
    return sts.suite_files(suite.expanduser(), (config.by,), ("dev",))


def choice_of(
    work: Work, config: "ChooseConfig", suite: Path | None, max_pairs: int, precision: "Precision"
) -> "Choice":
    """The choice as training makes it. Raises BadInput if there is nothing to measure on.

    max_pairs: as many document pairs as the evaluation draws.
    """
    from tercet.models.training.choosing import Choice

    encode = _encoder(work, precision)
    if config.by == "retrieval":
        measure = _by_retrieval(_dev_pairs(work, max_pairs), encode)
        return Choice(config.every, "retrieval document_pairs dev mrr", measure)
    dev_files(config, suite)
    assert suite is not None
    metric = f"sts {config.by} dev all spearman"
    return Choice(config.every, metric, _by_scores(suite, config.by, encode))


def _by_retrieval(pairs: pa.Table, encode: "Callable[..., Vectors]") -> "Measure":
    """MRR of the pairs' answers among each other, in percent."""
    queries: list[str] = pairs["query"].to_pylist()
    places = {text: place for place, text in enumerate(dict.fromkeys(pairs["answer"].to_pylist()))}
    own: npt.NDArray[np.int64] = np.array([places[text] for text in pairs["answer"].to_pylist()])
    texts = [*queries, *places]

    def measure(model: "SentenceTransformer") -> float | None:
        vectors = encode(model, texts)
        if not np.isfinite(vectors).all():
            return None
        ranks = metrics.answer_ranks(vectors[: len(queries)], vectors[len(queries) :], own)
        return 100.0 * float(metrics.reciprocal_ranks(ranks).mean())

    return measure


def _by_scores(suite: Path, name: str, encode: "Callable[..., Vectors]") -> "Measure":
    """Spearman of cosine and human score on a dev set, in percent."""
    (task,) = sts.read_suite(suite.expanduser(), (name,), ("dev",))
    (part,) = task.parts
    texts = [*part.first, *part.second]

    def measure(model: "SentenceTransformer") -> float | None:
        first, second = np.split(encode(model, texts), 2)
        cosines = np.einsum("nd,nd->n", first, second)
        if not np.isfinite(cosines).all() or float(np.ptp(cosines)) <= metrics.TIE:
            return None
        return 100.0 * metrics.spearman(cosines, part.scores)

    return measure


def _encoder(work: Work, precision: "Precision") -> "Callable[..., Vectors]":
    def encoded(model: "SentenceTransformer", texts: list[str]) -> "Vectors":
        from tercet.models.encoders.encoder import encode

        return encode(model, texts, work.resources.batch_size, precision)

    return encoded


def _dev_pairs(work: Work, max_pairs: int) -> pa.Table:
    """The document pairs of split dev that the evaluation reports on."""
    pairs = pairs_of_split(work.inputs["document_pairs"], "dev", max_pairs, work.seed)
    if pairs.num_rows < 2:
        raise BadInput(
            f"train.choose.by is retrieval, but the corpora have {pairs.num_rows} document pairs "
            "in split dev: raise ingest.dev, name the columns query and answer of a corpus, or "
            "set train.choose to null."
        )
    return pairs
