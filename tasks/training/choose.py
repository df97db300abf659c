"""The choice of a checkpoint, on dev only: no key and no function here can name the test split."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models.encoders.prompts import SIDES, Side
from tercet.models.measures import metrics
from tercet.models.precision import Precision
from tercet.tasks.evaluation.document_pairs import pairs_of_split
from tercet.tasks.evaluation.suites import sts
from tercet.tasks.stage import BadInput, Work

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from tercet.models.encoders.encoder import Vectors
    from tercet.models.training.choosing import Choice
    from tercet.tasks.training.train import TrainConfig

    Measure = Callable[[SentenceTransformer], float | None]


@dataclass(frozen=True)
class Chooser:
    """One way to choose.

    files: of its dev set, by name. measure: the measure's name and the measure, on dev. Both raise
        BadInput where there is nothing to measure on.
    """

    files: "Callable[[TrainConfig], dict[str, Path]]"
    measure: "Callable[[Work, TrainConfig], tuple[str, Measure]]"

    def choice_of(self, work: Work, config: "TrainConfig") -> "Choice":
        """The choice as training makes it."""
        from tercet.models.training.choosing import Choice

        assert config.choose is not None
        return Choice(config.choose.every, *self.measure(work, config))


def _no_files(config: "TrainConfig") -> dict[str, Path]:
    return {}


def _retrieval(work: Work, config: "TrainConfig") -> "tuple[str, Measure]":
    measure = _by_retrieval(_dev_pairs(work, config.max_pairs), encoder(work, config.precision))
    return "retrieval document_pairs dev mrr", measure


def _suite_files(config: "TrainConfig") -> dict[str, Path]:
    assert config.choose is not None
    if config.suite is None:
        raise BadInput(
            f"train.choose.by is {config.choose.by}, but evaluate.suite names no directory that "
            "has its dev set: name one, or choose by retrieval."
        )
    return sts.suite_files(config.suite.expanduser(), (config.choose.by,), ("dev",))


def _suite(work: Work, config: "TrainConfig") -> "tuple[str, Measure]":
    _suite_files(config)
    assert config.choose is not None
    assert config.suite is not None
    by = config.choose.by
    (task,) = sts.read_suite(config.suite.expanduser(), (by,), ("dev",))
    return f"sts {by} dev all spearman", by_scores(task, encoder(work, config.precision))


RETRIEVAL = Chooser(_no_files, _retrieval)
SUITE = Chooser(_suite_files, _suite)


def _by_retrieval(pairs: pa.Table, encode: "Callable[..., Vectors]") -> "Measure":
    """MRR of the pairs' answers among each other, in percent."""
    queries: list[str] = pairs["query"].to_pylist()
    places = {text: place for place, text in enumerate(dict.fromkeys(pairs["answer"].to_pylist()))}
    own: npt.NDArray[np.int64] = np.array([places[text] for text in pairs["answer"].to_pylist()])
    texts = [*queries, *places]

    def measure(model: "SentenceTransformer") -> float | None:
        from tercet.models.encoders.encoder import distinct_side

        if any(distinct_side(model, side) for side in SIDES):
            sides = (encode(model, queries, "query"), encode(model, list(places), "document"))
            vectors = np.concatenate(sides)
        else:
            vectors = encode(model, texts)
        if not np.isfinite(vectors).all():
            return None
        ranks = metrics.answer_ranks(vectors[: len(queries)], vectors[len(queries) :], own)
        return 100.0 * float(metrics.reciprocal_ranks(ranks).mean())

    return measure


def by_scores(task: sts.ScoredTask, encode: "Callable[..., Vectors]") -> "Measure":
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


def encoder(work: Work, precision: "Precision") -> "Callable[..., Vectors]":
    """How texts are encoded to be measured."""

    def encoded(
        model: "SentenceTransformer", texts: list[str], side: Side | None = None
    ) -> "Vectors":
        from tercet.models.encoders.encoder import encode

        return encode(model, texts, work.resources.batch_size, precision, side=side)

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
