"""The model card of an encoder: what it is, what it scores, what it was made from."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import yaml

from tercet.flows.cards import figures as evaluated
from tercet.flows.cards.facts import Row, RunFacts, rows_of, run_facts
from tercet.flows.cards.rendering import as_yaml, cell, number, render, table
from tercet.flows.pages.redaction import public_path, public_values
from tercet.storage.artifacts import Artifact
from tercet.storage.runs import Run

PHASE_KEYS = ("rows", "loss", "batch_size", "learning_rate", "epochs", "tau", "width", "max_rows")


@dataclass(frozen=True)
class Base:
    """The model that training started from. licence: as its own card says; None: it says none."""

    name: str
    on_hub: bool
    licence: str | None


def model_card(
    artifact: Artifact,
    folder: Path,
    run: Run | None,
    connection: duckdb.DuckDBPyConnection,
    onnx: Mapping[str, Any] | None = None,
) -> str:
    """The card as Markdown with the hub's front matter.

    folder: the encoder's files. run: whose tables the connection shows; without one the card has
    what the artifact alone knows. onnx: what was measured of the ONNX files.
    """
    manifest = artifact.manifest() or {}
    facts = None if run is None else run_facts(connection, run)
    found = evaluated.figures(connection, artifact.version) if run is not None else []
    base = _base(facts)
    name = "encoder" if facts is None else facts.name
    metadata = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": _tags(manifest, onnx),
        "base_model": base.name if base is not None and base.on_hub else None,
        "metrics": evaluated.hub_metrics(found),
        "model-index": evaluated.model_index(name, found),
    }
    config = _json(folder / "config.json")
    values = {
        "name": name,
        "step": f"{artifact.step}@{artifact.version}",
        "facts": facts,
        "synthetic": facts is not None and bool(facts.acceptance),
        "base": base,
        "backbone": None if facts is None else public_path(str(facts.recipe.get("backbone"))),
        "from_fitted": facts is not None
        and artifact.step != "fit_evaluator"
        and _starts_from_fitted(facts),
        "dimension": _dimension(folder, config),
        "max_length": _json(folder / "sentence_bert_config.json").get("max_seq_length")
        or _json(folder / "tokenizer_config.json").get("model_max_length"),
        "architecture": ", ".join(config.get("architectures") or []),
        "pooling": _pooling(folder, found),
        "normalised": (folder / "2_Normalize").is_dir(),
        "figures_table": _figures_table(found),
        "conditions": _conditions(found),
        "geometry_table": _geometry_table(found),
        "seeds_table": _seeds_table(evaluated.over_seeds(connection) if run else []),
        "seed": _seed(manifest),
        "phases_table": _phases_table(manifest, connection if run is not None else None),
        "precision": (manifest.get("components", {}).get("config") or {}).get("precision"),
        "libraries": manifest.get("libraries") or {},
        "recipe": None if facts is None else recipe_yaml(facts.recipe),
        "run_id": None if run is None else run["run_id"],
        "onnx": onnx,
        "cell": cell,
        "number": number,
        "public_path": public_path,
    }
    return render("model_card", metadata, values)


def recipe_yaml(recipe: Mapping[str, Any]) -> str:
    """The recipe without what it leaves out, without `run`, and without paths and secrets."""
    kept = {key: value for key, value in recipe.items() if key != "run"}
    return as_yaml(_without_nulls(public_values(kept)))


def _tags(manifest: Mapping[str, Any], onnx: Mapping[str, Any] | None) -> list[str]:
    phases = (manifest.get("components", {}).get("config") or {}).get("phases") or []
    losses = sorted({f"loss:{phase['loss']}" for phase in phases if phase.get("loss")})
    tags = ["sentence-transformers", "sentence-similarity", "feature-extraction", "tercet"]
    return [*tags, *losses, *(["onnx"] if onnx else [])]


def _base(facts: RunFacts | None) -> Base | None:
    if facts is None:
        return None
    from tercet.models import weights

    evaluator = facts.recipe.get("evaluator") or {}
    told = facts.recipe.get("backbone")
    if facts.recipe.get("start") == "evaluator" and evaluator.get("model"):
        told = evaluator["model"]
    name = str(told)
    try:
        on_hub = weights.locate(name) is None
        path = weights.cached(name)
    except weights.ModelMissing:
        on_hub, path = False, None
    return Base(public_path(name), on_hub, None if path is None else _licence(path / "README.md"))


def _starts_from_fitted(facts: RunFacts) -> bool:
    """Whether training began with an evaluator that the run fitted, not with the backbone."""
    evaluator = facts.recipe.get("evaluator") or {}
    return facts.recipe.get("start") == "evaluator" and not evaluator.get("model")


def _licence(card: Path) -> str | None:
    """The licence that a card's front matter names."""
    try:
        text = card.read_text(encoding="utf-8")
        front = yaml.safe_load(text.split("---")[1]) if text.startswith("---") else {}
    except (OSError, ValueError, IndexError, yaml.YAMLError):
        return None
    found = front.get("license") if isinstance(front, dict) else None
    return str(found) if found else None


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _dimension(folder: Path, config: Mapping[str, Any]) -> int | None:
    pooling = _json(folder / "1_Pooling" / "config.json")
    for found in (
        pooling.get("embedding_dimension"),
        pooling.get("word_embedding_dimension"),
        config.get("hidden_size"),
    ):
        if found:
            return int(found)
    return None


def _pooling(folder: Path, found: Sequence[evaluated.Figure]) -> str | None:
    said = _json(folder / "1_Pooling" / "config.json").get("pooling_mode")
    return str(said) if said else next((figure.pooling for figure in found), None)


def _figures_table(found: Sequence[evaluated.Figure]) -> str:
    titles = ("suite", "task", "subset", "metric", "before", "after", "95 %", "gain", "95 %", "n")
    return table(
        (*titles, "seed"),
        [
            (
                *_place(f),
                f.metric,
                number(f.before),
                number(f.after),
                _range(f.low, f.high),
                number(_gain(f), signed=True),
                _range(f.gain_low, f.gain_high, signed=True),
                f.n,
                "" if f.seed is None else str(f.seed),
            )
            for f in evaluated.told(found)
        ],
    )


def _gain(figure: evaluated.Figure) -> float | None:
    if figure.gain is None and figure.before is not None:
        return figure.after - figure.before
    return figure.gain


def _range(low: float | None, high: float | None, signed: bool = False) -> str:
    if low is None or high is None:
        return ""
    return f"{number(low, signed)} to {number(high, signed)}"


def _conditions(found: Sequence[evaluated.Figure]) -> str:
    """Text form and digest of the data behind each task: once a task and subset."""
    rows = {_place(f): f for f in evaluated.told(found)}
    return table(
        ("suite", "task", "subset", "text form", "pooling", "digest of the data"),
        [(*key, f.text_form, f.pooling, f.data_digest) for key, f in rows.items()],
    )


def _geometry_table(found: Sequence[evaluated.Figure]) -> str:
    return table(
        ("suite", "task", "subset", "measure", "before", "after"),
        [
            (*_place(f), f.metric, number(f.before, digits=3), number(f.after, digits=3))
            for f in evaluated.geometry(found)
        ],
    )


def _place(figure: evaluated.Figure) -> tuple[str, str, str]:
    return figure.suite, figure.task.replace("_", " "), figure.subset


def _seeds_table(rows: Sequence[Row]) -> str:
    return table(
        ("suite", "task", "subset", "metric", "mean", "deviation", "seeds"),
        [
            (
                *(row[k] for k in ("suite", "task", "subset", "metric")),
                number(row["mean"]),
                number(row["sd"]),
                ", ".join(map(str, row["which"])),
            )
            for row in rows
        ],
    )


def _seed(manifest: Mapping[str, Any]) -> int | None:
    components = manifest.get("components") or {}
    own = (components.get("config") or {}).get("model_seed")
    return components.get("seed") if own is None else own


def _phases_table(manifest: Mapping[str, Any], connection: duckdb.DuckDBPyConnection | None) -> str:
    """A line a phase: what it trained on and how, with its last row of the log."""
    config = (manifest.get("components") or {}).get("config") or {}
    log: dict[str, Row] = {}
    if connection is not None:
        rows = rows_of(connection, "SELECT * FROM training_log ORDER BY step")
        seed = _seed(manifest)
        for row in rows:
            if row.get("seed") in (None, seed):
                log[str(row.get("phase"))] = row
    return table(
        ("phase", *(key.replace("_", " ") for key in PHASE_KEYS), "steps", "last loss"),
        [
            (
                phase.get("name"),
                *(phase.get(key) for key in PHASE_KEYS),
                log.get(str(phase.get("name")), {}).get("step"),
                log.get(str(phase.get("name")), {}).get("loss"),
            )
            for phase in config.get("phases") or [{"name": "fit_evaluator", **config}]
        ],
    )


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_nulls(member) for key, member in value.items() if member is not None}
        return {key: member for key, member in kept.items() if member not in ([], {})}
    if isinstance(value, list):
        return [_without_nulls(member) for member in value]
    return value
