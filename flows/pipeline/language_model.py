"""References to the language model in the steps that ask it."""

from tercet.flows.pipeline.step import Model, Weights
from tercet.flows.recipe.model import Recipe
from tercet.models.llm.settings import LlmSettings, Sampling


def served(llm: LlmSettings) -> LlmSettings:
    """The model without sampling settings, which are in each step's own parameters."""
    return llm.model_copy(update=Sampling().model_dump())


def llm(recipe: Recipe) -> dict[str, Model]:
    """The language model's weights, if their files are available."""
    assert recipe.llm is not None
    return {} if recipe.llm.model is None else {"llm": Weights(recipe.llm.model)}
