"""A training's newest checkpoint in the bucket: another machine goes on from it.

    artifacts/<step>/<version>/files/checkpoint/newest.json     path in the scratch to object
                                                <unique>/…      the files

Checkpoints lie in the part's scratch on this machine; a store in a directory has no copy of them.
The copy in a bucket is deleted when the artifact is finished, or with the artifact.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from tercet.flows.running.one_part import STAGING
from tercet.storage.artifacts import Artifact
from tercet.storage.objects import Folder
from tercet.storage.store import StoreError, clear_errors, json_bytes

SECONDS = 600.0
_PARTS = "part-*"
# A folder of this name holds a whole checkpoint (`tercet.models.training.checkpoints`).
_CHECKPOINTS = "checkpoint-*"


@contextmanager
def kept_in_bucket(artifact: Artifact, say: Callable[[str], None]) -> Iterator[None]:
    """While a step trains: fetches a checkpoint if none is here, and uploads newer checkpoints."""
    if isinstance(artifact.store.objects, Folder):
        yield
        return
    standing = _fetch(artifact, say)
    done = threading.Event()
    threading.Thread(target=_keep, args=(artifact, standing, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()
    for path in artifact.store.stats(_folder(artifact)):
        artifact.store.delete(path)


def _fetch(artifact: Artifact, say: Callable[[str], None]) -> dict[str, str]:
    """Puts the bucket's checkpoint into the scratch if there is none; returns its files.

    An incomplete checkpoint is ignored.
    """
    store, scratch = artifact.store, artifact.scratch()
    newest: dict[str, str] = store.get_json(f"{_folder(artifact)}/newest.json") or {}
    if not newest or any(scratch.glob(f"{_PARTS}/**/{_CHECKPOINTS}")):
        return newest
    with TemporaryDirectory(prefix=STAGING, dir=scratch) as aside, clear_errors(store.location):
        try:
            fetched = store.each(
                lambda path: store.objects.local(path, Path(aside)), newest.values()
            )
        except FileNotFoundError:
            return {}
        for name, file in zip(newest, fetched, strict=True):
            place = Path(aside, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            file.rename(place)
        for part in Path(aside).glob(_PARTS):
            shutil.rmtree(scratch / part.name, ignore_errors=True)
            part.rename(scratch / part.name)
    say(f"{artifact.step:<32} goes on from the checkpoint in {store.location}")
    return newest


def _keep(artifact: Artifact, standing: dict[str, str], done: threading.Event) -> None:
    while not done.wait(SECONDS):
        # A failed upload costs nothing but the time of another machine.
        with suppress(StoreError, OSError):
            standing = _put(artifact, standing, done)


def _put(artifact: Artifact, standing: dict[str, str], done: threading.Event) -> dict[str, str]:
    """Uploads the newest checkpoints in place of `standing`; returns their files."""
    store, scratch, unique = artifact.store, artifact.scratch(), uuid4().hex[:12]
    with TemporaryDirectory(prefix=STAGING, dir=scratch) as aside:
        newest = {}
        for name in _linked(scratch, Path(aside)):
            # A name stands for one content for ever, so a file that the bucket has is not sent
            # again.
            newest[name] = standing.get(name) or f"{_folder(artifact)}/{unique}/{name}"
            if name not in standing and not done.is_set():
                store.put_file(newest[name], Path(aside, name))
    if done.is_set() or newest == standing:
        return standing
    store.replace(f"{_folder(artifact)}/newest.json", json_bytes(newest))
    for path in {*standing.values()} - {*newest.values()}:
        store.delete(path)
    return newest


def _linked(scratch: Path, aside: Path) -> list[str]:
    """Names of the files of the newest checkpoints, and of what lies beside these, linked aside.

    Raises FileNotFoundError if they were replaced meanwhile.
    """
    # This import is large; a training loads it anyway.
    from tercet.models.training.checkpoints import latest

    names = []
    for folder in {path.parent for path in scratch.glob(f"{_PARTS}/**/{_CHECKPOINTS}")}:
        newest = latest(folder)
        if newest is None:
            continue
        beside = [path for path in folder.glob("*.safetensors") if path.is_file()]
        for path in [*newest.iterdir(), *beside]:
            name = path.relative_to(scratch)
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            os.link(path, aside / name)
            names.append(name.as_posix())
        if latest(folder) != newest:
            raise FileNotFoundError(newest)
    return names


def _folder(artifact: Artifact) -> str:
    return f"{artifact.path}/files/checkpoint"
