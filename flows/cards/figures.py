"""An encoder's figures, before and after, from the table `evaluations`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from tercet.flows.cards.facts import Row, rows_of

GAIN = "_gain"
# Lower is better, and no percentage: they describe the space, and no task.
GEOMETRY = ("alignment", "uniformity", "isotropy")
# Of a task in several files these stand for it; the files alone would fill pages.
_WHOLE = {"all", "mean", "wmean", "dev", "test", ""}

# Our metric to the hub's name of it, and to the name that sentence-transformers' evaluators use.
_HUB_METRICS = {
    "spearman": ("spearmanr", "spearman_cosine"),
    "recall@1": ("recall", "cosine_recall@1"),
    "recall@10": ("recall", "cosine_recall@10"),
    "mrr": ("mrr", "cosine_mrr"),
    "accuracy": ("accuracy", "accuracy"),
    "f1": ("f1", "f1"),
    "ap": ("average_precision", "cosine_ap"),
    "map": ("map", "map"),
}
_TASK_TYPES = {
    "sts": "semantic-similarity",
    "retrieval": "information-retrieval",
    "transfer": "text-classification",
    "reranking": "text-ranking",
    "pairs": "sentence-similarity",
    "awareness": "semantic-similarity",
}


@dataclass(frozen=True)
class Figure:
    """One measure of the encoder, with the untouched backbone's where there is one.

    after: with the ends of its 95 % interval; gain: after − before, paired.
    """

    suite: str
    task: str
    subset: str
    metric: str
    n: int | None
    seed: int | None
    pooling: str
    text_form: str
    data_digest: str
    before: float | None
    after: float
    low: float | None
    high: float | None
    gain: float | None
    gain_low: float | None
    gain_high: float | None


def figures(connection: duckdb.DuckDBPyConnection, version: str) -> list[Figure]:
    """The figures of the model of that version in the run that the connection shows."""
    rows = rows_of(connection, "SELECT * FROM evaluations ORDER BY suite, task, subset, metric")
    mine = {_key(row): row for row in rows if row["model_version"] == version}
    base = {_key(row): row for row in rows if row["phase"] == "base"}
    found = []
    for key, row in mine.items():
        if row["metric"].endswith(GAIN) or row["phase"] == "base" or not _known(row["value"]):
            continue
        gain = mine.get((*key[:3], key[3] + GAIN), {})
        found.append(_figure(row, base.get(key, {}), gain))
    return found


def _known(value: float | None) -> bool:
    """Whether it is a number: a measure can be undefined."""
    return value is not None and math.isfinite(value)


def told(found: Sequence[Figure]) -> list[Figure]:
    """The figures of whole tasks, without geometry: what a card's table has."""
    return [f for f in found if f.metric not in GEOMETRY and f.subset in _WHOLE]


def geometry(found: Sequence[Figure]) -> list[Figure]:
    """Alignment, uniformity and isotropy."""
    return [figure for figure in found if figure.metric in GEOMETRY]


def over_seeds(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """Mean and deviation of each measure over the run's trained encoders; nothing of one seed."""
    return list(
        rows_of(
            connection,
            "SELECT suite, task, subset, metric, avg(value) AS mean, stddev_samp(value) AS sd, "
            "count(DISTINCT seed) AS seeds, list(DISTINCT seed ORDER BY seed) AS which "
            "FROM evaluations WHERE phase = 'encoder' AND metric NOT IN (?, ?, ?) "
            "AND subset IN ('all', 'mean', 'wmean', 'dev', 'test', '') "
            "GROUP BY suite, task, subset, metric HAVING count(DISTINCT seed) > 1 "
            "ORDER BY suite, task, subset, metric",
            GEOMETRY,
        )
    )


def hub_metrics(found: Sequence[Figure]) -> list[str]:
    """The metrics by the hub's names."""
    names = [_HUB_METRICS[f.metric][0] for f in told(found) if f.metric in _HUB_METRICS]
    return sorted(set(names))


def model_index(name: str, found: Sequence[Figure]) -> list[dict[str, Any]]:
    """The hub's list of evaluation results; values in percent, as in the card's table."""
    results: dict[tuple[str, str, str], dict[str, Any]] = {}
    for figure in told(found):
        if figure.metric not in _HUB_METRICS:
            continue
        place = (figure.suite, figure.task, figure.subset)
        result = results.setdefault(place, _result(figure))
        result["metrics"].append(
            {
                "type": _HUB_METRICS[figure.metric][1],
                "value": round(figure.after, 4),
                "name": f"{figure.metric} (percent)",
            }
        )
    return [{"name": name, "results": list(results.values())}] if results else []


def _result(figure: Figure) -> dict[str, Any]:
    # The texts are named by their digest: that they are a data set of the hub is not known.
    task, subset = figure.task.replace("_", " "), figure.subset
    dataset = {"type": "unknown", "name": f"{task} {subset}".strip()}
    if subset in ("dev", "test"):
        dataset["split"] = subset
    if figure.data_digest:
        dataset["revision"] = figure.data_digest
    kind = _TASK_TYPES.get(figure.suite, figure.suite)
    return {
        "task": {"type": kind, "name": kind.replace("-", " ").capitalize()},
        "dataset": dataset,
        "metrics": [],
    }


def _key(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return (row["suite"], row["task"], row["subset"] or "", row["metric"])


def _figure(row: Row, before: Row, gain: Row) -> Figure:
    return Figure(
        row["suite"],
        row["task"],
        row["subset"] or "",
        row["metric"],
        row["n"],
        row["seed"],
        row["pooling"] or "",
        row["text_form"] or "",
        row["data_digest"] or "",
        before.get("value"),
        row["value"],
        row["ci_low"],
        row["ci_high"],
        gain.get("value"),
        gain.get("ci_low"),
        gain.get("ci_high"),
    )
