"""`tercet define`: the entries of a dictionary that are nearest to a description."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from tercet.errors import kind_of
from tercet.flows.commands.export import encoder_dir
from tercet.flows.pipeline.fingerprints import made_model
from tercet.flows.results.encoder_form import runs_own_code
from tercet.flows.results.queries import find_artifact
from tercet.flows.terminal import text_table
from tercet.models.encoders.settings import PoolingMode
from tercet.models.losses.registry import ENTRY_MATRIX
from tercet.storage.artifacts import Artifact, all_artifacts
from tercet.storage.store import Store, open_store
from tercet.tasks.evaluation.define import OWN_ENTRIES, PROJECTION
from tercet.tasks.evaluation.define import STAGE as DEFINE
from tercet.tasks.stage import BadInput


def define(
    texts: Sequence[str],
    ref: str,
    part: str | None,
    count: int,
    format_: str,
    store: str,
    run_ref: str | None,
) -> None:
    """Prints the nearest entries of each text, in whichever way finds held-out definitions better.

    part: the part of the phase whose dictionary to use; None: the only one.

    Raises: BadInput if a text is empty, if the ref is not an encoder that was trained on
        definitions, or if it has several parts with a dictionary and none is named.
    """
    if any(not text.strip() for text in texts):
        raise BadInput("bad_value", "A description is empty: give a few words, in quotation marks.")
    opened = open_store(store, create=False)
    artifact = find_artifact(opened, ref, run_ref)
    folder = encoder_dir(artifact)
    way = _way(opened, artifact, folder, _part(artifact, part))

    from tercet.models.encoders.encoder import load_encoder
    from tercet.models.encoders.entry_space import nearest_by_cosine, read_space
    from tercet.models.losses.definition import nearest_entries, read_projection

    try:
        encoder = load_encoder(folder, way.pooling, trust_remote_code=runs_own_code(artifact))
    except ValueError as error:
        raise BadInput(kind_of(error, "unfit_model"), str(error)) from None
    space = read_space(way.space)
    if way.projection is None:
        entries_found = nearest_by_cosine(encoder, space, texts, count)
    else:
        projection = read_projection(way.projection)
        entries_found = nearest_entries(encoder, projection, space, texts, count)
    measure = "cosine" if way.projection is None else "probability"
    if format_ == "json":
        rows = [
            {"text": text, "entries": [{"entry": e, measure: value} for e, value in nearest]}
            for text, nearest in zip(texts, entries_found, strict=True)
        ]
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for number, (text, nearest) in enumerate(zip(texts, entries_found, strict=True)):
        if len(texts) > 1:
            typer.echo(("\n" if number else "") + text)
        lines = [(rank, entry, f"{value:.3f}") for rank, (entry, value) in enumerate(nearest, 1)]
        shown, _ = text_table.render(
            ["", "entry", measure],
            lines,
            text_table.terminal_width(),
            right=[True, False, True],
        )
        typer.echo("\n".join(shown))
    if way.why:
        typer.echo(f"\n{way.why}")


@dataclass(frozen=True)
class _Way:
    """How entries are found: by the projection, or by cosine if there is none.

    space: the folder of the entries. pooling: the encoder's pooling, if it is not its own. why: a
    sentence with the reason.
    """

    space: Path
    projection: Path | None = None
    pooling: PoolingMode | None = None
    why: str = ""


def _part(artifact: Artifact, chosen: str | None) -> str:
    """The name of the phase's part that trained on definitions, as `chosen` or the only one."""
    slots = [slot.rpartition(".") for slot in _models(artifact)]
    parts = [part for part, _, name in slots if name == ENTRY_MATRIX]
    step, named = artifact.name, ", ".join(parts)
    if not parts:
        raise BadInput(
            "unfit_model",
            f"{step} was not trained on definitions, so it cannot say what they define: name a "
            "phase with the loss definition (tercet define TEXT --model train.PHASE).",
        )
    if chosen is None and len(parts) > 1:
        raise BadInput(
            "missing_key",
            f"{step} was trained on several dictionaries: name one of its parts {named} (tercet "
            f"define TEXT --part {parts[0]}).",
        )
    if chosen is not None and chosen not in parts:
        raise BadInput(
            "unknown_name", f"{step} has no part {chosen!r} with definitions, only {named}."
        )
    return chosen or parts[0]


def _models(artifact: Artifact) -> Mapping[str, str]:
    """The versions of the models that the step read, by slot."""
    return artifact.components().get("models") or {}


def _way(store: Store, artifact: Artifact, folder: Path, part: str) -> _Way:
    """The way that finds held-out definitions better; by cosine if none are held out.

    The projection if the step that compares the two has not run.
    """
    measured = _measurement(store, artifact, part)
    if measured is None:
        return _by_projection(store, artifact, folder, part)
    components = measured.components()
    space = made_model(store, components["models"]["own_entries"])
    values = _mrr(measured)
    projected, cosine = values.get(PROJECTION), values.get(OWN_ENTRIES)
    if space is None:
        return _by_projection(store, artifact, folder, part)
    by_cosine = _Way(space, pooling=components["config"]["own"])
    if projected is None or cosine is None:
        return replace(by_cosine, why="No definitions were held out to compare the two ways.")
    better = by_cosine if cosine >= projected else _by_projection(store, artifact, folder, part)
    why = f"Held-out definitions: MRR {cosine:.1f} by cosine, {projected:.1f} by the projection."
    return replace(better, why=why)


def _measurement(store: Store, artifact: Artifact, part: str) -> Artifact | None:
    """The newest artifact of the step `define.PHASE` for this encoder and part, if it ran."""
    measured = []
    for other in all_artifacts(store):
        if other.step.startswith(f"{DEFINE.name}."):
            components = other.components()
            trained = _models(other).get("trained")
            if trained == artifact.version and components["config"]["part"] == part:
                measured.append((str((other.manifest() or {}).get("created")), other))
    return max(measured, key=lambda one: one[0])[1] if measured else None


def _mrr(measured: Artifact) -> dict[str, float]:
    table = measured.rows().table("definition_figures", ["arm", "metric", "value"])
    return {row["arm"]: row["value"] for row in table.to_pylist() if row["metric"] == "mrr"}


def _by_projection(store: Store, artifact: Artifact, folder: Path, part: str) -> _Way:
    """The projection beside the encoder, and the entries in whose space it ends."""
    from tercet.models.losses.definition import projection_file

    projection = projection_file(folder, part)
    space = made_model(store, _models(artifact)[f"{part}.{ENTRY_MATRIX}"])
    if projection is None or space is None:
        raise BadInput(
            "damaged",
            f"{artifact.name} lacks the files that find its entries: run its recipe again.",
        )
    return _Way(space, projection)
