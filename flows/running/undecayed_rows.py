"""What is said of rows that train with the Gaussian decay and have no teacher to decay by."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tercet.flows.pipeline.step import Step
from tercet.models.losses.gaussian_decay import TEACHER
from tercet.storage.artifacts import Artifact
from tercet.storage.rows import joined
from tercet.tasks.corpus.kinds.registry import KINDS
from tercet.tasks.corpus.labelled import LabelledConfig, columns_of
from tercet.tasks.corpus.sources.registry import reader_of
from tercet.tasks.training.phases import OF_TRIPLETS, PartConfig, PhaseConfig
from tercet.tasks.training.train import TrainConfig


def warnings(step: Step, artifact_of: Callable[[str], Artifact]) -> list[str]:
    """A sentence for each part of a training of which rows lack the teacher's cosine.

    artifact_of: the finished artifact of a step's name.
    """
    said = []
    for phase, part in _untaught(step):
        labels = _labels(part, step, artifact_of)
        lacking, total = labels.null_count, len(labels)
        if lacking:
            said.append(_told(step, part, f"{lacking:,} of {total:,}"))
        elif phase.word_repetition:
            said.append(_told(step, part, ""))
    return said


def beforehand(steps: Sequence[Step]) -> list[str]:
    """The same, as far as the columns of labelled corpora show it before anything runs."""
    corpora = {
        corpus.name: (corpus, step.config.max_line_bytes)
        for step in steps
        if isinstance(step.config, LabelledConfig)
        for corpus in step.config.corpora
    }
    said = []
    for step in steps:
        for phase, part in _untaught(step):
            if part.rows.source not in corpora:
                continue
            corpus, longest = corpora[part.rows.source]
            assert corpus.kind is not None
            kind = KINDS[corpus.kind]
            tables = reader_of(corpus.source).tables(corpus, longest)
            if not any("label" in columns_of(corpus, kind, table) for table in tables):
                said.append(_told(step, part, "all"))
            elif phase.word_repetition:
                said.append(_told(step, part, ""))
    return said


def _untaught(step: Step) -> Iterator[tuple[PhaseConfig, PartConfig]]:
    """The parts of a training that decay by what stands in their rows, with their phase."""
    if isinstance(step.config, TrainConfig):
        phase = step.config.phase
        for part in phase.parts:
            if part.decays() and TEACHER not in part.models:
                yield phase, part


def _told(step: Step, part: PartConfig, lacking: str) -> str:
    """lacking: how many of the part's rows have no cosine; "": theirs are of other texts."""
    rows = "triplets" if part.rows.source in OF_TRIPLETS else f"rows of {part.rows.source!r}"
    mend = (
        "name the teacher beside the loss, `models: {teacher: evaluator}`, or write "
        "`sigma_cosine: 0`"
    )
    if not lacking:
        return (
            f"{step.name}: the teacher's cosines of the {rows} that train {part.name!r} are of the "
            f"plain anchors, in which word_repetition repeats words: {mend}."
        )
    return (
        f"{step.name}: {lacking} {rows} that train {part.name!r} have no teacher's cosine of "
        f"their negative, which counts in full, without decay: {mend}."
    )


def _labels(
    part: PartConfig, step: Step, artifact_of: Callable[[str], Artifact]
) -> pa.ChunkedArray:
    """The teacher's cosines of the rows that the part can take, null where there is none."""
    if part.rows.source in OF_TRIPLETS:
        slot, label, columns = "triplets", "negative_similarity", ["relation"]
    else:
        slot, label, columns = "labelled", "label", ["corpus"]
    made = joined([artifact_of(name).rows() for name in step.inputs[slot]])
    table = made.table(slot, [label, "negative", *columns])
    table = table.filter(pc.is_valid(table["negative"]))
    if slot == "labelled":
        table = table.filter(pc.equal(table["corpus"], part.rows.source))
    elif part.rows.relation:
        table = table.filter(pc.is_in(table["relation"], pa.array(part.rows.relation)))
    return table[label]
