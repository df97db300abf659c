"""The encoder's figures that a card shows, under the hub's names."""

from collections.abc import Sequence
from typing import Any

from tercet.flows.results.figures import Figure

# Only these stand for a task with several files; all files would fill pages.
_WHOLE = {"all", "mean", "wmean", "dev", "test", ""}

# Each metric with its name on the hub, and its name in sentence-transformers' evaluators.
_HUB_METRICS = {
    "spearman": ("spearmanr", "spearman_cosine"),
    "recall@1": ("recall", "cosine_recall@1"),
    "recall@10": ("recall", "cosine_recall@10"),
    "mrr": ("mrr", "cosine_mrr"),
    "ndcg@10": ("ndcg_at_10", "cosine_ndcg@10"),
    "recall@100": ("recall_at_100", "cosine_recall@100"),
    "mrr@10": ("mrr_at_10", "cosine_mrr@10"),
    "accuracy": ("accuracy", "accuracy"),
    "f1": ("f1", "f1"),
    "ap": ("average_precision", "cosine_ap"),
    "map": ("map", "map"),
}
_TASK_TYPES = {
    "sts": "semantic-similarity",
    "sts_sets": "semantic-similarity",
    "retrieval": "information-retrieval",
    "retrieval_sets": "information-retrieval",
    "transfer": "text-classification",
    "reranking": "text-ranking",
    "pairs": "sentence-similarity",
    "labels": "text-classification",
    "awareness": "semantic-similarity",
    "fact_order": "sentence-similarity",
}


def shown(found: Sequence[Figure]) -> list[Figure]:
    """The figures of whole tasks, without geometry, for a card's table."""
    return [f for f in found if not f.metric.of_geometry and f.metric.subset in _WHOLE and f.after]


def hub_metrics(found: Sequence[Figure]) -> list[str]:
    """The metrics under the hub's names."""
    names = [_HUB_METRICS[f.metric.name][0] for f in shown(found) if f.metric.name in _HUB_METRICS]
    return sorted(set(names))


def model_index(name: str, found: Sequence[Figure]) -> list[dict[str, Any]]:
    """The hub's list of evaluation results; values in percent, as in the card's table."""
    results: dict[tuple[str, str, str], dict[str, Any]] = {}
    for figure in shown(found):
        metric = figure.metric
        if metric.name not in _HUB_METRICS or figure.first is None:
            continue
        place = (metric.suite, metric.task, metric.subset)
        result = results.setdefault(place, _result(figure))
        result["metrics"].append(
            {
                "type": _HUB_METRICS[metric.name][1],
                "value": round(figure.first.value, 4),
                "name": f"{metric.name} (percent)",
            }
        )
    return [{"name": name, "results": list(results.values())}] if results else []


def _result(figure: Figure) -> dict[str, Any]:
    # Texts are named by their digest: we do not know whether they are a data set on the hub.
    task, subset = figure.metric.task.replace("_", " "), figure.metric.subset
    dataset = {"type": "unknown", "name": f"{task} {subset}".strip() + figure.mark}
    if subset in ("dev", "test"):
        dataset["split"] = subset
    if figure.first is not None and figure.first.digest:
        dataset["revision"] = figure.first.digest
    kind = _TASK_TYPES.get(figure.metric.suite, figure.metric.suite)
    return {
        "task": {"type": kind, "name": kind.replace("-", " ").capitalize()},
        "dataset": dataset,
        "metrics": [],
    }
