"""Stage `synthesise` for a prompted method: a language model's answers about the anchors."""

from collections.abc import Iterator
from pathlib import Path

from tercet.models.generation import GENERATIONS
from tercet.models.llm.messages import Request
from tercet.models.llm.settings import LlmSettings
from tercet.models.prompted import templates
from tercet.tasks.stage import Stage, Work
from tercet.tasks.synthesis import asking
from tercet.tasks.synthesis.methods import method_of
from tercet.tasks.synthesis.synthesise import ALIGNED, NAME, SynthesiseConfig, generated


class PromptedConfig(SynthesiseConfig):
    """One of `PROMPTED_NAMES`, and the model that it asks."""

    llm: LlmSettings


def uses(config: PromptedConfig) -> tuple[object, ...]:
    """The method, and what surrounds a prompt on its way to a model."""
    return (method_of(config.method), asking.WIRE)


def externals(config: PromptedConfig) -> dict[str, Path]:
    """The prompt file, whose content decides what is said, and the files in the model's settings.

    Raises Unusable for an invalid prompt, so that it is reported before anything runs.
    """
    path = prompt_path(config)
    templates.load(path, method_of(config.method).variables)
    return {"prompt": path, **asking.llm_externals(config.llm)}


def prompt_path(config: SynthesiseConfig) -> Path:
    """The user's own prompt file, or ours."""
    own = config.params["prompt"]
    name = method_of(config.method).prompt
    assert name is not None
    return Path(own) if own is not None else templates.prompt_path(name)


def run(work: Work) -> None:
    """Emit the model's answers about the anchors of one part of the sentences.

    Slots as for a rule. A row without an answer is a reject with the reason `failed`.
    """
    config: PromptedConfig = work.config
    method = method_of(config.method)
    template = templates.load(prompt_path(config), method.variables)
    for asked in generated(work):
        asking.said(
            work,
            method=method.name,
            purpose=method.purpose,
            relation=method.relation,
            asked=asked,
            template=template,
            sampling=asking.sampling_of(config.llm, config.params),
        )


def asks(work: Work) -> Iterator[Request]:
    """What the method would ask for one part; nothing is sent."""
    config: PromptedConfig = work.config
    template = templates.load(prompt_path(config), method_of(config.method).variables)
    sampling = asking.sampling_of(config.llm, config.params)
    for asked in generated(work):
        yield from asking.requests(asked, config.method, work.seed, template, sampling)


STAGE = Stage(
    name=NAME,
    config=PromptedConfig,
    tables={"generations": GENERATIONS},
    run=run,
    each="sentences",
    aligned=ALIGNED,
    uses=uses,
    externals=externals,
    locations=("params.prompt", "params.generator", *asking.LLM_LOCATIONS),
    asks=asks,
)
