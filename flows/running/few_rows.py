"""A warning before a training that has too few rows to teach anything."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.threshold_keys import threshold_keys
from tercet.storage.artifacts import Artifact
from tercet.storage.rows import joined
from tercet.tasks.corpus.splits import SPLITS
from tercet.tasks.training.phases import OF_TRIPLETS, SOURCES, PartConfig
from tercet.tasks.training.train import TrainConfig

FEW_BATCHES = 8
# What to do about a reason for which `ingest` left out pairs, or `select` candidates.
MENDS: Mapping[str, str] = {
    "no_pair": "list methods for the other role under synthesise, or train on rows: anchors",
    "held_out_text": "lower ingest.test",
    "shared_with_test": "lower ingest.test",
    "like_test": "lower ingest.test",
    "shared_with_dev": "lower ingest.dev",
    "like_dev": "lower ingest.dev",
}
THRESHOLDS = {
    "below_positive_min": ("lower", "positive_min"),
    "above_negative_max": ("raise", "negative_max"),
    "below_negative_min": ("lower", "negative_min"),
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
        rows = sum(_rows(part, step, artifact_of) for part in parts)
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
    sources = list(dict.fromkeys(part.rows.source for part in parts))
    trained = " and ".join(repr(part.name) for part in parts)
    said = (
        f"{step.name}: there are only {rows:,} {' and '.join(map(_named, sources))} to train "
        f"{trained}, {rows / size:.1f} batches of {size}, which teach an encoder little"
    )
    reasons, left_out = Counter[str](), "Candidates"
    if any(part.rows.source in OF_TRIPLETS for part in parts):
        reasons = _reasons(step, artifact_of)
    elif any(part.rows.source == _PAIRS for part in parts):
        reasons, left_out = _pairs_left_out(step, artifact_of), "Pairs"
    more = " and ".join(dict.fromkeys(map(_more, sources)))
    if not reasons:
        return f"{said}: {more}."
    common = [reason for reason, _ in reasons.most_common(3)]
    listed = ", ".join(f"{reason} {reasons[reason]:,}" for reason in common)
    known = {**MENDS, **_of_thresholds(step, artifact_of)}
    mends = [known[reason] for reason in common if reason in known][:1]
    return f"{said}. {left_out} were left out as {listed}: {', or '.join([*mends, more])}."


def _named(source: str) -> str:
    return source.replace("_", " ") if source in SOURCES else f"rows of {source!r}"


def _more(source: str) -> str:
    if source == _PAIRS:
        return "add text"
    return "add text or raise sample.rows" if source in SOURCES else f"add rows to {source!r}"


def _of_thresholds(step: Step, artifact_of: Callable[[str], Artifact]) -> dict[str, str]:
    """What to do about a candidate on the wrong side of a threshold, by the reason."""
    made = [artifact_of(name).manifest() for name in step.inputs.get("triplets", ())]
    return {
        reason: f"{change} {threshold_keys(name, manifest['components']['config'])}"
        for manifest in made
        if manifest is not None
        for reason, (change, name) in THRESHOLDS.items()
    }


def _rows(part: PartConfig, step: Step, artifact_of: Callable[[str], Artifact]) -> int:
    """The rows that a part takes, apart from those that the guard leaves out."""
    found = _available(part, step, artifact_of)
    return min(found, part.rows.max_rows or found)


def _available(part: PartConfig, step: Step, artifact_of: Callable[[str], Artifact]) -> int:
    config, source = part.rows, part.rows.source
    slot = source if source in ("anchors", _PAIRS) else "labelled"
    slot = "triplets" if source in OF_TRIPLETS else slot
    made = joined([artifact_of(name).rows() for name in step.inputs[slot]])
    if slot == "triplets":
        table = made.table("triplets", ["sentence_id", "relation", "negative"])
        if source == "triplets" and "negative" in part.resolved().texts:
            table = table.filter(pc.is_valid(table["negative"]))
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
