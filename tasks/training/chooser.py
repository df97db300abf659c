"""Chooses a checkpoint on dev; nothing here can read the test split."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tercet.models.encoders.settings import Sided
from tercet.models.measures import metrics
from tercet.tasks.evaluation.document_pairs import pairs_of_split
from tercet.tasks.evaluation.encoding import Encoded
from tercet.tasks.evaluation.suites import sts
from tercet.tasks.evaluation.suites.layout import suite_root
from tercet.tasks.evaluation.suites.task import cosines
from tercet.tasks.stage import BadInput, Work
from tercet.tasks.training.train_settings import ChoosesStep

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from tercet.models.training.loop import Choice

    Measure = Callable[[SentenceTransformer], float | None]


@dataclass(frozen=True)
class Chooser:
    """One way to choose.

    files: of its dev set, by name. measure: returns the figure's name and the function that
        measures it on dev. Both raise BadInput if there is nothing to measure on.
    """

    files: "Callable[[ChoosesStep], dict[str, Path]]"
    measure: "Callable[[Work, ChoosesStep], tuple[str, Measure]]"

    def choice_of(self, work: Work, config: ChoosesStep) -> "Choice":
        """The choice for `loop.train`."""
        from tercet.models.training.loop import Choice

        assert config.choose is not None
        return Choice(config.choose.every, *self.measure(work, config))


def _retrieval(work: Work, config: ChoosesStep) -> "tuple[str, Measure]":
    """MRR in percent: each dev query searches the answers of all dev pairs."""
    pairs = pairs_of_split(work.inputs["document_pairs"], "dev", config.max_pairs, work.seed)
    if pairs.num_rows < 2:
        raise BadInput(
            "no_rows",
            f"choose.by is retrieval, but the corpora have {pairs.num_rows} document pairs "
            "in split dev: raise ingest.dev, name the columns query and answer of a corpus, or "
            "set choose to null.",
        )
    queries: list[str] = pairs["query"].to_pylist()
    answers: list[str] = pairs["answer"].to_pylist()
    places = {text: place for place, text in enumerate(dict.fromkeys(answers))}
    answer_places = np.array([places[text] for text in answers], dtype=np.int64)

    def mrr(encoded: Encoded) -> float:
        sides = encoded.of(queries, "query"), encoded.of(list(places), "document")
        ranks = metrics.answer_ranks(*sides, answer_places)
        return 100.0 * float(metrics.reciprocal_ranks(ranks).mean())

    texts: list[Sided] = [(text, "query") for text in queries]
    texts += [(text, "document") for text in places]
    return "retrieval document_pairs dev mrr", by_vectors(work, config, texts, mrr)


def _suite_files(config: ChoosesStep) -> dict[str, Path]:
    assert config.choose is not None
    if config.suite is None:
        raise BadInput(
            "missing_key",
            f"choose.by is {config.choose.by}, but evaluate.suite names no directory that "
            "has its dev set: name one, or choose by retrieval.",
        )
    return sts.KIND.files(suite_root(config.suite.expanduser()), config.choose.by, ("dev",))


def _suite(work: Work, config: ChoosesStep) -> "tuple[str, Measure]":
    _suite_files(config)
    assert config.choose is not None
    assert config.suite is not None
    by = config.choose.by
    task = sts.read_task(suite_root(config.suite.expanduser()), by, "dev")
    assert task is not None
    return f"sts {by} dev all spearman", by_scores(work, config, task)


RETRIEVAL = Chooser(lambda config: {}, _retrieval)
SUITE = Chooser(_suite_files, _suite)


def by_scores(work: Work, config: ChoosesStep, task: sts.ScoredTask) -> "Measure":
    """Spearman of cosine and human score on a dev set, in percent."""
    (part,) = task.parts

    def spearman(encoded: Encoded) -> float | None:
        values = cosines(encoded, part.first, part.second)
        if float(np.ptp(values)) <= metrics.TIE:
            return None
        return 100.0 * metrics.spearman(values, part.scores)

    return by_vectors(work, config, task.sided_texts(), spearman)


def by_vectors(
    work: Work,
    config: ChoosesStep,
    texts: Sequence[Sided],
    value: Callable[[Encoded], float | None],
) -> "Measure":
    """A measure that encodes the texts and calls `value`; None if a vector is not finite."""
    sides = dict.fromkeys(side for _, side in texts)
    by_side = {side: list(dict.fromkeys(t for t, on in texts if on == side)) for side in sides}
    sided = ((text, side) for side, some in by_side.items() for text in some)
    rows = {one: row for row, one in enumerate(sided)}

    def measure(model: "SentenceTransformer") -> float | None:
        from tercet.models.encoders.encoder import encode

        size, precision = work.resources.batch_size, config.precision
        vectors = np.concatenate(
            [encode(model, some, size, precision, side=on) for on, some in by_side.items()]
        )
        return value(Encoded(vectors, rows)) if np.isfinite(vectors).all() else None

    return measure
