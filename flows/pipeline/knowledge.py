"""Steps that find entities and quantities and build a graph of them."""

from tercet.flows.pipeline.language_model import served, weights_of
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.model import Recipe
from tercet.tasks.knowledge import extract, extract_generate, extract_parse, graph

# Left out of a run if nothing reads them.
STEPS = ("extract", "extract_generate", "extract_parse", "graph")


def knowledge_steps(recipe: Recipe) -> list[Step]:
    """Extraction by rules, or by a language model, which answers and is then parsed; the graph.

    Without synthesis only the awareness measure reads them: no language model is needed.
    """
    if not recipe.synthesise and recipe.awareness is None:
        return []
    steps, sentences = [], {"sentences": ("ingest",)}
    if recipe.extract_generate is None or not recipe.synthesise:
        steps.append(Step("extract", extract.STAGE, recipe.extract, sentences))
    else:
        assert recipe.llm is not None
        asks = extract_generate.ExtractGenerateConfig(
            **recipe.extract_generate.model_dump(), llm=served(recipe.llm)
        )
        reads = extract_parse.ExtractParseConfig(
            **recipe.extract_parse.model_dump(), categories=asks.categories, types=asks.types
        )
        anchors, model = {**sentences, "anchors": ("sample",)}, weights_of(recipe.llm)
        answers = {"generations": ("extract_generate",), **sentences}
        steps.append(Step("extract_generate", extract_generate.STAGE, asks, anchors, model))
        steps.append(Step("extract_parse", extract_parse.STAGE, reads, answers))
    mentions = {"mentions": (steps[-1].name,)}
    made = Step("graph", graph.STAGE, graph.GraphConfig(), mentions, keep=recipe.graph.keep)
    return [*steps, made]
