"""Rows that a language model failed to answer, and asking about them again.

A failed row is a reject of its artifact, which stays as it is. Asking again starts a new round of
the step. The round is part of the version, so the step and all later ones get new versions; answers
already in the pool are taken from there.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import pyarrow.compute as pc

from tercet.flows.pipeline import fingerprints
from tercet.flows.pipeline.fingerprints import Fingerprint
from tercet.flows.pipeline.step import Step
from tercet.storage import records
from tercet.storage.artifacts import Artifact, open_artifact
from tercet.storage.rows import rows_of
from tercet.storage.store import Store

FAILED = "failed"


def count(artifact: Artifact) -> int:
    """The number of failed rows in the existing parts."""
    found = 0
    for record in artifact.records().values():
        for file in record["tables"].get("rejects", ()):
            with suppress(FileNotFoundError):
                path = artifact.store.local(file["path"])
                reasons = rows_of({"rejects": [path]}).table("rejects", ["reason"])["reason"]
                found += pc.sum(pc.equal(reasons, FAILED)).as_py() or 0
    return found


def by_step(
    store: Store, steps: Sequence[Step], prints: Mapping[str, Fingerprint]
) -> dict[str, int]:
    """The steps with failed rows in their current version, and how many."""
    found = {}
    for step in steps:
        version = prints[step.name].version
        if step.stage.asks is not None and version is not None:
            found[step.name] = count(open_artifact(store, step.name, version))
    return {name: rows for name, rows in found.items() if rows}


def ask_again(
    store: Store, steps: Sequence[Step], prints: Mapping[str, Fingerprint]
) -> dict[str, int]:
    """Starts a new round of each step with failed rows; returns these steps and how many.

    The versions of these steps and of all later ones change.
    """
    failed = by_step(store, steps, prints)
    for name in failed:
        records.next_round(store, name, fingerprints.round_key(prints[name].components))
    return failed
