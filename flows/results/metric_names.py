"""Metrics of the table `evaluations`: readable names, and which have few or transductive texts."""

from dataclasses import dataclass, replace

import duckdb

from tercet.tasks.evaluation.items import AVERAGES
from tercet.tasks.stage import BadInput

# The name of rows with the difference between the trained and the untouched model.
GAIN = "_gain"
# Metrics of the space rather than of a task; they are not percentages.
GEOMETRY: tuple[str, ...] = ("alignment", "uniformity", "isotropy")
RETRIEVAL = ("recall@1", "recall@10", "mrr")
# Every metric as people write it, in the order of listing.
SPELT = {
    "ndcg@10": "nDCG@10",
    "recall@1": "recall@1",
    "recall@10": "recall@10",
    "recall@100": "recall@100",
    "mrr": "MRR",
    "mrr@10": "MRR@10",
    "spearman": "Spearman",
    "accuracy": "accuracy",
    "map": "MAP",
    "ap": "AP",
    "f1": "F1",
    **{name: name for name in GEOMETRY},
}
# The units counted in a suite's figures; by default: examples.
COUNTED = {
    "retrieval": "queries",
    "retrieval_sets": "queries",
    "sts": "pairs",
    "sts_sets": "pairs",
    "fact_order": "cases",
    "pairs": "pairs",
    "reranking": "queries",
}
# The metrics shown without --metric: the first that any arm has.
DEFAULTS = (
    "retrieval document_pairs test recall@1",
    "sts STS all spearman",
    "sts STS-B all spearman",
    "retrieval document_pairs dev recall@1",
    "retrieval halves test recall@1",
    "retrieval halves dev recall@1",
)
_YEARS = ("STS", "STS12", "STS13", "STS14", "STS15", "STS16")


@dataclass(frozen=True)
class Metric:
    """Names a row of `evaluations` by its suite, task, subset and metric."""

    suite: str
    task: str
    subset: str
    name: str

    def __str__(self) -> str:
        return f"{self.suite} {self.task} {self.subset} {self.name}"

    @property
    def of_geometry(self) -> bool:
        """Whether the metric describes the space rather than a task."""
        return self.name in GEOMETRY

    @property
    def of_dev(self) -> bool:
        """Whether the metric is measured on dev."""
        return self.subset == "dev" or self.task.endswith(" dev")

    def on_dev(self) -> "Metric | None":
        """The metric on dev, None if dev lacks it; for the years of STS, STS-B's dev set."""
        if self.of_dev:
            return self
        if self.suite == "retrieval":
            return replace(self, subset="dev")
        if self.suite == "sts":
            task = "STS-B" if self.task in _YEARS else self.task
            return replace(self, task=f"{task} dev", subset="all")
        if self.suite in ("fact_order", "labels", "sts_sets", "retrieval_sets"):
            return replace(self, task=f"{self.task} dev")
        return None

    def on_test(self) -> "Metric":
        """The metric on test."""
        if not self.of_dev:
            return self
        subset = "test" if self.subset == "dev" else self.subset
        return replace(self, task=self.task.removesuffix(" dev"), subset=subset)


def parse_metric(text: str) -> Metric:
    """Parses a metric's name. Raises BadInput."""
    suite, *rest = text.split()
    if len(rest) < 3:
        raise BadInput(
            "bad_value",
            f"--metric {text!r} does not name a metric: write suite, task, subset and metric as in "
            f"the table `evaluations`, such as {DEFAULTS[0]!r}.",
        )
    return Metric(suite, " ".join(rest[:-2]), rest[-2], rest[-1])


# With fewer queries, pairs or examples a figure is neither better nor worse, and shown without an
# interval: resamples of a handful repeat the same few, so the interval would be far too narrow.
FEW = 30
# Shown in place of the interval.
TOO_FEW = "too few"
WHY_TOO_FEW = (
    f"{TOO_FEW.capitalize()}: fewer than {FEW} questions cannot tell a difference from chance."
)
# Suites whose questions are held out of the corpus; other suites come from files.
_HELD_OUT = ("retrieval", "labels")


def is_few(n: int | None) -> bool:
    """Whether n questions are too few to tell a gain from chance; False if n is unknown."""
    return n is not None and n < FEW


def more_of(suite: str, split: str) -> str:
    """The end of a sentence: how to get more of a suite's questions; empty if files hold them."""
    return f": take more text or a larger `ingest.{split}`" if suite in _HELD_OUT else ""


# Figures are transductive if the evaluation set's own texts were in the training: with
# `guard.action: report` the guard leaves them there, as a replica of GCSE, Generate-CSE or DefSent+
# needs. Such a figure means something else, so it is marked wherever it is shown.
TRANSDUCTIVE = " (transductive)"
WHY_TRANSDUCTIVE = (
    "Transductive figures are of sets whose own texts stood in training (guard.action: report): "
    "they do not show how the encoder does on texts that it has not seen."
)


def transductive_sets(connection: duckdb.DuckDBPyConnection) -> frozenset[tuple[str, str]]:
    """Suite and task of the sets whose texts the connection's run found and left in training."""
    result = connection.execute("SELECT suite, task FROM contamination WHERE NOT removed")
    return frozenset(result.fetchall())


def is_transductive(metric: Metric, sets: frozenset[tuple[str, str]]) -> bool:
    """Whether the figure is of one of these sets, or an average with one of them.

    The guard treats a set's dev and test sentences as one set.
    """
    if AVERAGES.get(metric.suite) == metric.task:
        return any(suite == metric.suite for suite, _ in sets)
    return (metric.suite, metric.task.removesuffix(" dev")) in sets
