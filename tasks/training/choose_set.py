"""The choice of a checkpoint by a set of one's own, on its dev split: graded pairs or queries."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tercet.models.encoders.prompts import SIDES
from tercet.tasks.evaluation.encoding import Encoded
from tercet.tasks.evaluation.suites.beir import find_retrieval_files, read_retrieval_sets
from tercet.tasks.evaluation.suites.judged import read_judged
from tercet.tasks.evaluation.suites.sts_sets import find_set_files, read_sets
from tercet.tasks.stage import Work
from tercet.tasks.training.choose import Chooser, by_scores, encoder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from tercet.tasks.training.choose import Measure
    from tercet.tasks.training.train import TrainConfig


def _files(config: "TrainConfig") -> dict[str, Path]:
    retrieval = find_retrieval_files(config.retrieval_sets, ("dev",))
    return find_set_files(config.sts_sets) | retrieval


def _measure(work: Work, config: "TrainConfig") -> tuple[str, "Measure"]:
    """Spearman of cosine and grade, or nDCG@10 of queries, in percent."""
    assert config.choose is not None
    encode = encoder(work, config.precision)
    if config.retrieval_sets or "judgements" in work.inputs:
        (queries,) = [
            *read_retrieval_sets(config.retrieval_sets, ("dev",)),
            *read_judged(work.inputs, ("dev",), config.choose.by),
        ]
        # The queries, then the documents.
        asked = list(dict.fromkeys(queries.sided_texts()))
        rows = {sided: row for row, sided in enumerate(asked)}

        def measure(model: "SentenceTransformer") -> float | None:
            sides = ([text for text, on in asked if on == side] for side in SIDES)
            made = (encode(model, *each) for each in zip(sides, SIDES, strict=True))
            vectors = np.concatenate(list(made))
            if not np.isfinite(vectors).all():
                return None
            ranking = queries.rank(Encoded(vectors, rows))
            return 100.0 * float(queries.measure(ranking)["ndcg@10"].mean())

        return f"retrieval_sets {config.choose.by} dev all ndcg@10", measure
    (task,) = read_sets(config.sts_sets, ("dev",))
    return f"sts_sets {config.choose.by} dev all spearman", by_scores(task, encode)


OWN_SET = Chooser(_files, _measure)
