"""Stage `synthesise` of a prompted method: what a language model says about the anchors."""

from collections.abc import Iterator
from pathlib import Path

from tercet.models.generation import GENERATIONS
from tercet.models.llm.messages import Request
from tercet.models.llm.settings import LlmSettings
from tercet.models.prompted import templates as prompting
from tercet.tasks.stage import Stage, Work
from tercet.tasks.synthesis import asking
from tercet.tasks.synthesis.synthesise import (
    NAME,
    SynthesiseConfig,
    aligned,
    generated,
    method_of,
    module_of,
)


class PromptedConfig(SynthesiseConfig):
    """One of `PROMPTED_NAMES`, with the model that it asks."""

    llm: LlmSettings


def stage_for(name: str) -> Stage:
    """The stage for one prompted method: its slots and the module whose code it runs."""
    return Stage(
        name=NAME,
        config=PromptedConfig,
        tables={"generations": GENERATIONS},
        run=run,
        each="sentences",
        aligned=aligned(name),
        modules=(module_of(name), asking.WIRE),
        externals=externals,
        locations=("prompt", *asking.LLM_LOCATIONS),
        asks=asks,
    )


def externals(config: PromptedConfig) -> dict[str, Path]:
    """The prompt file, whose content decides what is said, and what the model's settings name.

    Raises Unusable for a prompt that cannot be, so that it is told before anything runs.
    """
    path = prompt_path(config)
    prompting.load(path, method_of(config.method).variables)
    return {"prompt": path, **asking.llm_externals(config.llm)}


def prompt_path(config: PromptedConfig) -> Path:
    """The user's own prompt file, or ours."""
    own = config.params["prompt"]
    name = method_of(config.method).prompt
    assert name is not None
    return Path(own) if own is not None else prompting.prompt_path(name)


def run(work: Work) -> None:
    """Emit what the model says for the anchors of one part of the sentences.

    Slots as those of a rule. A row for which asking failed is a reject with the reason `failed`.
    """
    config: PromptedConfig = work.config
    method = method_of(config.method)
    for asked in generated(work):
        asking.said(
            work,
            method=method.name,
            purpose=method.purpose,
            asked=asked,
            template_path=prompt_path(config),
            variables=method.variables,
            sampling=asking.sampling_of(config.llm, config.params),
        )


def asks(work: Work) -> Iterator[Request]:
    """What the method asks for one part, asked of nobody."""
    config: PromptedConfig = work.config
    template = prompting.load(prompt_path(config), method_of(config.method).variables)
    sampling = asking.sampling_of(config.llm, config.params)
    for asked in generated(work):
        yield from asking.requests(asked, config.method, work.seed, template, sampling)
