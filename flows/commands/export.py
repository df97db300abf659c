"""`tercet export`: an encoder out of the store, as a directory that needs no Tercet."""

import shutil
import uuid
from pathlib import Path

import typer

from tercet.flows.commands.refs import artifact_of
from tercet.storage.artifacts import Artifact
from tercet.storage.store import clear_errors, open_store
from tercet.tasks.stage import BadInput


def export_model(ref: str, destination: str, store: str, run_ref: str | None) -> None:
    """Copies an encoder to a new directory, which appears whole or not at all.

    Raises: BadInput when the ref is no finished encoder or the destination is taken.
    """
    artifact = artifact_of(open_store(store, create=False), ref, run_ref)
    source = encoder_dir(artifact)
    target = Path(destination).expanduser()
    _check_free(target)
    _copy(source, target)
    typer.echo(f"{artifact.step}@{artifact.version} lies in {target}; three lines load it:")
    typer.echo("  from sentence_transformers import SentenceTransformer")
    typer.echo(f"  model = SentenceTransformer({str(target)!r})")
    typer.echo('  model.encode(["a sentence of your field"])')


def encoder_dir(artifact: Artifact) -> Path:
    """The directory of a finished encoder. Raises BadInput with one sentence for anything else."""
    name = f"{artifact.step}@{artifact.version}"
    if artifact.manifest() is None:
        raise BadInput(f"{name} is not finished: run its recipe again, which goes on with it.")
    folder = artifact.model_dir()
    if folder is None:
        raise BadInput(
            f"{name} holds tables and no model: `tercet sql … -o FILE` writes tables, "
            "`tercet export train DEST` an encoder."
        )
    if not (folder / "modules.json").is_file():
        raise BadInput(f"{name} holds files, but no sentence encoder: modules.json is missing.")
    return folder


def _check_free(target: Path) -> None:
    if target.is_dir():
        if any(target.iterdir()):
            raise BadInput(f"{target} exists and is not empty: name a directory that does not.")
    elif target.exists() or target.is_symlink():
        raise BadInput(f"{target} is a file: name a directory that does not exist yet.")


def _copy(source: Path, target: Path) -> None:
    aside = target.parent / f".{target.name}-{uuid.uuid4().hex[:8]}.writing"
    try:
        with clear_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy_tree(source, aside)
            # Takes the place of an empty directory, and fails on one that was filled meanwhile.
            aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _copy_tree(source: Path, aside: Path) -> None:
    files = [path for path in sorted(source.rglob("*")) if path.is_file()]
    for file in files:
        place = aside / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
