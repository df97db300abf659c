"""The generators' figures beside their controls."""

from tercet.flows.formatting import format_number
from tercet.flows.pages.blocks import Block, Note, Table
from tercet.flows.report.subject import Subject, of_each_run
from tercet.flows.results.generated import METRICS, in_words, measured


@of_each_run(
    "Generators",
    "No generator was measured: `measure_generators` names the pairs for it.",
    "The generators' texts beside controls that anyone could make: the human's own text, a copy, "
    "and words replaced, deleted or shuffled at random, or exchanged for synonyms. In percent, "
    "except the perplexity.",
)
def generators(subject: Subject) -> list[Block]:
    """The run's generators, then the controls on the same pairs."""
    found = measured(subject.connection)
    if found is None:
        return []
    table = Table(
        ["texts", *METRICS.values()],
        [
            [name, *(format_number(value, 1) for value in values)]
            for name, values in [*found.generators.items(), *found.controls.items()]
        ],
        f"On {found.pairs:,} pairs. Bold: generators.",
        "l" + "r" * len(METRICS),
        frozenset(range(len(found.generators))),
    )
    return [table, *(Note(in_words(name, gains)) for name, gains in found.gains.items())]
