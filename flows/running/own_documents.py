"""What `run` says of documents where some come with Tercet: how many are the user's own."""

from collections import Counter
from collections.abc import Sequence

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.shipped import count_apart, is_shipped
from tercet.storage.artifacts import Artifact
from tercet.tasks.corpus.outcomes import NOTHING_KEPT
from tercet.tasks.corpus.sources.corpora import IngestConfig


def lines(step: Step, artifact: Artifact) -> Sequence[str]:
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
