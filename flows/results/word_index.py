"""The BM25 index of a run's passages, kept in the store's work directory."""

import os
import shutil
import uuid
from contextlib import suppress
from importlib import metadata

from tercet.models.retrieval import bm25
from tercet.models.retrieval.bm25 import Bm25
from tercet.storage import code, fingerprint
from tercet.storage.artifacts import Artifact
from tercet.storage.store import Store
from tercet.tasks.retrieval.passage_vectors import read_texts


def open_index(store: Store, passages: Artifact) -> Bm25:
    """The index of these passages by their place in the table, built where there is none yet."""
    folder = store.work / "cache" / "bm25" / _key(store, passages)
    with suppress(OSError, ValueError):
        return bm25.load(folder)
    built = bm25.build(read_texts(passages.rows()))
    # A store that cannot be written to is searched all the same.
    with suppress(OSError):
        aside = store.work / "scratch" / f"bm25-{os.getpid()}-{uuid.uuid4().hex}"
        try:
            bm25.save(built, aside)
            shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            aside.rename(folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return built


def _key(store: Store, passages: Artifact) -> str:
    """Another one for other passages, and where words are read or counted in another way.

    It begins with the passages' version, with which it goes.
    """
    with code.remembered(store):
        modules = code.code_digests([bm25.__name__])
    own = fingerprint.digest({"code": modules, "bm25s": metadata.version("bm25s")})
    return f"{passages.version}-{own}"
