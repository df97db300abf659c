"""The choice of a checkpoint by a set of one's own, on its dev split: graded pairs or queries."""

from pathlib import Path
from typing import TYPE_CHECKING

from tercet.tasks.evaluation.encoding import Encoded
from tercet.tasks.evaluation.suites.beir import find_retrieval_files, read_retrieval_sets
from tercet.tasks.evaluation.suites.judged import read_judged
from tercet.tasks.evaluation.suites.sts_sets import find_set_files, read_sets
from tercet.tasks.stage import Work
from tercet.tasks.training.chooser import Chooser, by_scores, by_vectors
from tercet.tasks.training.train_settings import TrainConfig

if TYPE_CHECKING:
    from tercet.tasks.training.chooser import Measure


def _files(config: TrainConfig) -> dict[str, Path]:
    retrieval = find_retrieval_files(config.retrieval_sets, ("dev",))
    return find_set_files(config.sts_sets) | retrieval


def _measure(work: Work, config: TrainConfig) -> tuple[str, "Measure"]:
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


OWN_SET = Chooser(_files, _measure)
