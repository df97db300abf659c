"""`tercet export`: an encoder or a table out of the store, as a directory that needs no Tercet."""

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import typer

from tercet.flows.exports.whole import check_free, whole_directory
from tercet.flows.results.refs import artifact_of
from tercet.storage.artifacts import Artifact
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import BadInput


def export(
    ref: str,
    destination: str,
    store: str,
    run_ref: str | None,
    onnx: bool = False,
    int8: bool = False,
    push: str | None = None,
    public: bool = False,
) -> None:
    """Writes what the ref means to a new directory with its card, and uploads it where asked.

    Raises: BadInput when the ref is neither a finished encoder nor a table, or the destination is
        taken; StageFailed when the directory could not be uploaded.
    """
    from tercet.flows.exports.table import is_table

    opened = open_store(store, create=False)
    kind: Literal["model", "dataset"] = "dataset" if is_table(opened, ref) else "model"
    if kind == "dataset" and (onnx or int8):
        raise BadInput(f"--onnx and --int8 belong to encoders, and {ref} is a table.")
    if public and push is None:
        raise BadInput("--public belongs to --push REPO.")
    target = Path(destination).expanduser()
    check_free(target)
    if push is not None:
        from tercet.flows.exports.hub import check_push

        check_push(push)
    if kind == "dataset":
        _table(opened, ref, target, run_ref)
    else:
        export_model(ref, destination, store, run_ref, onnx, int8)
    if push is not None:
        from tercet.flows.exports.hub import push as upload

        address = upload(target, push, kind, public)
        typer.echo(f"Uploaded to {address}" + ("" if public else " (private)"))


def export_model(
    ref: str,
    destination: str,
    store: str,
    run_ref: str | None,
    onnx: bool = False,
    int8: bool = False,
) -> None:
    """Copies an encoder to a new directory, which appears whole or not at all, with its card.

    Raises: BadInput when the ref is no finished encoder or the destination is taken.
    """
    opened = open_store(store, create=False)
    artifact = artifact_of(opened, ref, run_ref)
    source = encoder_dir(artifact)
    target = Path(destination).expanduser()
    if onnx or int8:
        from tercet.flows.exports.onnx import check_installed

        check_installed()
        typer.echo("Writing ONNX files and measuring them: some minutes.", err=True)
    measured = _copy(opened, artifact, source, target, run_ref, onnx, int8)
    typer.echo(f"{artifact.step}@{artifact.version} lies in {target}; three lines load it:")
    typer.echo("  from sentence_transformers import SentenceTransformer")
    typer.echo(f"  model = SentenceTransformer({str(target)!r})")
    typer.echo('  model.encode(["a sentence of your field"])')
    if measured is not None:
        from tercet.flows.exports.onnx import lines

        typer.echo("\n".join(lines(measured)))


def encoder_dir(artifact: Artifact) -> Path:
    """The directory of a finished encoder. Raises BadInput with one sentence for anything else."""
    name = f"{artifact.step}@{artifact.version}"
    if artifact.manifest() is None:
        raise BadInput(f"{name} is not finished: run its recipe again, which goes on with it.")
    folder = artifact.model_dir()
    if folder is None:
        raise BadInput(
            f"{name} holds tables and no model: `tercet export TABLE DEST` writes a table, "
            "`tercet export train DEST` an encoder."
        )
    if not (folder / "modules.json").is_file():
        raise BadInput(f"{name} holds files, but no sentence encoder: modules.json is missing.")
    return folder


def _table(store: Store, ref: str, target: Path, run_ref: str | None) -> None:
    from tercet.flows.exports.table import export_table

    rows = export_table(store, ref, target, run_ref)
    typer.echo(f"{rows:,} rows of {ref} lie in {target}; two lines load them:")
    typer.echo("  from datasets import load_dataset")
    typer.echo(f'  data = load_dataset({str(target)!r}, split="train")')


def _copy(
    store: Store,
    artifact: Artifact,
    source: Path,
    target: Path,
    run_ref: str | None,
    onnx: bool,
    int8: bool,
) -> dict[str, Any] | None:
    """The encoder's files, its ONNX files where asked, and the card; what was measured of ONNX."""
    from tercet.flows.cards.facts import run_of
    from tercet.flows.cards.model_card import model_card
    from tercet.flows.results.queries import connect

    run = run_of(store, artifact, run_ref)
    measured = None
    with (
        closing(connect(store, None if run is None else run["run_id"])) as connection,
        whole_directory(target) as aside,
    ):
        _copy_tree(source, aside)
        if onnx or int8:
            from tercet.flows.exports.onnx import add_onnx

            measured = add_onnx(aside, connection, full=onnx, int8=int8)
        card = model_card(artifact, source, run, connection, measured)
        (aside / "README.md").write_text(card, encoding="utf-8")
    return measured


def _copy_tree(source: Path, aside: Path) -> None:
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        place = aside / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
