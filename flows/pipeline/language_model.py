"""References to the models that answer requests: the language model, and fitted generators."""

from typing import Any

from tercet.flows.pipeline.named_models import model_named
from tercet.flows.pipeline.step import Made, Model, Step, Weights
from tercet.flows.recipe.generator_pairs import GENSE
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.model_checks import LLM
from tercet.models import weights
from tercet.models.llm.errors import Unusable
from tercet.models.llm.settings import LlmSettings, Sampling
from tercet.tasks.synthesis import fitted
from tercet.tasks.synthesis.fitted import FittedConfig

# The stage whose models are generators.
FITTED = "fit_generator"


def served(llm: LlmSettings) -> LlmSettings:
    """The model without sampling settings, which are in each step's own parameters."""
    return llm.model_copy(update=Sampling().model_dump())


def llm(recipe: Recipe) -> dict[str, Model]:
    """The language model's weights, if their files are available."""
    assert recipe.llm is not None
    return {} if recipe.llm.model is None else {"llm": Weights(recipe.llm.model)}


def generator(recipe: Recipe, name: str, method: str) -> dict[str, Model]:
    """The generator's model.

    Raises Unusable if it cannot answer the method, as far as that is known before it is made or
    fetched.
    """
    settings = recipe.generators[name]
    model = model_named(recipe, settings.model)
    if isinstance(model, Made):
        maker = model.step.partition(".")[0]
        if maker != FITTED:
            raise Unusable(
                f"generators.{name}: {settings.model} is made by {maker}, which fits no generator: "
                f"name a model that {FITTED} makes."
            )
        made = recipe.models[model.step.removeprefix(f"{FITTED}.")].fit_generator
        assert made is not None
        # The recipe's checks have seen to it that a model of form gense can do the method.
        fitted.check_method(method, name, follows_prompts=made.form == GENSE)
        form = "t5" if made.form == GENSE else made.form
        fitted.check_backend(name, settings.backend, form)
    elif isinstance(model, Weights):
        try:
            folder = weights.cached(model.name)
        except weights.ModelMissing as error:
            raise Unusable(f"generators.{name}: {error}") from None
        if folder is not None:
            laid = fitted.layout_of(folder)
            fitted.check_method(method, name, laid.follows_prompts)
            fitted.check_backend(name, settings.backend, laid.form)
    return {fitted.SLOT: model}


def writer(step: Step) -> str | None:
    """Who answers a step's requests: `llm` or a generator's name; None if it asks nothing."""
    if step.stage.asks is None:
        return None
    config: Any = step.config
    return str(config.params["generator"]) if isinstance(config, FittedConfig) else LLM
