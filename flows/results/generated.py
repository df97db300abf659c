"""Figures of generators and their controls, as the summary and the report show them."""

from dataclasses import dataclass

import duckdb

from tercet.flows.results.metric_names import TOO_FEW, is_few

# Of all metrics of `generator_metrics`, those that tell a paraphrase from noise and from a copy.
METRICS = {
    "average_rouge": "ROUGE",
    "sentence_cosine": "cosine",
    "source_diversity": "other words",
    "generation_diversity": "among",
    "average": "average",
    "deficiency": "deficiency",
    "length": "length",
    "perplexity": "perplexity",
}
# By what is done to words, those gains that compare at the same share of other words.
_GAINS = {
    "gain_over_replaced": "words replaced at random",
    "gain_over_deleted": "words deleted at random",
    "gain_over_synonym": "words exchanged for synonyms",
}


@dataclass(frozen=True)
class Gain:
    """A generator's cosine with the target above a control's at the same share of other words.

    low, high: the interval over pairs; None of too few.
    """

    control: str
    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        known = self.low is not None and self.high is not None
        ends = f"{self.low:+.1f} to {self.high:+.1f}" if known else TOO_FEW
        return f"{self.value:+.1f} points ({ends}) against {self.control}"


@dataclass(frozen=True)
class Measured:
    """The generators of a run, by name, and the controls on the same pairs, as they were made.

    generators, controls: the values of each in the order of METRICS, None where there is none.
    gains: of each generator, over every control for which one is defined.
    """

    pairs: int
    generators: dict[str, list[float | None]]
    controls: dict[str, list[float | None]]
    gains: dict[str, list[Gain]]


def measured(connection: duckdb.DuckDBPyConnection) -> Measured | None:
    """What the connection's run measured; None where it measured no generator."""
    found = connection.execute(
        "SELECT generator, arm, metric, value, ci_low, ci_high, n FROM generator_metrics"
    ).fetchall()
    if not found:
        return None
    values = {(name, arm, metric): value for name, arm, metric, value, *_ in found}
    arms = sorted(dict.fromkeys((name, arm) for name, arm, *_ in found), key=lambda a: a[0] or "")
    shown = {(name, arm): [values.get((name, arm, m)) for m in METRICS] for name, arm in arms}
    gains: dict[str, list[Gain]] = {name: [] for name, _ in arms if name is not None}
    for name, _, metric, value, low, high, n in found:
        if metric in _GAINS and value is not None and low is not None and high is not None:
            ends = (None, None) if is_few(n) else (low, high)
            gains[name].append(Gain(_GAINS[metric], value, *ends))
    return Measured(
        pairs=found[0][-1],
        generators={name: row for (name, _), row in shown.items() if name is not None},
        controls={arm: row for (name, arm), row in shown.items() if name is None},
        gains=gains,
    )


def in_words(generator: str, gains: list[Gain]) -> str:
    """What the gains say of the generator, in a sentence."""
    if not gains:
        return (
            f"{generator} changes more words than any control, or too few to compare: its "
            "similarity is not compared at equal diversity."
        )
    said = ", ".join(str(one) for one in gains)
    return f"{generator}'s cosine with the target at the same share of other words: {said}."
