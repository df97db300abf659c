"""The generators' figures beside their controls."""

from collections.abc import Sequence

from tercet.flows.pages.blocks import Block, Note, Section, Table
from tercet.flows.report.subject import Subject
from tercet.flows.results.generated import METRICS, in_words, measured


def generators(subjects: Sequence[Subject]) -> Section:
    """A table for each run: its generators, then the controls on the same pairs."""
    blocks: list[Block] = []
    for subject in subjects:
        of_run = f"Run {subject.name}. " if len(subjects) > 1 else ""
        found = measured(subject.connection)
        if found is None:
            said = "No generator was measured: `measure_generators` names the pairs for it."
            blocks.append(Note(f"{of_run}{said}", "missing"))
            continue
        rows = [*found.generators.items(), *found.controls.items()]
        blocks.append(
            Table(
                ["texts", *METRICS.values()],
                [[name, *(_shown(value) for value in values)] for name, values in rows],
                f"{of_run}On {found.pairs:,} pairs. Bold: generators.",
                "l" + "r" * len(METRICS),
                frozenset(range(len(found.generators))),
            )
        )
        blocks += [Note(in_words(name, gains)) for name, gains in found.gains.items()]
    lead = (
        "The generators' texts beside controls that anyone could make: the human's own text, a "
        "copy, and words replaced, deleted or shuffled at random, or exchanged for synonyms. In "
        "percent, except the perplexity."
    )
    return Section("Generators", blocks, lead)


def _shown(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
