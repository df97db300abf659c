"""The table `evaluations` as figures, before and after training.

The run's summary, its report, the cards and studies all read the table here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import duckdb
import pyarrow as pa

from tercet.flows.results import metric_names
from tercet.flows.results.metric_names import FEW, GAIN, SPELT, Metric, is_few
from tercet.flows.results.queries import fetch_dicts

# Values of the column `phase`: the untouched backbone, and the encoder that a run ends with.
BASE = "base"
ENCODER = "encoder"
_SUITES = (
    "retrieval_sets", "retrieval", "labels", "sts_sets", "sts", "fact_order", "awareness",
    "transfer", "reranking", "pairs",
)  # fmt: skip
_METRICS = tuple(SPELT)
_EVALUATIONS = "FROM evaluations WHERE isfinite(value) ORDER BY seed NULLS LAST, COLUMNS(*)"

FIGURES = pa.schema(
    [
        *((name, pa.string()) for name in ("suite", "task", "subset", "metric")),
        ("seed", pa.int64()),
        *((name, pa.float64()) for name in ("before", "after", "gain", "gain_low", "gain_high")),
        ("n", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Value:
    """One row of `evaluations`. low, high: its 95 % interval, if it has enough questions.

    digest: of the data behind it.
    """

    value: float
    low: float | None
    high: float | None
    n: int | None
    model: str
    digest: str | None = None
    seed: int | None = None
    pooling: str = ""
    text_form: str = ""


@dataclass
class Figure:
    """One metric on one set of texts, for the untouched model and for the trained one by seed.

    gains: after minus before by seed, with paired intervals over the queries or pairs.
    transductive: whether texts of the set were in the training data.
    """

    metric: Metric
    before: Value | None = None
    after: dict[int | None, Value] = field(default_factory=dict)
    gains: dict[int | None, Value] = field(default_factory=dict)
    transductive: bool = False

    @property
    def name(self) -> str:
        """The figure's name for people, with a mark if it is transductive."""
        return self.unmarked + (metric_names.TRANSDUCTIVE if self.transductive else "")

    @property
    def unmarked(self) -> str:
        """The figure's name for people, without the mark."""
        task = self.metric.task.replace("_", " ")
        if self.metric.suite in ("awareness", "pairs", "fact_order"):
            task = f"{self.metric.suite.replace('_', ' ')} {task}"
        subset = "" if self.metric.subset == "all" else f" {self.metric.subset}"
        return f"{task}{subset}, {SPELT.get(self.metric.name, self.metric.name)}"

    @property
    def headline(self) -> bool:
        """Whether the figure is of a whole set; of several files, the usual average."""
        return self.metric.suite not in ("sts", "fact_order") or self.metric.subset == "all"

    @property
    def first(self) -> Value | None:
        """The value of the first seed."""
        return next(iter(self.after.values()), None)

    @property
    def few(self) -> bool:
        """Whether the figure has too few questions to tell a gain from chance."""
        sides = (self.before, *self.after.values(), *self.gains.values())
        return any(value is not None and is_few(value.n) for value in sides)

    @property
    def fixed(self) -> bool:
        """Whether the figure does not depend on the encoder, as for a ranking by BM25."""
        same = self.before is not None and {v.value for v in self.after.values()} == {
            self.before.value
        }
        return same and not self.gains

    def values(self) -> dict[int | None, float]:
        """The trained model's value, by seed."""
        return {seed: reading.value for seed, reading in self.after.items()}

    def mean(self) -> float | None:
        """The trained model's value, averaged over seeds."""
        values = list(self.values().values())
        return sum(values) / len(values) if values else None

    def gain(self) -> tuple[float | None, float | None, float | None]:
        """The gain and its interval: over the queries for one seed, over the seeds for several.

        With too few questions there is no interval; a fixed figure has no gain.
        """
        value, low, high = self._gained()
        return (value, None, None) if self.few else (value, low, high)

    def _gained(self) -> tuple[float | None, float | None, float | None]:
        if len(self.gains) > 1:
            from tercet.models.measures.resampling import summarise_seeds

            over_seeds = summarise_seeds([gain.value for gain in self.gains.values()])
            return over_seeds.mean, over_seeds.low, over_seeds.high
        for gain in self.gains.values():
            return gain.value, gain.low, gain.high
        mean = self.mean()
        if mean is None or self.before is None or self.fixed:
            return None, None, None
        return mean - self.before.value, None, None


def read_figures(connection: duckdb.DuckDBPyConnection, model: str | None = None) -> list[Figure]:
    """All figures of the connection's run, in the order of a report.

    "After" is the run's final encoder or the `model` of the given version. Undefined values (NaN)
    are left out.
    """
    by_metric: dict[Metric, Figure] = {}
    sets = metric_names.transductive_sets(connection)
    for row in fetch_dicts(connection, _EVALUATIONS):
        name = row["metric"]
        base = row["phase"] == BASE
        metric = Metric(row["suite"], row["task"], row["subset"] or "", name.removesuffix(GAIN))
        if not base and not (
            row["phase"] == ENCODER if model is None else row["model_version"] == model
        ):
            continue
        among = metric_names.is_transductive(metric, sets)
        figure = by_metric.setdefault(metric, Figure(metric, transductive=among))
        if base:
            figure.before = _value(row)
        else:
            side = figure.gains if name.endswith(GAIN) else figure.after
            side[row["seed"]] = _value(row)
    measured = [figure for figure in by_metric.values() if figure.before or figure.after]
    return sorted(measured, key=_order)


def as_table(figures: Iterable[Figure]) -> pa.Table:
    """One row for each figure and seed; a figure of the untouched model alone has one row."""
    rows = []
    for figure in figures:
        metric = figure.metric
        names = {"suite": metric.suite, "task": metric.task, "subset": metric.subset}
        for seed in list(figure.after) or [None]:
            after, gain = figure.after.get(seed), figure.gains.get(seed)
            some = after or figure.before
            rows.append(
                {
                    **names,
                    "metric": metric.name,
                    "seed": seed,
                    "before": figure.before and figure.before.value,
                    "after": after and after.value,
                    "gain": gain and gain.value,
                    "gain_low": gain and gain.low,
                    "gain_high": gain and gain.high,
                    "n": some and some.n,
                }
            )
    return pa.Table.from_pylist(rows, FIGURES)


def of_tasks(figures: Iterable[Figure]) -> list[Figure]:
    """These figures, without figures on the geometry of the space."""
    return [figure for figure in figures if not figure.metric.of_geometry]


def of_geometry(figures: Iterable[Figure]) -> list[Figure]:
    """Alignment, uniformity and isotropy."""
    return [figure for figure in figures if figure.metric.of_geometry]


def _value(row: Mapping[str, Any]) -> Value:
    few = is_few(row["n"])
    return Value(
        row["value"],
        None if few else row["ci_low"],
        None if few else row["ci_high"],
        row["n"],
        row["model_version"] or "",
        row["data_digest"],
        row["seed"],
        row["pooling"] or "",
        row["text_form"] or "",
    )


def _order(figure: Figure) -> tuple[int, bool, str, int, str]:
    suite, task, name = figure.metric.suite, figure.metric.task, figure.metric.name
    place = _SUITES.index(suite) if suite in _SUITES else len(_SUITES)
    measure = _METRICS.index(name) if name in _METRICS else len(_METRICS)
    # The test set comes before dev.
    return (place, figure.metric.of_dev, task, measure, figure.metric.subset)


# The share of drawn positives that are generated texts, and why it is below the recipe's.
#
# A sentence without a generated text draws another operation. A generator whose texts are refused
# therefore trains almost nothing, without an error.

# Below this part of the recipe's share, the reasons are listed.
_ENOUGH = 0.9
_REASONS = 4

_SHARE = """
SELECT avg((operation = 'generated')::INTEGER), count(DISTINCT sentence_id),
    count(DISTINCT sentence_id) FILTER (operation = 'generated')
FROM drawn_pairs WHERE phase = $phase AND part = $part
HAVING count(*) > 0
"""
# `parse` rejects by the generation's id, later stages by the candidate's.
_TEXTS = """
WITH texts AS (
    SELECT generation_id, any_value(candidate_id) AS candidate_id
    FROM generations LEFT JOIN candidates USING (generation_id)
    WHERE generations.purpose = 'positive' AND generations.relation = 'keeps'
    GROUP BY generation_id
), refused AS (
    SELECT row_id, stage = 'parse' AS parsed, any_value(reason) AS reason
    FROM rejects GROUP BY ALL
)
SELECT coalesce(unparsed.reason, later.reason) AS reason, count(*) AS texts
FROM texts
LEFT JOIN refused unparsed ON unparsed.parsed AND unparsed.row_id = generation_id
LEFT JOIN refused later ON NOT later.parsed AND later.row_id = texts.candidate_id
GROUP BY ALL ORDER BY texts DESC, reason
"""


def describe_draws(
    connection: duckdb.DuckDBPyConnection, recipe: Mapping[str, Any]
) -> Iterator[str]:
    """A sentence for each part that draws generated texts. recipe: as the run has recorded it."""
    for phase, part, intended in _intended_shares(recipe):
        names = {"phase": phase, "part": part}
        row = connection.execute(_SHARE, names).fetchone()
        if row is None:
            continue
        share, sentences, rewritten = row
        message = f"{phase}: {share:.1%} of the drawn positives are generated texts"
        if share >= _ENOUGH * intended:
            yield f"{message}, as `draw` sets it."
            continue
        counts = dict(connection.execute(_TEXTS).fetchall())
        written, copies = sum(counts.values()), counts.pop(None, 0)
        message += (
            f", where `draw` sets {intended:.1%}: {rewritten:,} of {sentences:,} sentences drew "
            f"one. Of {written:,} texts that should keep the meaning, {copies:,} are accepted"
        )
        if not counts:
            more = "raise per_unit or per_sentence, or list more methods under synthesise"
            yield f"{message}: {more}."
            continue
        listed = ", ".join(f"{why} {count:,}" for why, count in [*counts.items()][:_REASONS])
        yield (
            f"{message} ({listed}): SELECT reason, detail, text FROM rejects WHERE reason = "
            f"'{next(iter(counts))}' shows some."
        )


def _intended_shares(recipe: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Phase, part and share of generated texts of each `draw` in the recipe that has some."""
    for phase in (recipe.get("train") or {}).get("phases") or []:
        for part in phase.get("parts") or []:
            draw = (part.get("rows") or {}).get("draw")
            if draw and draw.get("generated"):
                yield phase["name"], part["name"], draw["generated"] / sum(draw.values())


@dataclass(frozen=True)
class Choice:
    """The encoder that a run ends with. mix: the trained encoder's share. questions: how many."""

    mix: float
    by: Literal["questions", "default"]
    questions: int

    def __str__(self) -> str:
        encoder = f"a mix of the untouched encoder and {100 * self.mix:.0f} % of the trained one"
        if self.mix in (0, 1):
            encoder = "the trained encoder, whole" if self.mix else "the untouched encoder"
        if self.by == "questions":
            return (
                f"{self.questions:,} questions chose {encoder}. Their gain is that of choosing: "
                "each question is judged by the mix that the others chose."
            )
        return (
            f"The run ends with {encoder}, the default (choose.mix): its {self.questions:,} "
            f"questions cannot choose. {FEW} of your own in one set of evaluate.retrieval_sets, "
            "answered by several files, can."
        )


def read_choice(connection: duckdb.DuckDBPyConnection, seed: int | None) -> Choice | None:
    """The encoder that the run ends with for this seed; None without the step `choose`."""
    row = connection.execute(
        """SELECT DISTINCT choices.mix, choices.chosen_by, c.n FROM choices
        JOIN candidate_encoders c ON c.seed = choices.seed AND c.chosen
        WHERE choices.seed = $seed""",
        {"seed": seed},
    ).fetchone()
    return None if row is None else Choice(*row)
