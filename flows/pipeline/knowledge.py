"""Steps that find entities and quantities and build a graph of them."""

from collections.abc import Sequence

from tercet.flows.pipeline.language_model import llm, served
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.model import Recipe
from tercet.tasks.knowledge import extract, extract_generate, extract_parse, graph


def knowledge_steps(recipe: Recipe, by_model: bool) -> list[Step]:
    steps = extraction_steps(recipe, by_model)
    return [*steps, Step("graph", graph.STAGE, recipe.graph, {"mentions": (steps[-1].name,)})]


def extraction_steps(recipe: Recipe, by_model: bool) -> list[Step]:
    """One step with rules; two with a language model, which answers and is then parsed."""
    sentences = {"sentences": ("ingest",)}
    if not by_model or recipe.extract_generate is None:
        return [Step("extract", extract.STAGE, recipe.extract, sentences)]
    assert recipe.llm is not None
    asks = extract_generate.ExtractGenerateConfig(
        **recipe.extract_generate.model_dump(), llm=served(recipe.llm)
    )
    reads = extract_parse.ExtractParseConfig(
        **recipe.extract_parse.model_dump(), categories=asks.categories, types=asks.types
    )
    return [
        Step(
            "extract_generate",
            extract_generate.STAGE,
            asks,
            {**sentences, "anchors": ("sample",)},
            llm(recipe),
        ),
        Step(
            "extract_parse",
            extract_parse.STAGE,
            reads,
            {"generations": ("extract_generate",), **sentences},
        ),
    ]


def without_unread(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps without those of knowledge that none of the others reads; each after its inputs."""
    stages = (extract.STAGE, extract_generate.STAGE, extract_parse.STAGE, graph.STAGE)
    kept: list[Step] = []
    read: set[str] = set()
    for step in reversed(steps):
        if step.stage not in stages or step.name in read:
            kept.append(step)
            read.update(step.needs)
    return tuple(reversed(kept))
