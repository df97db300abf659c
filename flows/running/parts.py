"""Divides a step's work into parts and finds the files that each part reads."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tercet.flows.pipeline.step import Step
from tercet.storage import fingerprint
from tercet.storage.artifacts import Artifact
from tercet.storage.rows import Rows
from tercet.tasks.stage import EachPart

# Rejects are dropped rows: no stage reads them.
UNREAD = "rejects"


@dataclass(frozen=True)
class PartFile:
    """One Parquet file of an input table, and the files that it was made from.

    path: in the store. digest: of the file's content. origins: digests of the files it was made
    from, at any depth.
    """

    table: str
    path: str
    digest: str
    origins: tuple[str, ...]

    @property
    def family(self) -> tuple[str, ...]:
        return (self.digest, *self.origins)


@dataclass(frozen=True)
class Slot:
    """The files of one input slot, indexed so that ten thousand parts find theirs quickly.

    content: the digest for a part that reads all of the slot, or looks up its own rows in it.
    related: file digest to the positions of that file and of the files that descend from it.
    """

    files: tuple[PartFile, ...]
    content: str
    related: Mapping[str, tuple[int, ...]]

    def aligned(self, driving: PartFile) -> list[PartFile]:
        """The files that share an origin with the driving one, in order."""
        places = {place for digest in driving.family for place in self.related.get(digest, ())}
        return [self.files[place] for place in sorted(places)]


def slot(name: str, files: Sequence[PartFile], content: str | None = None) -> Slot:
    """A slot of these files. content: what stands for theirs, if not all of it counts."""
    related: dict[str, list[int]] = {}
    for place, file in enumerate(files):
        for digest in file.family:
            related.setdefault(digest, []).append(place)
    content = content or fingerprint.digest(_contents(name, files))
    return Slot(tuple(files), content, {d: tuple(p) for d, p in related.items()})


def input_files(artifacts: Iterable[Artifact]) -> list[PartFile]:
    """All files of these artifacts, in the order of their records."""
    files = []
    for artifact in artifacts:
        for _, record in sorted(artifact.records().items()):
            origins = tuple(record["info"].get("origins", ()))
            for table, entries in record["tables"].items():
                for entry in entries:
                    files.append(PartFile(table, entry["path"], entry["digest"], origins))
    return files


def driving_files(step: Step, inputs: Mapping[str, Slot]) -> dict[str, PartFile]:
    """The files that drive the parts of a mapping stage, one per part, by digest."""
    each = step.stage.each
    if each is None:
        return {}
    return {f.digest: f for f in inputs[each].files if f.table == each}


def reads(
    step: Step, inputs: Mapping[str, Slot], driving: PartFile | None
) -> dict[str, Sequence[PartFile]]:
    """The files that one part reads, by slot.

    A part reads all files of a slot, but from `each` and aligned slots only its own file.
    """
    shares = {name: _share(step, name, whole, driving) for name, whole in inputs.items()}
    return {name: inputs[name].files if files is None else files for name, files in shares.items()}


def contents(step: Step, inputs: Mapping[str, Slot], driving: PartFile | None) -> dict[str, str]:
    """The digest of one part's inputs, by slot."""
    digests = {}
    for name, whole in inputs.items():
        files = _share(step, name, whole, driving)
        digests[name] = (
            whole.content if files is None else fingerprint.digest(_contents(name, files))
        )
    return digests


def _share(
    step: Step, name: str, whole: Slot, driving: PartFile | None
) -> Sequence[PartFile] | None:
    """A part's own files in a slot; None if it reads all of them."""
    cut = step.stage.cut
    if driving is None or not isinstance(cut, EachPart):
        return None
    if name == cut.slot:
        return [driving]
    return whole.aligned(driving) if name in cut.aligned else None


def rows(
    files_of: Mapping[str, Sequence[PartFile]],
    empty: Mapping[str, Mapping[str, str]],
    local: Callable[[Sequence[str]], Sequence[Path]],
) -> dict[str, Rows]:
    """Readers by slot of the tables that enter a part's key, so that a stage can read no other.

    empty: for each slot, a file without rows for each table, where it can be read. local: where
        files of the store can be.
    """
    readers = {}
    for name, files in files_of.items():
        tables: dict[str, list[str]] = {table: [] for table in _readable(name, empty[name])}
        read = [file for file in files if file.table in tables]
        for file, path in zip(read, local([file.path for file in read]), strict=True):
            tables[file.table].append(str(path))
        readers[name] = Rows({t: tuple(p) or (empty[name][t],) for t, p in tables.items()})
    return readers


def specs(
    step: Step,
    planned: Sequence[Mapping[str, Any]] | None,
    inputs: Mapping[str, Slot],
    recalled_versions: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The plan of an artifact in JSON types, one entry per part.

    planned: the stage's own division of its work. known: the earlier versions that it recalls.
    Without any work the plan has one empty part, so that the tables exist.
    """
    entries: list[dict[str, Any]]
    if planned is not None:
        recalled = {"known": list(recalled_versions)} if recalled_versions else {}
        entries = [{"spec": dict(spec), **recalled} for spec in planned]
    elif step.stage.each is None:
        entries = [{"spec": {}}]
    else:
        entries = [{"spec": {}, "source": digest} for digest in driving_files(step, inputs)]
    return entries or [{"spec": {}, "empty": True}]


def _contents(name: str, files: Sequence[PartFile]) -> list[str]:
    tables = _readable(name, {file.table for file in files})
    return [f"{f.table}:{f.digest}" for f in files if f.table in tables]


def _readable(name: str, tables: Collection[str]) -> set[str]:
    """The slot's tables that a stage may read: if one has the slot's name, only that."""
    return {name} if name in tables else set(tables) - {UNREAD}
