"""Figures of generators and their controls, as the summary and the report show them."""

from dataclasses import dataclass

import duckdb

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
class Measured:
    """One generator.

    rows: each arm with its values in the order of METRICS, None where there is none; the
        generator's own first, then the controls as they were made.
    gains: over each control at the same share of other words, with its interval; empty where none
        is defined.
    """

    generator: str
    pairs: int
    rows: list[tuple[str, list[float | None]]]
    gains: list[tuple[str, float, float, float]]


def measured(connection: duckdb.DuckDBPyConnection) -> list[Measured]:
    """The generators of the connection's run, by name."""
    found = connection.execute(
        "SELECT generator, arm, metric, value, ci_low, ci_high, n FROM generator_metrics"
    ).fetchall()
    generators: dict[str, list[tuple[str, str, float | None, float | None, float | None, int]]] = {}
    for generator, *rest in found:
        generators.setdefault(generator, []).append(tuple(rest))  # type: ignore[arg-type]
    return [_measured(name, rows) for name, rows in sorted(generators.items())]


def _measured(
    name: str, rows: list[tuple[str, str, float | None, float | None, float | None, int]]
) -> Measured:
    values = {(arm, metric): value for arm, metric, value, *_ in rows}
    arms = list(dict.fromkeys(arm for arm, *_ in rows))
    arms.sort(key=lambda arm: arm != "generator")
    gains = [
        (_GAINS[metric], value, low, high)
        for arm, metric, value, low, high, _ in rows
        if metric in _GAINS and value is not None and low is not None and high is not None
    ]
    table = [(arm, [values.get((arm, metric)) for metric in METRICS]) for arm in arms]
    return Measured(name, rows[0][-1], table, gains)


def in_words(one: Measured) -> str:
    """What the gains say of the generator, in a sentence."""
    if not one.gains:
        return (
            f"{one.generator} changes more words than any control, or too few to compare: its "
            "similarity is not compared at equal diversity."
        )
    said = [
        f"{value:+.1f} points ({low:+.1f} to {high:+.1f}) against {control}"
        for control, value, low, high in one.gains
    ]
    return f"Cosine with the target at the same share of other words: {', '.join(said)}."
