"""Chooses a checkpoint by dev rows of the user's files: graded pairs, queries or fact order."""

from typing import TYPE_CHECKING

import numpy as np

from tercet.models.measures import metrics
from tercet.tasks.evaluation.encoding import Encoded
from tercet.tasks.evaluation.suites.beir import find_retrieval_files, read_retrieval_sets
from tercet.tasks.evaluation.suites.fact_order import find_case_files, read_cases
from tercet.tasks.evaluation.suites.judged import read_judged
from tercet.tasks.evaluation.suites.sts_sets import find_set_files, read_sets
from tercet.tasks.stage import BadInput, Work
from tercet.tasks.training.chooser import Chooser, by_scores, by_vectors
from tercet.tasks.training.train_settings import ChoosesStep

if TYPE_CHECKING:
    from tercet.tasks.training.chooser import Measure


def _measure(work: Work, config: ChoosesStep) -> tuple[str, "Measure"]:
    """Spearman of cosine and grade, or nDCG@10 of queries, in percent."""
    assert config.choose is not None
    by = config.choose.by
    if config.retrieval_sets or "judgements" in work.inputs:
        (queries,) = [
            *read_retrieval_sets(config.retrieval_sets, ("dev",)),
            *read_judged(work.inputs, ("dev",), by),
        ]

        def ndcg(encoded: Encoded) -> float:
            return 100.0 * float(queries.measure(queries.search(encoded)[0])["ndcg@10"].mean())

        measure = by_vectors(work, config, queries.sided_texts(), ndcg)
        return f"retrieval_sets {by} dev all ndcg@10", measure
    (task,) = read_sets(config.sts_sets, ("dev",))
    return f"sts_sets {by} dev all spearman", by_scores(work, config, task)


OWN_SET = Chooser(
    lambda config: (
        find_set_files(config.sts_sets) | find_retrieval_files(config.retrieval_sets, ("dev",))
    ),
    _measure,
)


def _in_order(work: Work, config: ChoosesStep) -> tuple[str, "Measure"]:
    """The share of dev cases in order, in percent; the mean of several files."""
    tasks = read_cases(config.fact_order, ("dev",), required=False)
    if not tasks:
        raise BadInput(
            "no_rows",
            "choose.by is fact_order, but no file of evaluate.fact_order has a case of split "
            "dev: give one a column `split`, or choose by retrieval.",
        )

    def share_in_order(encoded: Encoded) -> float:
        sides = [(task.anchors, task.rewordings, task.changed) for task in tasks]
        shares = [metrics.in_order(*map(encoded.of, texts)).mean() for texts in sides]
        return 100.0 * float(np.mean(shares))

    name = f"fact_order {tasks[0].name if len(tasks) == 1 else 'mean'} dev all accuracy"
    texts = [text for task in tasks for text in task.sided_texts()]
    return name, by_vectors(work, config, texts, share_in_order)


FACT_ORDER = Chooser(lambda config: find_case_files(config.fact_order), _in_order)
