"""Steps from files to sentences, and to labelled rows."""

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.model import Recipe
from tercet.tasks.corpus import ingest, labelled, sample

# Held out of the corpora of role pretrain, to measure the loss on; the recipe's own shares may
# follow another corpus's size.
PRETRAIN_DEV = 0.02


def corpus_steps(recipe: Recipe) -> list[Step]:
    """The steps behind all sentences and anchors, if some corpus gives any."""
    corpora = list(recipe.unlabelled)
    if not corpora:
        return []
    shares = [
        sample.CorpusShare(
            name=corpus.name, role=corpus.role, share=corpus.share, company=corpus.company
        )
        for corpus in corpora
    ]
    settings = recipe.ingest.model_dump()
    return [
        Step(
            "ingest",
            ingest.STAGE,
            ingest.IngestConfig(corpora=corpora, **settings),
        ),
        Step(
            "sample",
            sample.STAGE,
            sample.SampleConfig(corpora=shares, **recipe.sample.model_dump()),
            {"sentences": ("ingest",)},
        ),
    ]


def labelled_steps(recipe: Recipe) -> list[Step]:
    """One step for all labelled corpora, if any; none of its rows is in dev or test."""
    corpora = list(recipe.labelled)
    if not corpora:
        return []
    config = labelled.LabelledConfig(corpora=corpora, max_line_bytes=recipe.ingest.max_line_bytes)
    tables = ("sentences", "document_pairs") if recipe.unlabelled else ()
    held_out = dict.fromkeys(tables, ("ingest",))
    return [Step("labelled", labelled.STAGE, config, held_out)]


def pretrain_corpora(recipe: Recipe) -> list[Step]:
    """One step for all corpora of role pretrain, if any: nothing of theirs reaches the others."""
    corpora = [corpus for corpus in recipe.corpora if corpus.role == "pretrain"]
    if not corpora:
        return []
    settings = recipe.ingest.model_dump() | {"dev": PRETRAIN_DEV, "test": 0.0}
    config = ingest.PretrainIngestConfig(corpora=corpora, **settings)
    return [Step("ingest.pretrain", ingest.PRETRAIN, config)]


def of_role(recipe: Recipe, role: str | None) -> tuple[str, ...]:
    """The names of a role's corpora; empty without a role."""
    return tuple(corpus.name for corpus in recipe.corpora if corpus.role == role)
