"""A figure of an encoder by the names that the table `evaluations` has for it."""

from dataclasses import dataclass, replace

from tercet.tasks.stage import BadInput

RETRIEVAL = ("recall@1", "recall@10", "mrr")
# Without --metric: the first of these that some arm has.
DEFAULTS = (
    "retrieval document_pairs test recall@1",
    "sts STS all spearman",
    "sts STS-B all spearman",
    "retrieval document_pairs dev recall@1",
)
_YEARS = ("STS", "STS12", "STS13", "STS14", "STS15", "STS16")


@dataclass(frozen=True)
class Metric:
    """A row of `evaluations`: suite, task, subset and metric, in the words of that table."""

    suite: str
    task: str
    subset: str
    name: str

    def __str__(self) -> str:
        return f"{self.suite} {self.task} {self.subset} {self.name}"

    @property
    def of_dev(self) -> bool:
        """Whether it is measured on dev."""
        return self.subset == "dev" or self.task.endswith(" dev")

    def on_dev(self) -> "Metric | None":
        """The same on dev, where there is such; of the years of STS, STS-B's dev set."""
        if self.of_dev:
            return self
        if self.suite == "retrieval":
            return replace(self, subset="dev")
        if self.suite == "sts":
            task = "STS-B" if self.task in _YEARS else self.task
            return replace(self, task=f"{task} dev", subset="all")
        return None

    def on_test(self) -> "Metric":
        """The same on test."""
        if not self.of_dev:
            return self
        subset = "test" if self.subset == "dev" else self.subset
        return replace(self, task=self.task.removesuffix(" dev"), subset=subset)


def metric_of(text: str) -> Metric:
    """The metric that somebody typed. Raises BadInput."""
    suite, *rest = text.split()
    if len(rest) < 3:
        raise BadInput(
            f"--metric {text!r} is no metric: write suite, task, subset and metric as in the table "
            f"`evaluations`, such as {DEFAULTS[0]!r}."
        )
    return Metric(suite, " ".join(rest[:-2]), rest[-2], rest[-1])
