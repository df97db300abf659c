"""What the models of a run reached, out of the table `evaluations`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tercet.flows.report.subject import Row, Subject

GEOMETRY = ("alignment", "uniformity", "isotropy")
_GAIN = "_gain"
_METRICS = ("recall@1", "recall@10", "mrr", "spearman", "accuracy", "map", "ap", "f1")
_SPELT = {"mrr": "MRR", "map": "MAP", "ap": "AP", "f1": "F1", "spearman": "Spearman"}
_ABSENT = dict.fromkeys(("ci_low", "ci_high", "n", "seed", "pooling", "text_form", "data_digest"))
# What a figure of a suite is counted over; of others: examples.
COUNTED = {"retrieval": "queries", "sts": "pairs", "pairs": "pairs", "reranking": "queries"}
_SUITES = ("retrieval", "sts", "awareness", "transfer", "reranking", "pairs")


@dataclass(frozen=True)
class Figure:
    """One measure on one set of texts: of the untouched model, and of the trained by seed.

    gains: by seed, with the interval over the queries or pairs.
    """

    suite: str
    task: str
    subset: str
    metric: str
    before: Row | None = None
    after: dict[int | None, Row] = field(default_factory=dict)
    gains: dict[int | None, Row] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What a person calls it."""
        task = self.task.replace("_", " ")
        if self.suite in ("awareness", "pairs"):
            task = f"{self.suite} {task}"
        subset = "" if self.subset == "all" else f" {self.subset}"
        return f"{task}{subset}, {_SPELT.get(self.metric, self.metric)}"

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes it the same figure in another run."""
        return (self.suite, self.task, self.subset, self.metric)

    @property
    def headline(self) -> bool:
        """Whether it is told first: no single file, and of several averages the usual one."""
        return self.suite != "sts" or self.subset == "all"

    def values(self) -> dict[int | None, float]:
        """The trained model's value, by seed."""
        return {seed: row["value"] for seed, row in self.after.items()}

    def mean(self) -> float | None:
        """The trained model's value, its mean over seeds."""
        values = list(self.values().values())
        return sum(values) / len(values) if values else None

    def first(self) -> tuple[float | None, float | None, float | None]:
        """Gain and its interval: of one seed that over queries, of several that over seeds."""
        if len(self.gains) > 1:
            from tercet.models.measures.comparisons import over_seeds

            told = over_seeds([row["value"] for row in self.gains.values()])
            return told.mean, told.low, told.high
        for row in self.gains.values():
            return row["value"], row["ci_low"], row["ci_high"]
        mean = self.mean()
        if mean is None or self.before is None:
            return None, None, None
        return mean - self.before["value"], None, None


def figures(subject: Subject) -> list[Figure]:
    """All figures but those on a model's geometry, the usual ones of each suite first."""
    return [figure for figure in _all(subject) if figure.metric not in GEOMETRY]


def geometry(subject: Subject) -> list[Figure]:
    """Alignment, uniformity, isotropy."""
    return [figure for figure in _all(subject) if figure.metric in GEOMETRY]


def _all(subject: Subject) -> list[Figure]:
    if "evaluations" not in subject.tables:
        return []
    found: dict[tuple[str, str, str, str], Figure] = {}
    gains: list[Row] = []
    # Older stores lack some of the columns.
    rows = [{**_ABSENT, **row} for row in subject.rows("SELECT * FROM evaluations")]
    rows.sort(key=lambda row: (row["seed"] is None, row["seed"] or 0))
    for row in rows:
        if row["value"] is None:
            continue
        if row["metric"].endswith(_GAIN):
            gains.append(row)
            continue
        key = (row["suite"], row["task"], row["subset"], row["metric"])
        figure = found.get(key) or Figure(*key)
        if row["phase"] == "base":
            figure = Figure(*key, row, figure.after, figure.gains)
        else:
            figure.after[row["seed"]] = row
        found[key] = figure
    for row in gains:
        key = (row["suite"], row["task"], row["subset"], row["metric"].removesuffix(_GAIN))
        if key in found:
            found[key].gains[row["seed"]] = row
    return sorted(found.values(), key=_order)


def seeds(found: Sequence[Figure]) -> list[int]:
    """The seeds of the trained models."""
    return sorted({seed for figure in found for seed in figure.after if seed is not None})


def _order(figure: Figure) -> tuple[int, bool, str, int, str]:
    place = _SUITES.index(figure.suite) if figure.suite in _SUITES else len(_SUITES)
    # The figure on the test set stands before that on dev.
    dev = "dev" in (figure.subset, figure.task.rpartition(" ")[2])
    metric = _METRICS.index(figure.metric) if figure.metric in _METRICS else len(_METRICS)
    return (place, dev, figure.task, metric, figure.subset)
