"""Steps from files to sentences."""

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.model import Recipe
from tercet.tasks.corpus import ingest, sample


def corpus_steps(recipe: Recipe) -> list[Step]:
    shares = [
        sample.CorpusShare(name=corpus.name, role=corpus.role, share=corpus.share)
        for corpus in recipe.corpora
    ]
    settings = recipe.ingest.model_dump()
    return [
        Step("ingest", ingest.STAGE, ingest.IngestConfig(corpora=list(recipe.corpora), **settings)),
        Step(
            "sample",
            sample.STAGE,
            sample.SampleConfig(corpora=shares, **recipe.sample.model_dump()),
            {"sentences": ("ingest",)},
        ),
    ]
