"""What `run` says of the columns and the dialects that a corpus is read by."""

from collections import Counter
from collections.abc import Sequence

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.shipped import count_apart, is_shipped
from tercet.storage.artifacts import Artifact
from tercet.tasks.corpus.labelled import LabelledConfig
from tercet.tasks.corpus.outcomes import NOTHING_KEPT
from tercet.tasks.corpus.sources.corpora import IngestConfig
from tercet.tasks.corpus.sources.guesses import guesses


def guesses_of_tables(step: Step) -> Sequence[str]:
    """A sentence for each corpus of tables; none for steps that read no corpora."""
    if not isinstance(step.config, IngestConfig | LabelledConfig):
        return ()
    found = {c.name: guesses(c, step.config.max_line_bytes) for c in step.config.corpora}
    return [
        f"{step.name}: corpus {name!r}: {', '.join(said)} (set by its text and dialect)."
        for name, said in found.items()
        if said
    ]


def own_documents(step: Step, artifact: Artifact) -> Sequence[str]:
    """A sentence after `ingest`; none where all documents are the user's, or all Tercet's."""
    if not isinstance(step.config, IngestConfig):
        return ()
    shipped = [corpus.name for corpus in step.config.corpora if is_shipped(corpus.source)]
    if not shipped:
        return ()
    rows = artifact.rows()
    # Of texts to pretrain on there is no such table.
    if "corpus_outcomes" not in rows.tables:
        return ()
    documents: Counter[str] = Counter()
    for row in rows.table("corpus_outcomes").to_pylist():
        if row["unit"] == "document" and row["outcome"] != NOTHING_KEPT:
            documents[row["corpus"]] += row["n"]
    said = count_apart(documents, shipped)
    return [f"{step.name}: {said}."] if said else ()
