"""Steps that make candidates, by rules, a language model or fitted generators."""

from collections.abc import Mapping
from typing import Any

from tercet.flows.pipeline.corpus import of_role
from tercet.flows.pipeline.language_model import generator, llm, served, writer
from tercet.flows.pipeline.scoring import scoring_steps
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.model_checks import LLM
from tercet.flows.recipe.named_models import settings_of
from tercet.tasks.synthesis import asking, fitted, parse, prompted, synthesise
from tercet.tasks.synthesis.methods import PROMPTED_NAMES, needs
from tercet.tasks.training.fit_gense import METHODS, FitGenseSettings, GensePrompts


def synthesis_steps(recipe: Recipe) -> list[Step]:
    steps: list[Step] = []
    extracted = "extract" if recipe.extract_generate is None else "extract_parse"
    methods = {**recipe.synthesise}
    if recipe.select.pairing == "role":
        # The fallback for a missing negative is a candidate like any other.
        methods.setdefault("random", synthesise.MethodSettings())
    sources = {"mentions": extracted, "sentence_categories": extracted}
    sources |= {"graph": "graph", "pool": "ingest"}
    texts = []
    for method, settings in methods.items():
        inputs = {"sentences": ("ingest",), "anchors": ("sample",)}
        inputs |= {s: (sources[s],) for s in needs(method) if s in sources}
        name, given = f"{synthesise.NAME}.{method}", {"method": method, **settings.model_dump()}
        # A role is replaced by its corpora's names, so that renaming a role remakes nothing.
        given |= {"corpora": settings.corpora or of_role(recipe, settings.role), "role": None}
        if method in PROMPTED_NAMES:
            steps.append(prompted_step(recipe, name, given, inputs))
        else:
            config = synthesise.SynthesiseConfig(**given)
            steps.append(Step(name, synthesise.STAGE, config, inputs))
        texts.append(f"synthesise.{method}")
    # Those that ask one model stand together, so that each is served once.
    names = [LLM, *recipe.generators]
    steps.sort(key=lambda step: names.index(writer(step) or LLM))
    steps.append(
        Step(
            "parse",
            parse.STAGE,
            recipe.parse,
            {"generations": tuple(texts), "sentences": ("ingest",)},
        )
    )
    return [*steps, *scoring_steps(recipe)]


def prompted_step(
    recipe: Recipe, name: str, given: Mapping[str, Any], inputs: Mapping[str, tuple[str, ...]]
) -> Step:
    who = given["params"].get("generator", LLM)
    if who != LLM:
        return _fitted_step(recipe, name, given, inputs)
    assert recipe.llm is not None
    sampling = asking.sampling_of(recipe.llm, given["params"])
    config = prompted.PromptedConfig(
        method=given["method"],
        weight=given["weight"],
        corpora=given["corpora"],
        params={**given["params"], **sampling.model_dump()},
        llm=served(recipe.llm),
    )
    return Step(name, prompted.STAGE, config, inputs, llm(recipe))


def _fitted_step(
    recipe: Recipe, name: str, given: Mapping[str, Any], inputs: Mapping[str, tuple[str, ...]]
) -> Step:
    method, params = given["method"], given["params"]
    settings = recipe.generators[params["generator"]]
    usual = settings.decoding()
    sampling = asking.sampling_of(usual, params)
    if method in METHODS and params.get("prompt") is None:
        # A small model is asked in the few words that GenSE's is fitted to.
        made = settings_of(settings.model, recipe.models)
        fit = made and made.fit_generator
        prompts = fit.prompts if isinstance(fit, FitGenseSettings) else GensePrompts()
        params = {**params, "prompt": str(prompts.path(method))}
    config = fitted.FittedConfig(
        method=method,
        weight=given["weight"],
        corpora=given["corpora"],
        params={**params, **sampling.model_dump()},
        decoding=usual.model_copy(update=sampling.model_dump()),
        precision=settings.precision,
    )
    models = generator(recipe, params["generator"], method)
    return Step(name, fitted.STAGE, config, inputs, models)
