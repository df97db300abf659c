"""How a step's work is cut into parts, and what each part reads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tercet.flows.pipeline.step import Step
from tercet.storage import fingerprint
from tercet.storage.artifacts import Artifact
from tercet.storage.rows import Rows
from tercet.storage.store import Store

# Rejects tell of rows that went nowhere: no stage reads them.
UNREAD = "rejects"


@dataclass(frozen=True)
class PartFile:
    """One Parquet file of an input table, and what it descends from.

    digest: of the file's content. origins: digests of the files it was made from, at any depth.
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
    """The files of one input slot, indexed so that ten thousand parts find theirs at once.

    content: digest of what a part that reads all of it depends on.
    related: file digest to the places of the files that are this file or descend from it.
    """

    files: tuple[PartFile, ...]
    content: str
    related: Mapping[str, tuple[int, ...]]

    def aligned(self, driving: PartFile) -> list[PartFile]:
        """The files that share an origin with the driving one, in order."""
        places = {place for digest in driving.family for place in self.related.get(digest, ())}
        return [self.files[place] for place in sorted(places)]


def slot(name: str, files: Sequence[PartFile]) -> Slot:
    """A slot of these files. One that has a table's name is read for that table alone."""
    related: dict[str, list[int]] = {}
    for place, file in enumerate(files):
        for digest in file.family:
            related.setdefault(digest, []).append(place)
    content = fingerprint.digest(_contents(name, files))
    return Slot(tuple(files), content, {d: tuple(p) for d, p in related.items()})


def input_files(store: Store, artifacts: Iterable[Artifact]) -> list[PartFile]:
    """All files of these artifacts, in the order of their records."""
    files = []
    for artifact in artifacts:
        for _, record in sorted(artifact.records().items()):
            origins = tuple(record["info"].get("origins", ()))
            for table, entries in record["tables"].items():
                for entry in entries:
                    path = str(store.local(entry["path"]))
                    files.append(PartFile(table, path, entry["digest"], origins))
    return files


def driving_files(step: Step, inputs: Mapping[str, Slot]) -> dict[str, PartFile]:
    """The files that the parts of a mapping stage are made from, one a part, by digest."""
    each = step.stage.each
    if each is None:
        return {}
    return {f.digest: f for f in inputs[each].files if f.table == each}


def part_inputs(
    step: Step, inputs: Mapping[str, Slot], driving: PartFile | None
) -> tuple[dict[str, Sequence[PartFile]], dict[str, str]]:
    """What one part reads, and the digest of that, by slot.

    All of every slot; of `each` and the aligned slots only its own share.
    """
    reads: dict[str, Sequence[PartFile]] = {}
    contents: dict[str, str] = {}
    for name, whole in inputs.items():
        if driving is not None and name == step.stage.each:
            reads[name] = [driving]
        elif driving is not None and name in step.stage.aligned:
            reads[name] = whole.aligned(driving)
        else:
            reads[name], contents[name] = whole.files, whole.content
            continue
        contents[name] = fingerprint.digest(_contents(name, reads[name]))
    return reads, contents


def rows(
    reads: Mapping[str, Sequence[PartFile]], empty: Mapping[str, Mapping[str, str]]
) -> dict[str, Rows]:
    """Readers a slot; `empty` gives, for each slot, a file without rows for each table."""
    readers = {}
    for name, files in reads.items():
        tables: dict[str, list[str]] = {table: [] for table in empty[name]}
        for file in files:
            tables.setdefault(file.table, []).append(file.path)
        readers[name] = Rows({t: tuple(p) or (empty[name][t],) for t, p in tables.items()})
    return readers


def specs(
    step: Step,
    planned: Sequence[Mapping[str, Any]] | None,
    inputs: Mapping[str, Slot],
    known: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The plan of an artifact, in JSON's types: one entry a part.

    planned: what the stage itself cut its work into. known: earlier versions that it recalls.
    Work that comes to nothing is one empty part, so that its tables exist all the same.
    """
    entries: list[dict[str, Any]]
    if planned is not None:
        recalled = {"known": list(known)} if known else {}
        entries = [{"spec": dict(spec), **recalled} for spec in planned]
    elif step.stage.each is None:
        entries = [{"spec": {}}]
    else:
        entries = [{"spec": {}, "source": digest} for digest in driving_files(step, inputs)]
    return entries or [{"spec": {}, "empty": True}]


def _contents(name: str, files: Sequence[PartFile]) -> list[str]:
    own = [f for f in files if f.table == name]
    chosen = own or [f for f in files if f.table != UNREAD]
    return [f"{f.table}:{f.digest}" for f in chosen]
