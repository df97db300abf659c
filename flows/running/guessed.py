"""What `run` says of the columns and the dialects that a corpus is read by."""

from collections.abc import Sequence

from tercet.flows.pipeline.step import Step
from tercet.tasks.corpus.labelled import LabelledConfig
from tercet.tasks.corpus.sources.corpora import IngestConfig
from tercet.tasks.corpus.sources.guesses import guesses


def lines(step: Step) -> Sequence[str]:
    """A sentence for each corpus of tables; none for steps that read no corpora."""
    if not isinstance(step.config, IngestConfig | LabelledConfig):
        return ()
    found = {c.name: guesses(c, step.config.max_line_bytes) for c in step.config.corpora}
    return [
        f"{step.name}: corpus {name!r}: {', '.join(said)}." for name, said in found.items() if said
    ]
