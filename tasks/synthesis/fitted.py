"""Stage `synthesise` for a prompted method that a fitted generator answers."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tercet.errors import kind_of
from tercet.models.errors import Unusable
from tercet.models.generation import GENERATIONS
from tercet.models.generators import layout
from tercet.models.generators.layout import Layout
from tercet.models.generators.settings import Backend, Decoding
from tercet.models.llm.messages import Request
from tercet.models.prompted import templates
from tercet.models.t5 import wording
from tercet.tasks.stage import BadInput, EachPart, Stage, Work
from tercet.tasks.synthesis import asking
from tercet.tasks.synthesis.methods import SynthesiseConfig
from tercet.tasks.synthesis.prompted import ask_anchors, template_of
from tercet.tasks.synthesis.synthesise import ALIGNED, NAME, generated

SLOT = "generator"
# Methods that a generator answers from the bare sentence; other methods need instructions.
FROM_SENTENCE = ("paraphrase",)
# Modules that decide the texts; for vLLM also Tercet's plugin in its server.
CODE: Mapping[Backend, tuple[str, ...]] = {
    "transformers": ("tercet.models.generators.generator",),
    "vllm": ("tercet.models.generators.generator", "tercet.models.vaegpt.plugin.served"),
}


def decoding_of(config: Any) -> Decoding | None:
    """The decoding of the generator that answers this step; None for a step without a generator."""
    return config.decoding if isinstance(config, SynthesiseConfig) else None


def uses(config: SynthesiseConfig) -> tuple[object, ...]:
    """The method, and the code that decodes its answers."""
    assert config.decoding is not None
    backend = config.decoding.backend
    wire = (asking.WIRE,) if backend == "vllm" else ()
    return (config.described, *CODE[backend], *wire)


def externals(config: SynthesiseConfig) -> dict[str, Path]:
    """The prompt file, for a method that needs one. Raises Unusable for an invalid one."""
    template = _template(config)
    return {} if template is None else {"prompt": template.path}


def layout_of(folder: Path) -> Layout:
    """The layout of the generator in this directory. Raises Unusable."""
    try:
        return layout.read(folder)
    except ValueError as error:
        raise Unusable(kind_of(error, "unfit_model"), str(error)) from None


def check_method(method: str, generator: str, follows_prompts: bool) -> None:
    """Raises Unusable if the method needs instructions and this generator follows none."""
    if method not in FROM_SENTENCE and not follows_prompts:
        raise Unusable(
            "unfit_model",
            f"{method} needs instructions, and the generator {generator!r} was fitted to answer "
            f"bare sentences: use it for {', '.join(FROM_SENTENCE)}, or leave `generator` out, so "
            "that the language model answers.",
        )


def check_backend(generator: str, backend: Backend, form: str) -> None:
    """Raises Unusable if vLLM is to serve a T5."""
    if backend == "vllm" and form == "t5":
        raise Unusable(
            "unfit_model",
            f"The generator {generator!r} is a T5, which vLLM cannot serve: give it backend: "
            "transformers.",
        )


def run(work: Work) -> None:
    """Emit the generator's answers about the anchors of one part of the sentences.

    A row without an answer is a reject with the reason `failed`. Raises Unusable for a method
    that the model cannot follow.
    """
    config: SynthesiseConfig = work.config
    assert config.decoding is not None
    laid = layout_of(work.models[SLOT])
    check_method(config.method, config.params["generator"], laid.follows_prompts)
    ask_anchors(work, _template(config), config.decoding)


def asks(work: Work) -> Iterator[Request]:
    """The requests that the method would make for one part; nothing is written."""
    config: SynthesiseConfig = work.config
    assert config.decoding is not None
    template = _template(config)
    for questions in generated(work):
        yield from asking.requests(questions, config.method, work.seed, template, config.decoding)


def _template(config: SynthesiseConfig) -> templates.Template | None:
    """The prompt file; None for a method that is answered from the bare sentence."""
    return None if config.method in FROM_SENTENCE else template_of(config)


def check_model(config: SynthesiseConfig, slot: str, folder: Path) -> None:
    """Raises BadInput or Unusable for a generator that cannot answer the method."""
    name, words = config.params["generator"], config.params["prompt"]
    if fault := wording.fault(folder, config.method, words and Path(words)):
        step = f"{NAME}.{config.method}"
        raise BadInput(
            "unfit_model", f"{step}: the generator {name!r} cannot be asked this: {fault}."
        )
    laid = layout_of(folder)
    check_method(config.method, name, laid.follows_prompts)
    assert config.decoding is not None
    check_backend(name, config.decoding.backend, laid.form)


# The slots are a rule's; the model is in the slot `generator`.
STAGE = Stage(
    name=NAME,
    config=SynthesiseConfig,
    tables={"generations": GENERATIONS},
    run=run,
    cut=EachPart("sentences", aligned=ALIGNED),
    uses=uses,
    externals=externals,
    # The generator's name only locates its model and settings, which are digested.
    locations=("params.prompt", "params.shots", "params.generator"),
    asks=asks,
    check_model=check_model,
)
