"""The choice of a checkpoint, on dev only: no key and no function here can name the test split."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models.measures import metrics
from tercet.models.precision import Precision
from tercet.tasks.evaluation.document_pairs import pairs_of_split
from tercet.tasks.evaluation.suites import sts
from tercet.tasks.stage import BadInput, Work

# By name: only trainings that choose by files of one's own depend on what reads these.
BY_ORDER = "tercet.tasks.training.choose_order"
BY_SET = "tercet.tasks.evaluation.suites.sts_sets"

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from tercet.models.encoders.encoder import Vectors
    from tercet.models.training.choosing import Choice
    from tercet.tasks.training.train import TrainConfig

    Measure = Callable[[SentenceTransformer], float | None]


def dev_files(config: "TrainConfig") -> dict[str, Path]:
    """The files of the dev set that `by` names, if any. Raises BadInput if one is missing."""
    assert config.choose is not None
    by, suite = config.choose.by, config.suite
    if by == "retrieval":
        return {}
    if by == "fact_order":
        files: dict[str, Path] = import_module(BY_ORDER).dev_files(config.fact_order)
        return files
    if by in config.sts_sets:
        own: dict[str, Path] = import_module(BY_SET).set_files(config.sts_sets)
        return own
    if suite is None:
        raise BadInput(
            f"train.choose.by is {by}, but evaluate.suite names no directory that has its "
            "dev set: name one, or choose by retrieval."
        )
    return sts.suite_files(suite.expanduser(), (by,), ("dev",))


def choice_of(work: Work, config: "TrainConfig") -> "Choice":
    """The choice as training makes it. Raises BadInput if there is nothing to measure on."""
    from tercet.models.training.choosing import Choice

    assert config.choose is not None
    every, by = config.choose.every, config.choose.by
    encode = _encoder(work, config.precision)
    if by == "retrieval":
        measure = _by_retrieval(_dev_pairs(work, config.max_pairs), encode)
        return Choice(every, "retrieval document_pairs dev mrr", measure)
    if by == "fact_order":
        return Choice(every, *import_module(BY_ORDER).measure_of(config.fact_order, encode))
    if by in config.sts_sets:
        (task,) = import_module(BY_SET).read_sets(config.sts_sets, ("dev",))
        return Choice(every, f"sts_sets {by} dev all spearman", _by_scores(task, encode))
    dev_files(config)
    assert config.suite is not None
    (task,) = sts.read_suite(config.suite.expanduser(), (by,), ("dev",))
    return Choice(every, f"sts {by} dev all spearman", _by_scores(task, encode))


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


def _by_scores(task: sts.ScoredTask, encode: "Callable[..., Vectors]") -> "Measure":
    """Spearman of cosine and human score on a dev set, in percent."""
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
