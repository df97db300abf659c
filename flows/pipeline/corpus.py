"""Steps from files to sentences, and to labelled rows."""

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.model import Recipe
from tercet.tasks.corpus import ingest, labelled, sample


def corpus_steps(recipe: Recipe) -> list[Step]:
    corpora = list(recipe.unlabelled)
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
            ingest.stage_for(corpora),
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
    held_out = {"sentences": ("ingest",), "document_pairs": ("ingest",)}
    return [Step("labelled", labelled.stage_for(corpora), config, held_out)]


def of_role(recipe: Recipe, role: str | None) -> tuple[str, ...]:
    """The names of a role's corpora; empty without a role."""
    return tuple(corpus.name for corpus in recipe.corpora if corpus.role == role)
