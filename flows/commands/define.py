"""`tercet define`: the entries of a dictionary that are nearest to a description."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from tercet.flows.commands.export import encoder_dir
from tercet.flows.pipeline.fingerprints import made_model
from tercet.flows.results.refs import artifact_of
from tercet.flows.terminal import text_table
from tercet.models.losses.definition import SLOT, projection_file
from tercet.storage.artifacts import Artifact
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import BadInput

FORMATS = ("table", "json")


def define(
    texts: Sequence[str], ref: str, count: int, format_: str, store: str, run_ref: str | None
) -> None:
    """Prints the nearest entries of each text, as the training has learnt to find them.

    Raises: BadInput where the ref is not an encoder that was trained on definitions, and for a
        text that is empty.
    """
    if format_ not in FORMATS:
        raise BadInput(f"--format {format_!r} must be one of {', '.join(FORMATS)}.")
    if any(not text.strip() for text in texts):
        raise BadInput("A description is empty: give a few words, in quotation marks.")
    opened = open_store(store, create=False)
    artifact = artifact_of(opened, ref, run_ref)
    folder = encoder_dir(artifact)
    projection, space = _kept(opened, artifact, folder)

    from tercet.models.encoders.encoder import load_encoder
    from tercet.models.encoders.entry_space import read_space
    from tercet.models.losses.definition_loss import nearest_entries, read_projection

    try:
        encoder = load_encoder(folder)
    except ValueError as error:
        raise BadInput(str(error)) from None
    found = nearest_entries(encoder, read_projection(projection), read_space(space), texts, count)
    if format_ == "json":
        rows = [
            {"text": text, "entries": [{"entry": e, "probability": p} for e, p in nearest]}
            for text, nearest in zip(texts, found, strict=True)
        ]
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for number, (text, nearest) in enumerate(zip(texts, found, strict=True)):
        if len(texts) > 1:
            typer.echo(("\n" if number else "") + text)
        lines = [(rank, entry, f"{share:.3f}") for rank, (entry, share) in enumerate(nearest, 1)]
        shown, _ = text_table.render(
            ["", "entry", "probability"],
            lines,
            text_table.terminal_width(),
            right=[True, False, True],
        )
        typer.echo("\n".join(shown))


def _kept(store: Store, artifact: Artifact, folder: Path) -> tuple[Path, Path]:
    """The projection beside the encoder, and the folder of the entries that it leads to."""
    components: Mapping[str, Any] = (artifact.manifest() or {}).get("components") or {}
    models: Mapping[str, str] = components.get("models") or {}
    for slot, version in models.items():
        part, _, name = slot.rpartition(".")
        if name != SLOT:
            continue
        projection = projection_file(folder, part)
        space = made_model(store, version)
        if projection is not None and space is not None:
            return projection, space
    raise BadInput(
        f"{artifact.step}@{artifact.version} was not trained on definitions, so it cannot say "
        "what they define: name a phase with the loss definition (tercet define TEXT --model "
        "train.PHASE)."
    )
