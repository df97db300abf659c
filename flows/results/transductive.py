"""Which figures are transductive: of evaluation sets whose own texts stood in training.

With `guard.action: report` the guard leaves them there, which a replica of GCSE, Generate-CSE or
DefSent+ needs. What such a figure says is another thing, so it is named wherever it is shown.
"""

import duckdb

from tercet.flows.results.metric_names import Metric
from tercet.tasks.evaluation.items import AVERAGES

MARK = " (transductive)"
WHY = (
    "Transductive figures are of sets whose own texts stood in training (guard.action: report): "
    "they do not show how the encoder does on texts that it has not seen."
)


def sets_of(connection: duckdb.DuckDBPyConnection) -> frozenset[tuple[str, str]]:
    """Suite and task of the sets whose texts the connection's run found and left in training."""
    found = connection.execute("SELECT suite, task FROM contamination WHERE NOT removed")
    return frozenset(found.fetchall())


def is_transductive(metric: Metric, sets: frozenset[tuple[str, str]]) -> bool:
    """Whether the figure is of one of these sets, or an average with one of them.

    The guard knows a set's dev and test sentences as one set.
    """
    if AVERAGES.get(metric.suite) == metric.task:
        return any(suite == metric.suite for suite, _ in sets)
    return (metric.suite, metric.task.removesuffix(" dev")) in sets
