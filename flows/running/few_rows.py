"""A warning before a training that has too few rows to teach anything."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tercet.flows.pipeline.step import Step
from tercet.storage.artifacts import Artifact
from tercet.storage.rows import joined
from tercet.tasks.corpus.splits import SPLITS
from tercet.tasks.training.phases import OF_TRIPLETS, PartConfig, RowsConfig
from tercet.tasks.training.train import TrainConfig

FEW_BATCHES = 8
# What to do about a reason for which `select` left out candidates, or `ingest` pairs.
MENDS: Mapping[str, str] = {
    "below_positive_min": "lower select.positive_min",
    "above_negative_max": "raise select.negative_max",
    "below_negative_min": "lower select.negative_min",
    "no_pair": "list methods for the other role under synthesise, or train on rows: anchors",
    "held_out_text": "lower ingest.test",
    "shared_with_test": "lower ingest.test",
    "like_test": "lower ingest.test",
    "shared_with_dev": "lower ingest.dev",
    "like_dev": "lower ingest.dev",
}
_PAIRS = "document_pairs"


def warning(step: Step, artifact_of: Callable[[str], Artifact]) -> str | None:
    """One sentence if the rows of some part fill fewer than eight batches, else None.

    Parts without a share of the batch fill it together.
    artifact_of: the finished artifact of a step's name.
    """
    if not isinstance(step.config, TrainConfig):
        return None
    phase = step.config.phase
    shared = [(part.share, [part]) for part in phase.parts if part.share is not None]
    others = [part for part in phase.parts if part.share is None]
    for share, parts in [*shared, *([(1.0, others)] if others else [])]:
        rows = sum(_rows(part.rows, step, artifact_of) for part in parts)
        size = max(round(share * phase.batch_size), 1)
        if rows < FEW_BATCHES * size:
            return _said(step, parts, rows, size, artifact_of)
    return None


def _said(
    step: Step,
    parts: Sequence[PartConfig],
    rows: int,
    size: int,
    artifact_of: Callable[[str], Artifact],
) -> str:
    sources = list(dict.fromkeys(part.rows.source.replace("_", " ") for part in parts))
    said = (
        f"{step.name}: there are only {rows:,} {' and '.join(sources)} for "
        f"{' and '.join(part.name for part in parts)}, {rows / size:.1f} batches of {size}, which "
        "teach an encoder little"
    )
    reasons, left_out = Counter[str](), "Candidates"
    if any(part.rows.source in OF_TRIPLETS for part in parts):
        reasons = _reasons(step, artifact_of)
    elif any(part.rows.source == _PAIRS for part in parts):
        reasons, left_out = _pairs_left_out(step, artifact_of), "Pairs"
    only_pairs = all(part.rows.source == _PAIRS for part in parts)
    more = "add text" if only_pairs else "add text or raise sample.rows"
    if not reasons:
        return f"{said}: {more}."
    common = [reason for reason, _ in reasons.most_common(3)]
    listed = ", ".join(f"{reason} {reasons[reason]:,}" for reason in common)
    mends = [MENDS[reason] for reason in common if reason in MENDS][:1]
    return f"{said}. {left_out} were left out as {listed}: {', or '.join([*mends, more])}."


def _rows(config: RowsConfig, step: Step, artifact_of: Callable[[str], Artifact]) -> int:
    """The rows that a part takes, apart from those that the guard leaves out."""
    source = config.source
    slot = source if source in ("anchors", _PAIRS) else "labelled"
    slot = "triplets" if source in OF_TRIPLETS else slot
    made = joined([artifact_of(name).rows() for name in step.inputs[slot]])
    if slot == "triplets":
        table = made.table("triplets", ["sentence_id", "relation"])
        if config.relation:
            table = table.filter(pc.is_in(table["relation"], pa.array(config.relation)))
        return len(table["sentence_id"].unique()) if config.one_per else table.num_rows
    if slot == "anchors":
        table = made.table("anchor_shares", ["corpus", "anchors"])
        if config.corpora:
            table = table.filter(pc.is_in(table["corpus"], pa.array(config.corpora)))
        return int(pc.sum(table["anchors"]).as_py() or 0)
    column, wanted = ("split", "train") if slot == _PAIRS else ("corpus", source)
    values = made.table(slot, [column])[column]
    return int(pc.sum(pc.equal(values, wanted)).as_py() or 0)


def _reasons(step: Step, artifact_of: Callable[[str], Artifact]) -> Counter[str]:
    """How often `select` left out a candidate, by reason; what it could spare is not counted."""
    found = Counter[str]()
    for name in step.inputs["triplets"]:
        reasons = artifact_of(name).rows().table("rejects", ["reason"])["reason"].value_counts()
        found.update({entry["values"]: entry["counts"] for entry in reasons.to_pylist()})
    for reason in ("surplus", "unused_fallback"):
        found.pop(reason, None)
    return found


def _pairs_left_out(step: Step, artifact_of: Callable[[str], Artifact]) -> Counter[str]:
    """How many natural pairs `ingest` left out, by reason."""
    found = Counter[str]()
    for name in step.inputs[_PAIRS]:
        for row in artifact_of(name).rows().table("corpus_outcomes").to_pylist():
            if row["unit"] == "pair" and row["outcome"] not in SPLITS:
                found[row["outcome"]] += row["n"]
    return found
