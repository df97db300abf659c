"""`tercet export`: copies an encoder or a table to a directory that works without Tercet."""

import os
import shlex
import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import typer

from tercet.errors import kind_of
from tercet.flows.cards.facts import find_run
from tercet.flows.cards.model_card import model_card
from tercet.flows.exports import graphml
from tercet.flows.exports.beir import export_beir
from tercet.flows.exports.onnx import add_onnx, check_installed, list_measurements
from tercet.flows.exports.table import export_table, is_table
from tercet.flows.exports.writing import check_free, whole_directory
from tercet.flows.results.encoder_form import (
    Reformed,
    how_to_load,
    measured_form,
    older_files,
    reformed,
    runs_own_code,
    versions,
)
from tercet.flows.results.queries import check_finished, connect, find_artifact
from tercet.flows.results.search import open_passages
from tercet.flows.results.subject import Subject
from tercet.flows.results.verdict import verdict_of
from tercet.flows.terminal.failures import StageFailed
from tercet.models.encoders.settings import FormSettings
from tercet.storage import runs
from tercet.storage.artifacts import Artifact, open_artifact
from tercet.storage.runs import UnknownRef
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import BadInput

SUFFIX = ".graphml"
BEIR, SEARCH = "beir", "search"
# Endings of files that an export never writes: a directory with such a name would pass for a file.
FOREIGN = (".csv", ".json", ".jsonl", ".onnx", ".parquet", ".safetensors", ".tsv", ".zip")


def export(
    ref: str,
    destination: str,
    store: str,
    run_ref: str | None,
    onnx: bool = False,
    int8: bool = False,
    push: str | None = None,
    public: bool = False,
    anyway: bool = False,
) -> None:
    """Writes an encoder or a table to a new directory with its card, and uploads it if asked; a
    knowledge graph to a file, if the destination ends in .graphml; for `beir` a folder of queries,
    for `search` one that searches without Tercet.

    Raises: BadInput when the ref is neither a finished encoder nor a table, or the destination
        exists; StageFailed when the upload failed.
    """
    opened = open_store(store, create=False)
    if destination.lower().endswith(SUFFIX):
        _check_alone(f"A {SUFFIX} file", onnx, int8, public, push is not None)
        _graph(_of_graph(opened, ref, run_ref), Path(destination).expanduser())
        return
    if ref.partition("@")[0] != "graph" and Path(destination).suffix.lower() in FOREIGN:
        raise BadInput(
            "bad_value",
            f"{destination} is named like a file, but an export is a directory: leave its ending "
            "out, or write a table's rows to a file with `tercet sql 'FROM TABLE' -o FILE`.",
        )
    if ref == BEIR:
        _check_alone(BEIR, onnx, int8, public, push is not None)
        _beir(opened, Path(destination).expanduser(), run_ref)
        return
    if ref == SEARCH:
        _check_alone(SEARCH, onnx, int8, public, push is not None)
        _search(opened, Path(destination).expanduser(), run_ref, anyway)
        return
    kind: Literal["model", "dataset"] = "dataset" if is_table(opened, ref) else "model"
    if kind == "dataset" and (onnx or int8):
        raise BadInput(
            "no_effect", f"--onnx and --int8 apply to encoders only, but {ref} is a table."
        )
    if public and push is None:
        raise BadInput("missing_key", "--public needs --push REPO.")
    target = Path(destination).expanduser()
    check_free(target)
    if push is not None:
        check_push(push)
    if kind == "dataset":
        _table(opened, ref, target, run_ref)
    else:
        export_model(ref, destination, store, run_ref, onnx, int8, anyway)
    if push is not None:
        address = push_folder(target, push, kind, public)
        typer.echo(f"Uploaded to {address}" + ("" if public else " (private)"))


def _check_alone(what: str, *options: object) -> None:
    if any(options):
        raise BadInput("no_effect", f"{what} takes no --onnx, --int8, --push or --public.")


def export_model(
    ref: str,
    destination: str,
    store: str,
    run_ref: str | None,
    onnx: bool = False,
    int8: bool = False,
    anyway: bool = False,
) -> None:
    """Copies an encoder and its card to a new directory, which appears complete or not at all.

    anyway: also one that is worse than the untouched encoder, without asking.
    Raises: BadInput when the ref is not a finished encoder or the destination exists, and for a
        worse encoder where nobody can be asked.
    """
    opened = open_store(store, create=False)
    try:
        artifact = find_artifact(opened, ref, run_ref)
    except UnknownRef:
        if ref != "train" or run_ref is not None:
            raise
        raise BadInput(
            "not_reached",
            "No run in this store has trained yet: `tercet run RECIPE` makes an encoder.",
        ) from None
    if artifact.step == "graph":
        raise BadInput(
            "bad_value",
            f"The knowledge graph is written to a file: name one that ends in {SUFFIX}.",
        )
    source = encoder_dir(artifact)
    if not anyway:
        _check_verdict(find_run(opened, artifact, run_ref))
    target = Path(destination).expanduser()
    if onnx or int8:
        check_installed()
        typer.echo("Writing and measuring the ONNX files takes a few minutes.", err=True)
    measured, other = _copy(opened, artifact, source, target, run_ref, onnx, int8)
    needed = f"sentence-transformers {versions(target)}"
    typer.echo(f"{artifact.name} is in {target}. To load it with {needed}:")
    typer.echo("\n".join(f"  {line}" for line in how_to_load(target)))
    if other is not None:
        typer.echo(
            f"It was trained with pooling {other.trained} but evaluated with "
            f"{other.measured}; the directory has the latter."
        )
    if (later := _later(opened, artifact, run_ref)) is not None:
        before = "whitening" if later.partition(".")[0] == "whiten" else "the choice"
        typer.echo(
            f"This is the encoder before {before}. The run ended with another one: "
            f"`tercet export {later} DEST` writes that."
        )
    if measured is not None:
        typer.echo("\n".join(list_measurements(measured)))


def _check_verdict(run: runs.Run | None) -> None:
    """Asks before a worse encoder is exported. Raises BadInput without a terminal."""
    verdict = None if run is None else verdict_of(run["end_info"])
    if verdict is None or verdict.word != "worse":
        return
    if not sys.stdin.isatty():
        raise BadInput("refused", f"{verdict.sentence()} To export it all the same: --anyway.")
    typer.confirm(f"{verdict.sentence()} Export it all the same?", abort=True)


def _later(store: Store, artifact: Artifact, run_ref: str | None) -> str | None:
    """The run's step that whitened this very encoder or chose after it; None without one."""
    run = find_run(store, artifact, run_ref)
    for entry in [] if run is None else run["steps"]:
        if entry["stage"] in ("whiten", "choose") and entry.get("version") is not None:
            manifest = open_artifact(store, entry["step"], entry["version"]).manifest()
            if manifest is not None and artifact.version in manifest["inputs"]:
                return str(entry["step"])
    return None


def encoder_dir(artifact: Artifact) -> Path:
    """The directory of a finished encoder. Raises BadInput for anything else."""
    folder = model_dir(artifact)
    if not (folder / "modules.json").is_file():
        raise BadInput(
            "unfit_model", f"{artifact.name} is not a sentence encoder: modules.json is missing."
        )
    return folder


def model_dir(artifact: Artifact) -> Path:
    """The directory of a finished model of any kind. Raises BadInput where there is none."""
    check_finished(artifact)
    folder = artifact.model_dir()
    if folder is None:
        raise BadInput(
            "unfit_model",
            f"{artifact.name} contains tables, not a model: `tercet export TABLE DEST` writes a "
            "table, `tercet export train DEST` an encoder.",
        )
    return folder


def _of_graph(store: Store, ref: str, run_ref: str | None) -> Artifact:
    """The artifact that `ref` names. Raises BadInput if `ref` is the graph and there is none."""
    run = None if run_ref is None else runs.resolve_run(store, run_ref)["run_id"]
    try:
        return find_artifact(store, ref, run)
    except (BadInput, UnknownRef):
        if ref != "graph":
            raise
        raise BadInput(
            "not_reached",
            f"{'This store' if run is None else f'Run {run}'} has no knowledge graph: a run makes "
            "one where its recipe reads it, or with `tercet run RECIPE --until graph`.",
        ) from None


def _graph(artifact: Artifact, target: Path) -> None:
    nodes, edges, whole = graphml.write_graphml(artifact, target)
    typer.echo(f"{nodes:,} nodes and {edges:,} edges of the knowledge graph are in {target}.")
    if not whole:
        typer.echo(
            f"The graph was too large to write whole: the file has at most the {graphml.NODES:,} "
            f"most mentioned entities and the {graphml.EDGES:,} most frequent edges between them."
        )


def _beir(store: Store, target: Path, run_ref: str | None) -> None:
    written = export_beir(store, target, run_ref)
    counts = ", ".join(f"{count:,} of {split}" for split, count in sorted(written.judged.items()))
    documents = {"passage": "passages", "document": "rows", "file": "files"}[written.unit]
    typer.echo(
        f"{written.documents:,} {documents} of run {written.run['run_id']} are in {target}, with "
        f"queries: {counts}."
    )
    if written.unit != "passage":
        typer.echo(
            f"The questions name {documents}, so each is one document here, of which an encoder "
            "reads the beginning; in the run it ranks where its best passage does."
        )
    if "test" in written.judged:
        typer.echo(f"To measure an encoder on them: tercet eval MODEL --beir {target}")


def _search(store: Store, target: Path, run_ref: str | None, anyway: bool) -> None:
    # This import loads torch.
    from tercet.flows.exports.search_folder import export_search

    check_free(target)
    passages = open_passages(store, run_ref)
    if not anyway:
        _check_verdict(passages.run)
    count = export_search(store, passages, target)
    typer.echo(
        f"{count:,} passages of run {passages.run['run_id']} are in {target}, with their encoder, "
        "vectors and BM25 index. To search in them without Tercet:"
    )
    typer.echo("  pip install sentence-transformers 'bm25s[stem]'")
    typer.echo(f"  python {target / 'search.py'} 'what to find'")


def _table(store: Store, ref: str, target: Path, run_ref: str | None) -> None:
    rows = export_table(store, ref, target, run_ref)
    typer.echo(f"{rows:,} rows of {ref} are in {target}. To load them:")
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
) -> tuple[dict[str, Any] | None, Reformed | None]:
    """Writes the encoder as it was evaluated, its ONNX files if asked, and the card.

    Returns the ONNX measurements, and both forms if training used another form.
    """
    run = find_run(store, artifact, run_ref)
    measured = None
    with (
        closing(connect(store, None if run is None else run["run_id"])) as connection,
        whole_directory(target) as aside,
    ):
        form, trust = measured_form(store, run, artifact), runs_own_code(artifact)
        other = reformed(source, form)
        if other is None:
            _copy_named(artifact, source, aside)
        else:
            _write_in(form, artifact, source, aside, trust)
        if onnx or int8:
            measured = add_onnx(aside, connection, full=onnx, int8=int8, trust_remote_code=trust)
        subject = None if run is None else Subject(store, run, "run", connection)
        card = model_card(artifact, aside, subject, measured, other)
        (aside / "README.md").write_text(card, encoding="utf-8")
        for name, content in (older_files(aside) or {}).items():
            (aside / name).write_text(content, encoding="utf-8")
    return measured, other


def _copy_named(artifact: Artifact, source: Path, aside: Path, below: str = "") -> None:
    """Copies only the files that the artifact's record names, which were compared with it:
    a link that somebody put beside them is not followed.
    """
    for record in artifact.records().values():
        for file in record["files"]:
            name = artifact.store.local(file["path"]).relative_to(source)
            if name.as_posix().startswith(below):
                (aside / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / name, aside / name)


def _write_in(
    form: FormSettings, artifact: Artifact, source: Path, aside: Path, trust: bool
) -> None:
    from tercet.models.encoders.encoder import load_encoder, save_encoder

    try:
        model = load_encoder(source, form.pooling, prompt=form.prompt, trust_remote_code=trust)
    except ValueError as error:
        raise BadInput(kind_of(error, "unfit_model"), str(error)) from error
    save_encoder(model, aside)
    # Modules that a loss kept beside the encoder.
    _copy_named(artifact, source, aside, "losses/")


TOKEN = "HF_TOKEN"


def check_push(repository: str) -> None:
    """Raises BadInput, before any work, for a bad name, a missing token or offline mode."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(repository)
    except HFValidationError:
        raise BadInput(
            "bad_value", f"--push {repository!r} is not a hub repository: write OWNER/NAME."
        ) from None
    if constants.HF_HUB_OFFLINE:
        raise BadInput("unreachable", "--push needs the hub, but HF_HUB_OFFLINE is set: unset it.")
    if not os.environ.get(TOKEN):
        raise BadInput("refused", f"--push needs a token that may write: put it into {TOKEN}.")


def push_folder(
    folder: Path, repository: str, kind: Literal["model", "dataset"], public: bool
) -> str:
    """Uploads the directory in one commit, creating a private repository if there is none.

    Returns its address. Raises: StageFailed with the command that uploads it later; BadInput if
    the repository exists and is public but `public` is false.
    """
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi(token=os.environ[TOKEN])
    try:
        created = api.create_repo(repository, repo_type=kind, private=not public, exist_ok=True)
        if not public and not api.repo_info(created.repo_id, repo_type=kind).private:
            raise BadInput(
                "exists",
                f"{folder} is complete, but was not uploaded: {repository} already exists "
                "and is public. Name another, or pass --public.",
            )
        api.upload_folder(
            repo_id=created.repo_id,
            repo_type=kind,
            folder_path=folder,
            commit_message="Exported by Tercet",
        )
    except (HfHubHTTPError, httpx.HTTPError, OSError) as error:
        later = shlex.join(
            ["hf", "upload", repository, str(folder), "--repo-type", kind]
            + ([] if public else ["--private"])
        )
        raise StageFailed(
            "unreachable",
            f"{folder} is complete, but was not uploaded to {repository}: {_reason(error)}. "
            f"Later: {later}",
        ) from error
    return str(created)


def _reason(error: Exception) -> str:
    """The first line of the error, with the token removed if it contains it."""
    message = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return message.replace(os.environ.get(TOKEN) or "\0", "[token]")
