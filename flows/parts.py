"""How a step's work is cut into parts, and what each part reads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tercet.flows.steps import Step
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
    def family(self) -> frozenset[str]:
        return frozenset((self.digest, *self.origins))


Inputs = Mapping[str, Sequence[PartFile]]


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


def driving_files(step: Step, inputs: Inputs) -> list[PartFile]:
    """The files that the parts of a mapping stage are made from, one a part."""
    assert step.stage.each is not None
    return [f for f in inputs[step.stage.each] if f.table == step.stage.each]


def part_inputs(step: Step, inputs: Inputs, driving: PartFile | None) -> dict[str, list[PartFile]]:
    """What one part reads: all of every slot, or of `each` and the aligned slots its own share."""
    if driving is None:
        return {slot: list(files) for slot, files in inputs.items()}
    shares: dict[str, list[PartFile]] = {}
    for slot, files in inputs.items():
        if slot == step.stage.each:
            shares[slot] = [driving]
        elif slot in step.stage.aligned:
            shares[slot] = [f for f in files if f.family & driving.family]
        else:
            shares[slot] = list(files)
    return shares


def contents(inputs: Inputs) -> dict[str, list[str]]:
    """What the key of a part takes from its inputs: the digests of the tables of each slot.

    A slot that has a table's name reads that table alone.
    """
    said = {}
    for slot, files in inputs.items():
        own = [f for f in files if f.table == slot]
        chosen = own or [f for f in files if f.table != UNREAD]
        said[slot] = [f"{f.table}:{f.digest}" for f in chosen]
    return said


def rows(inputs: Inputs, empty: Mapping[str, Mapping[str, str]]) -> dict[str, Rows]:
    """Readers a slot; `empty` gives, for each slot, a file without rows for each table."""
    readers = {}
    for slot, files in inputs.items():
        tables: dict[str, tuple[str, ...]] = dict.fromkeys(empty[slot], ())
        for file in files:
            tables[file.table] = (*tables.get(file.table, ()), file.path)
        filled = {t: paths or (empty[slot][t],) for t, paths in tables.items()}
        readers[slot] = Rows(filled)
    return readers


def origins(driving: PartFile | None) -> list[str]:
    """What a part's record says of its descent."""
    return [] if driving is None else sorted(driving.family)


def specs(
    step: Step,
    planned: Sequence[Mapping[str, Any]] | None,
    inputs: Inputs,
    known: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The plan of an artifact, in JSON's types: one entry a part.

    planned: what the stage itself cut its work into. known: earlier versions that it recalls.
    """
    if planned is not None:
        recalled = {"known": list(known)} if known else {}
        return [{"spec": dict(spec), **recalled} for spec in planned]
    if step.stage.each is None:
        return [{"spec": {}}]
    return [{"spec": {}, "source": f.digest} for f in driving_files(step, inputs)]
