"""Makes one part of an artifact: reads its inputs, calls the stage's function, commits."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa

from tercet.flows.pipeline import fingerprints
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.names import Made, Model, Tagged, Weights
from tercet.flows.running import parts
from tercet.flows.running.parts import PartFile, Slot
from tercet.storage import fingerprint
from tercet.storage.artifacts import Artifact, open_artifact
from tercet.storage.part_writer import PartWriter, put_schema
from tercet.storage.store import Store
from tercet.tasks.stage import REJECTS, BadInput, Loaded, Planned, Resources, Work

Progress = Callable[[int, int | None, str], None]

# Prefix of the folders in an artifact's scratch that hold the files of one attempt at a part.
STAGING = "staging-"


@dataclass(frozen=True)
class Part:
    """One entry of an artifact's plan, with its result's key and its record's contents."""

    index: int
    entry: Mapping[str, Any]
    driving: PartFile | None
    key: str
    info: dict[str, Any]


@dataclass(frozen=True)
class PartOrder:
    """The data that all parts of a step share. run: the id of the run that makes them."""

    store: Store
    step: Step
    version: str
    seed: int
    components: Mapping[str, Any]
    inputs: Mapping[str, Slot]
    schemas: Mapping[str, Mapping[str, pa.Schema]]
    models: Mapping[str, Path]
    model_digests: Mapping[str, str]
    resources: Resources
    run: str = ""
    loaded: Loaded = field(default_factory=Loaded)

    def artifact(self) -> Artifact:
        return open_artifact(self.store, self.step.name, self.version)

    @cached_property
    def empty(self) -> dict[str, dict[str, str]]:
        """By slot, a file without rows for each table, so that empty inputs have their columns."""
        return {
            slot: {
                table: str(self.store.local(put_schema(self.store, schema)))
                for table, schema in {**tables, parts.UNREAD: REJECTS}.items()
            }
            for slot, tables in self.schemas.items()
        }

    @cached_property
    def driving(self) -> dict[str, PartFile]:
        """The files that parts are made from, by digest."""
        return parts.driving_files(self.step, self.inputs)

    @cached_property
    def model_contents(self) -> dict[str, str]:
        """By slot, what stands for a model in the keys of parts.

        A model that a step made again with the same files makes the same rows. Stages that map no
        parts may note its version in their rows.
        """
        contents = dict(self.model_digests)
        for slot, model in self.step.models.items():
            if isinstance(model, Made) and self.step.stage.each is not None:
                records = open_artifact(self.store, model.step, contents[slot]).records().values()
                files = [file for record in records for file in record["files"]]
                if files:
                    # artifacts/STEP/VERSION/files/UNIQUE/…
                    contents[slot] = fingerprint.digest(
                        [(file["path"].split("/", 5)[-1], file["digest"]) for file in files]
                    )
        return contents

    def planned_specs(self) -> list[dict[str, Any]] | None:
        """The specs into which the stage itself divides its work; None if it does not."""
        cut = self.step.stage.cut
        if not isinstance(cut, Planned):
            return None
        scratch = self.artifact().scratch()
        work = self.work(
            parts.reads(self.step, self.inputs, None),
            {},
            scratch,
            lambda table, rows: None,
            self.resources,
        )
        return cut.specs(work)

    def part(self, index: int, entry: Mapping[str, Any]) -> Part:
        """A part of the plan, with its key."""
        driving = self.driving[entry["source"]] if "source" in entry else None
        contents = parts.contents(self.step, self.inputs, driving)
        key = fingerprints.part_key(self.components, self.model_contents, contents, dict(entry))
        origins = [] if driving is None else sorted(set(driving.family))
        return Part(index, entry, driving, key, {"origins": origins})

    def work(
        self,
        reads: Mapping[str, Sequence[PartFile]],
        spec: Mapping[str, Any],
        scratch: Path,
        emit: Callable[[str, pa.Table], None],
        resources: Resources,
    ) -> Work:
        return Work(
            stage=self.step.stage.name,
            config=self.step.config,
            seed=self.seed,
            inputs=parts.rows(reads, self.empty, partial(self.store.each, self.store.local)),
            models=self.models,
            spec=spec,
            resources=resources,
            scratch=scratch,
            emit=emit,
            loaded=self.loaded,
        )


def model_folder(store: Store, step: Step, model: Model, version: str) -> Path:
    """Where a model that the step reads lies, in this version. Raises BadInput."""
    if isinstance(model, Weights):
        return fingerprints.model_path(model.name)
    if isinstance(model, Tagged):
        # The version that the tag named when the run began: the tag may have moved since.
        folder, name = fingerprints.made_model(store, version), f"tag:{model.name}"
    else:
        folder, name = open_artifact(store, model.step, version).model_dir(), model.step
    if folder is None:
        raise BadInput("lost", f"{name} left no model for {step.name!r}.")
    return folder


def commit_part(
    order: PartOrder, part: Part, progress: Progress, apart: Path | None = None
) -> None:
    """Makes and commits one part.

    apart: a folder for this attempt's scratch files, which the next attempt does not find.
    """
    artifact = order.artifact()
    scratch = apart or artifact.scratch() / f"part-{part.index:05d}"
    scratch.mkdir(parents=True, exist_ok=True)
    # Only this attempt uses this folder, even if another process makes the same part; the stage
    # manages its scratch files.
    staging = Path(mkdtemp(prefix=STAGING, dir=apart or artifact.scratch()))
    resources = replace(order.resources, progress=progress)
    reads = parts.reads(order.step, order.inputs, part.driving)
    schemas = {**order.step.stage.tables, "rejects": REJECTS}
    with PartWriter(staging, schemas, order.resources.part_rows) as writer:
        work = order.work(reads, part.entry["spec"], scratch, writer.emit, resources)
        folder = None if part.entry.get("empty") else order.step.stage.run(work)
        staged = writer.close(folder)
    _unchanged(order)
    artifact.commit(part.index, staged, part.key, part.info)
    shutil.rmtree(staging, ignore_errors=True)
    progress(1, 1, "parts")


def _unchanged(order: PartOrder) -> None:
    """Raises BadInput if a file named in the recipe has changed since the run began."""
    digests = fingerprints.external_digests(order.step, order.store)
    changed = [
        name for name, digest in digests.items() if digest != order.components["externals"][name]
    ]
    if changed:
        raise BadInput(
            "gone",
            f"The file behind {order.step.name}'s {changed[0]!r} changed during the run: run again "
            "to rebuild what depends on it.",
        )
