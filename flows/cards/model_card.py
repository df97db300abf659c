"""The model card of an encoder: its description, figures and origin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from tercet.flows.cards.facts import RunFacts, as_yaml, render, run_facts
from tercet.flows.recipe.secrets import public_path, public_values
from tercet.flows.results.encoder_form import Reformed, form_of, needs_trust, read_json, versions
from tercet.flows.results.figures import Figure, read_choice, read_figures
from tercet.flows.results.measure import markdown_table
from tercet.flows.results.metric_names import TRANSDUCTIVE
from tercet.flows.results.subject import Subject
from tercet.flows.results.verdict import verdict_of
from tercet.models.encoders.settings import Prompts, has_sides
from tercet.storage.artifacts import Artifact
from tercet.tasks.training import choose, whiten

PHASE_KEYS = ("batch_size", "learning_rate", "epochs")
# The end of each phase's training.
_LAST = """
SELECT phase, max(step), arg_max(loss, step) FROM training_log
WHERE seed IS NULL OR seed = $seed GROUP BY phase
"""


@dataclass(frozen=True)
class Base:
    """The model that training started from. licence: from its own card, or None."""

    name: str
    on_hub: bool
    licence: str | None


def model_card(
    artifact: Artifact,
    folder: Path,
    subject: Subject | None,
    onnx: Mapping[str, Any] | None = None,
    reformed: Reformed | None = None,
) -> str:
    """The card as Markdown with the hub's front matter.

    folder: the encoder's files. subject: the run that trained it; without a run the card has only
    what the artifact records. onnx: measurements of the ONNX files. reformed: both forms, if the
    encoder was trained in another form than it was evaluated in; the files have the latter.
    """
    manifest = artifact.manifest() or {}
    facts = choice = None
    figures: list[Figure] = []
    if subject is not None:
        facts = run_facts(replace(subject, model=artifact.version))
        figures = read_figures(subject.connection, artifact.version)
        if _stage_of(artifact.step) == choose.NAME:
            choice = read_choice(subject.connection, _seed(manifest))
    chain = _phases(artifact.step, manifest, facts)
    if choice is not None and choice.mix == 0:
        chain = []
    base = _base(facts, chain)
    name = "encoder" if facts is None else facts.name
    metadata = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": _tags(manifest, onnx),
        "base_model": base.name if base is not None and base.on_hub else None,
        "metrics": hub_metrics(figures),
        "model-index": model_index(name, figures),
    }
    config = read_json(folder / "config.json")
    config_of_step = (manifest.get("components") or {}).get("config") or {}
    pooling, template = form_of(folder)
    values = {
        "name": name,
        "step": artifact.name,
        "facts": facts,
        "verdict": None if subject is None else verdict_of(subject.run["end_info"]),
        "base": base,
        "backbone": None if facts is None else public_path(str(facts.recipe.get("backbone"))),
        "from_fitted": facts is not None
        and artifact.step != "fit_evaluator"
        and _starts_from_fitted(facts, chain),
        "dimension": _dimension(folder, config),
        "max_length": read_json(folder / "sentence_bert_config.json").get("max_seq_length")
        or read_json(folder / "tokenizer_config.json").get("model_max_length"),
        "architecture": ", ".join(config.get("architectures") or []),
        "pooling": pooling or next((f.first.pooling for f in figures if f.first), None),
        "template": template,
        "reformed": reformed,
        "trusted": needs_trust(folder),
        "sided": has_sides(folder, Prompts()),
        "normalised": (folder / "2_Normalize").is_dir(),
        "whitened": config_of_step if _stage_of(artifact.step) == whiten.STAGE.name else None,
        "choice": choice,
        "seed": _seed(manifest),
        "phases_table": _phases_table(chain, _seed(manifest), subject),
        "precision": config_of_step.get("precision"),
        "libraries": manifest.get("libraries") or {},
        "recipe": None if facts is None else recipe_yaml(facts.recipe),
        "run_id": None if subject is None else subject.run_id,
        "onnx": onnx,
        "needed": versions(folder),
    }
    return render("model_card", metadata, values)


def recipe_yaml(recipe: Mapping[str, Any]) -> str:
    """The recipe without empty keys, without `run`, and without paths and secrets."""
    content = {key: value for key, value in recipe.items() if key != "run"}
    return as_yaml(_without_nulls(public_values(content)))


def _tags(manifest: Mapping[str, Any], onnx: Mapping[str, Any] | None) -> list[str]:
    phase = (manifest.get("components", {}).get("config") or {}).get("phase") or {}
    losses = sorted({f"loss:{part['loss']['name']}" for part in phase.get("parts", ())})
    tags = ["sentence-transformers", "sentence-similarity", "feature-extraction", "tercet"]
    return [*tags, *losses, *(["onnx"] if onnx else [])]


def _phases(
    step: str, manifest: Mapping[str, Any], facts: RunFacts | None
) -> list[Mapping[str, Any]]:
    """The phases that made this encoder, in order."""
    config = (manifest.get("components") or {}).get("config") or {}
    phases = [] if facts is None else (facts.recipe.get("train") or {}).get("phases") or []
    phase = config.get("phase")
    if _stage_of(step) in (whiten.STAGE.name, choose.NAME):
        # Both steps start from the encoder of the recipe's last phase.
        phase = next(iter(phases[-1:]), None)
        if phase is None:
            return []
    if phase is None:
        return [{"name": "fit_evaluator", **config}]
    names = [phase.get("name") for phase in phases]
    if phase["name"] not in names:
        return [phase]
    chain = [phases[names.index(phase["name"])]]
    while True:
        before, place = chain[0].get("backbone", "previous"), names.index(chain[0]["name"])
        if before == "previous" and place:
            chain.insert(0, phases[place - 1])
        elif before in names[:place]:
            chain.insert(0, phases[names.index(before)])
        else:
            return chain


def _stage_of(step: str) -> str:
    return step.partition(".")[0]


def _base(facts: RunFacts | None, chain: Sequence[Mapping[str, Any]]) -> Base | None:
    """The weights from which the first phase of the chain started."""
    if facts is None:
        return None
    from tercet.models import weights

    evaluator = facts.recipe.get("evaluator") or {}
    source = facts.recipe.get("backbone")
    first = chain[0].get("backbone", "previous") if chain else "base"
    if first == "evaluator":
        source = evaluator.get("model") or source
    elif first not in ("previous", "base"):
        source = first
    name = str(source)
    try:
        on_hub = weights.locate(name) is None
        path = weights.cached(name)
    except weights.ModelMissing:
        on_hub, path = False, None
    return Base(public_path(name), on_hub, None if path is None else _licence(path / "README.md"))


def _starts_from_fitted(facts: RunFacts, chain: Sequence[Mapping[str, Any]]) -> bool:
    """Whether training started from an evaluator fitted in the run, not from the backbone."""
    evaluator = facts.recipe.get("evaluator") or {}
    return bool(chain and chain[0].get("backbone") == "evaluator" and not evaluator.get("model"))


def _licence(card: Path) -> str | None:
    """The licence in a card's front matter."""
    try:
        text = card.read_text(encoding="utf-8")
        front = yaml.safe_load(text.split("---")[1]) if text.startswith("---") else {}
    except (OSError, ValueError, IndexError, yaml.YAMLError):
        return None
    licence = front.get("license") if isinstance(front, dict) else None
    return str(licence) if licence else None


def _dimension(folder: Path, config: Mapping[str, Any]) -> int | None:
    pooling = read_json(folder / "1_Pooling" / "config.json")
    pooling = pooling or read_json(folder / "1_TokenCnn" / "config.json")
    dense = [read_json(path) for path in sorted(folder.glob("*_Dense/config.json"))]
    for width in (
        dense[-1].get("out_features") if dense else None,
        pooling.get("embedding_dimension"),
        pooling.get("word_embedding_dimension"),
        config.get("hidden_size"),
    ):
        if width:
            # The encoder may cut its vectors to fewer dimensions.
            cut = read_json(folder / "config_sentence_transformers.json").get("truncate_dim")
            return min(int(width), cut or int(width))
    return None


def _seed(manifest: Mapping[str, Any]) -> int | None:
    components = manifest.get("components") or {}
    model_seed = (components.get("config") or {}).get("model_seed")
    return components.get("seed") if model_seed is None else model_seed


def _phases_table(
    chain: Sequence[Mapping[str, Any]],
    seed: int | None,
    subject: Subject | None,
) -> str:
    """One line per part of each phase: its rows, its loss, and the last row of the log."""
    log: dict[str, tuple[int, float]] = {}
    if subject is not None:
        for phase, *last in subject.connection.execute(_LAST, {"seed": seed}).fetchall():
            log[phase] = tuple(last)
    numbers = [key.replace("_", " ") for key in PHASE_KEYS]
    return markdown_table(
        ("phase", "rows", "loss", *numbers, "steps", "last loss"),
        [
            (
                phase.get("name"),
                _describe(part.get("rows") or {}, "from"),
                _describe(part.get("loss") or {}, "name"),
                *(phase.get(key) for key in PHASE_KEYS),
                *log.get(str(phase.get("name")), (None, None)),
            )
            for phase in chain
            for part in _parts(phase)
        ],
    )


def _parts(phase: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The parts of a phase; `fit_evaluator` has one, whose loss parameters are in its config."""
    loss = {"name": "info_nce", **{key: phase.get(key) for key in ("tau", "head")}}
    return phase.get("parts") or [{"rows": {"from": "sentences"}, "loss": loss}]


def _describe(described: Mapping[str, Any], name: str) -> str:
    """`gaussian_decay (tau 0.05, sigma_cosine 0.01)`: unset parameters are left out."""
    settings = [
        f"{key} {_plain_text(value)}"
        for key, value in described.items()
        if key != name and value not in (None, [], False)
    ]
    title = str(described.get(name) or "")
    return f"{title} ({', '.join(settings)})" if settings else title


def _plain_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {of}" for key, of in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        members = {
            key: _without_nulls(member) for key, member in value.items() if member is not None
        }
        return {key: member for key, member in members.items() if member not in ([], {})}
    if isinstance(value, list):
        return [_without_nulls(member) for member in value]
    return value


# Subsets that stand for a whole task; its single files would fill pages.
_WHOLE = {"all", "mean", "wmean", "dev", "test", ""}

# Each metric's name on the hub, and in sentence-transformers' evaluators.
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


def whole_tasks(figures: Sequence[Figure]) -> list[Figure]:
    """The figures of whole tasks, without geometry, for a card's table."""
    return [
        f for f in figures if not f.metric.of_geometry and f.metric.subset in _WHOLE and f.after
    ]


def hub_metrics(figures: Sequence[Figure]) -> list[str]:
    """The metrics under the hub's names."""
    names = [
        _HUB_METRICS[f.metric.name][0]
        for f in whole_tasks(figures)
        if f.metric.name in _HUB_METRICS
    ]
    return sorted(set(names))


def model_index(name: str, figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """The hub's list of evaluation results; values in percent, as in the card's table."""
    results: dict[tuple[str, str, str], dict[str, Any]] = {}
    for figure in whole_tasks(figures):
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
    name = f"{task} {subset}".strip() + (TRANSDUCTIVE if figure.transductive else "")
    dataset = {"type": "unknown", "name": name}
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
