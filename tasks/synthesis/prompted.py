"""Stage `synthesise` for a prompted method: a language model's answers about the anchors."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tercet.models.errors import Unusable
from tercet.models.generation import GENERATIONS
from tercet.models.llm.messages import Request
from tercet.models.llm.settings import Sampling
from tercet.models.prompted import templates
from tercet.models.prompted.methods import check_shots
from tercet.tasks.stage import EachPart, Stage, Work
from tercet.tasks.synthesis import asking
from tercet.tasks.synthesis.methods import SynthesiseConfig
from tercet.tasks.synthesis.synthesise import ALIGNED, NAME, generated

# Names the shots that come with Tercet.
BUILTIN = "builtin"


def uses(config: SynthesiseConfig) -> tuple[object, ...]:
    """The method, and the module that puts a prompt into a request."""
    return (config.described, asking.WIRE)


def externals(config: SynthesiseConfig) -> dict[str, Path]:
    """The files of prompt, shots and the model's settings.

    Raises Unusable for an invalid one, so that it is reported before anything runs.
    """
    assert config.llm is not None
    template = template_of(config)
    files = {"prompt": template.path, **asking.llm_externals(config.llm)}
    examples = examples_of(config, template)
    if not examples:
        return files
    for of_kind in examples.values():
        check_shots(of_kind, config.described.checks)
    return {**files, "shots": _shots_path(config)}


def template_of(config: SynthesiseConfig) -> templates.Template:
    """The user's own prompt file, or ours. Raises Unusable for an invalid one."""
    method, prompt = config.described, config.params["prompt"]
    if prompt is None and method.prompt is None:
        raise Unusable(
            "missing_key", f"{config.method} has no built-in prompt: give it one (prompt: FILE)"
        )
    over_sentences = method.each == "sentences" and not method.module
    if prompt is None and method.unit == "passage" and over_sentences:
        raise Unusable(
            "missing_key",
            f"the built-in prompt of {config.method} is about a sentence: with unit: passage give "
            "your own (prompt: FILE)",
        )
    path = Path(prompt) if prompt is not None else templates.prompt_path(method.prompt or "")
    return templates.load(path, method.variables)


def examples_of(
    config: SynthesiseConfig, template: templates.Template
) -> dict[str, list[templates.Example]]:
    """The examples shown before every question, by kind of query; the kind is "" without kinds.

    Raises Unusable for an invalid file.
    """
    shots, prompt = config.params["shots"], config.params["prompt"]
    ours = shots == BUILTIN
    if shots is None or (ours and (prompt is not None or config.described.module)):
        return {}
    path, optional = _shots_path(config), config.described.optional
    if not (kinds := config.params.get("kinds")):
        return {"": templates.load_shots(path, template, config.params, optional)}
    of_kinds = ((kind, {**config.params, "kind": kind}) for kind in kinds)
    return {
        kind: templates.load_shots(path, template, params, optional) for kind, params in of_kinds
    }


def _shots_path(config: SynthesiseConfig) -> Path:
    shots = config.params["shots"]
    return templates.shots_path(config.method) if shots == BUILTIN else Path(shots)


def run(work: Work) -> None:
    """Emit the model's answers about the anchors of one part of the sentences.

    The slots are a rule's. A row without an answer is a reject with the reason `failed`.
    """
    config: SynthesiseConfig = work.config
    assert config.llm is not None
    template = template_of(config)
    sampling = asking.sampling_of(config.llm, config.params)
    ask_anchors(work, template, sampling, _shots(config, template))


def asks(work: Work) -> Iterator[Request]:
    """The requests that the method would make for one part; nothing is sent."""
    config: SynthesiseConfig = work.config
    assert config.llm is not None
    template, sampling = template_of(config), asking.sampling_of(config.llm, config.params)
    shots = _shots(config, template)
    for questions in generated(work):
        yield from asking.requests(
            questions, config.method, work.seed, template, sampling, shots=shots
        )


def _shots(config: SynthesiseConfig, template: templates.Template) -> asking.ShotsByKind:
    examples = examples_of(config, template)
    return {kind: tuple(one.shot for one in of_kind) for kind, of_kind in examples.items()}


def ask_anchors(
    work: Work,
    template: templates.Template | None,
    sampling: Sampling,
    shots: asking.ShotsByKind = asking.NO_SHOTS,
) -> None:
    """Asks about the anchors of one part; without a template the prompts are bare sentences."""
    method = work.config.described
    for questions in generated(work):
        asking.ask(
            work,
            method=method.name,
            purpose=method.purpose,
            relation=method.relation,
            checks=method.checks,
            unit=method.unit,
            as_anchor=method.as_anchor,
            questions=questions,
            template=template,
            sampling=sampling,
            shots=shots,
        )


STAGE = Stage(
    name=NAME,
    config=SynthesiseConfig,
    tables={"generations": GENERATIONS},
    run=run,
    cut=EachPart("sentences", aligned=ALIGNED),
    libraries=("lemminflect",),
    uses=uses,
    externals=externals,
    locations=("params.prompt", "params.shots", "params.generator", *asking.LLM_LOCATIONS),
    asks=asks,
)
OVER_PASSAGES = replace(STAGE, cut=EachPart("passages"))
