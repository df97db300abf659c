"""How well held-out definitions find their entries, as the summary and the report show it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import duckdb

from tercet.flows.results.metric_names import TOO_FEW, is_few

ARMS = {
    "own_entries": "after training, by cosine",
    "projection": "after training, by the projection",
    "before": "the encoder before it, by cosine",
    "words": "TF-IDF of the definitions",
}
METRICS = {
    "recall@1": "recall@1",
    "recall@10": "recall@10",
    "mrr": "MRR",
    "median_rank": "median rank",
}

# Value, and the ends of its interval: over definitions, None where it is a mean over seeds or of
# too few definitions.
Ends: TypeAlias = tuple[float, float | None, float | None]

_FIGURES = """
SELECT name, arm, metric, avg(value), max(n), count(*),
    if(count(*) = 1, any_value(ci_low), NULL), if(count(*) = 1, any_value(ci_high), NULL)
FROM definition_figures GROUP BY name, arm, metric ORDER BY name
"""


@dataclass(frozen=True)
class Defined:
    """One phase's training on definitions. figures: by arm and metric, in the order of `ARMS`.

    gains: of both ways after training, the MRR over that of the encoder before it.
    """

    name: str
    definitions: int
    seeds: int
    figures: Mapping[str, Mapping[str, Ends]]
    gains: Mapping[str, Ends]


def defined(connection: duckdb.DuckDBPyConnection) -> list[Defined]:
    """The trainings on definitions of the connection's run, by name."""
    rows = connection.execute(_FIGURES).fetchall()
    found = []
    for name in dict.fromkeys(row[0] for row in rows):
        own = [row for row in rows if row[0] == name]
        few = is_few(own[0][4])
        ends = {
            (arm, metric): (value, None, None) if few else (value, low, high)
            for _, arm, metric, value, _, _, low, high in own
        }
        arms = [arm for arm in ARMS if (arm, "mrr") in ends]
        figures = {arm: {metric: ends[arm, metric] for metric in METRICS} for arm in arms}
        ways = ("own_entries", "projection")
        gains = {arm: ends[arm, "mrr_gain"] for arm in ways if (arm, "mrr_gain") in ends}
        found.append(Defined(name, own[0][4], own[0][5], figures, gains))
    return found


def in_words(one: Defined) -> str:
    """What the training has brought, in a sentence; empty where nothing can be compared."""
    said = []
    for arm, (value, low, high) in one.gains.items():
        ends = "" if low is None or high is None else f" ({low:+.1f} to {high:+.1f})"
        ends = f" ({TOO_FEW})" if is_few(one.definitions) else ends
        said.append(f"{value:+.1f}{ends} {ARMS[arm].removeprefix('after training, ')}")
    return f"MRR over the encoder before it: {', '.join(said)}." if said else ""
