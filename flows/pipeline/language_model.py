"""The models that answer requests: the language model, and fitted generators."""

from typing import Any

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.resolved import LLM, Model, Weights
from tercet.models.llm.settings import LlmSettings, Sampling
from tercet.tasks.synthesis.fitted import FittedConfig


def served(llm: LlmSettings) -> LlmSettings:
    """The model without sampling settings, which are in each step's own parameters."""
    return llm.model_copy(update=Sampling().model_dump())


def weights_of(llm: LlmSettings) -> dict[str, Model]:
    """The language model's weights, if their files are available."""
    return {} if llm.model is None else {"llm": Weights(llm.model)}


def writer(step: Step) -> str | None:
    """Who answers a step's requests: `llm` or a generator's name; None if it asks nothing."""
    if step.stage.asks is None:
        return None
    config: Any = step.config
    return str(config.params["generator"]) if isinstance(config, FittedConfig) else LLM
