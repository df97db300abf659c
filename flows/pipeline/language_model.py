"""How steps that ask a language model name it."""

from tercet.flows.pipeline.step import Model, Weights
from tercet.flows.recipe.model import Recipe
from tercet.models.llm.settings import LlmSettings, Sampling


def served(llm: LlmSettings) -> LlmSettings:
    """The model alone: how a step's answers are drawn is resolved in its own parameters."""
    return llm.model_copy(update=Sampling().model_dump())


def llm(recipe: Recipe) -> dict[str, Model]:
    """The language model's weights, where they can be looked at."""
    assert recipe.llm is not None
    return {} if recipe.llm.model is None else {"llm": Weights(recipe.llm.model)}
