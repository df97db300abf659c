"""The generators' figures beside their controls."""

from collections.abc import Sequence

from tercet.flows.pages.blocks import Block, Note, Section, Table
from tercet.flows.report.subject import Subject
from tercet.flows.results.generated import METRICS, in_words, measured


def generators(subjects: Sequence[Subject]) -> Section:
    """A table for each generator."""
    blocks: list[Block] = []
    for subject in subjects:
        of_run = f"Run {subject.name}. " if len(subjects) > 1 else ""
        found = measured(subject.connection)
        if not found:
            said = "No generator was measured: `measure_generators` names the pairs for it."
            blocks.append(Note(f"{of_run}{said}", "missing"))
        for one in found:
            blocks.append(
                Table(
                    ["texts", *METRICS.values()],
                    [[arm, *(_shown(value) for value in values)] for arm, values in one.rows],
                    f"{of_run}{one.generator}, on {one.pairs:,} pairs. Bold: the generator.",
                    "l" + "r" * len(METRICS),
                    frozenset({0}),
                )
            )
            blocks.append(Note(in_words(one)))
    lead = (
        "What generators write, beside what anyone could: the human's own text, a copy, and words "
        "replaced, deleted or shuffled at random, or exchanged for synonyms. In percent, but for "
        "the perplexity."
    )
    return Section("Generators", blocks, lead)


def _shown(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
