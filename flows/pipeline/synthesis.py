"""Steps that make candidates, by rules, a language model or fitted generators."""

from typing import Any

from tercet.flows.pipeline.language_model import served, weights_of, writer
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.resolved import LLM, Model, Resolved
from tercet.tasks.stage import Stage
from tercet.tasks.synthesis import asking, fitted, parse, prompted, synthesise
from tercet.tasks.synthesis.methods import METHODS, MethodSettings
from tercet.tasks.training import fit_gense
from tercet.tasks.training.fit_gense import FitGenseConfig, GensePrompts


def synthesis_steps(resolved: Resolved) -> list[Step]:
    recipe, steps = resolved.recipe, []
    if not recipe.synthesise:
        return []
    extracted = "extract" if recipe.extract_generate is None else "extract_parse"
    methods = {**recipe.synthesise}
    if recipe.select.pairing == "role":
        # The fallback for a missing negative is a candidate like any other.
        methods.setdefault("random", MethodSettings())
    sources = {"mentions": extracted, "sentence_categories": extracted}
    sources |= {"graph": "graph", "pool": "ingest"}
    for method, settings in methods.items():
        described = resolved.methods.get(method) or METHODS[method]
        inputs = {"sentences": ("ingest",), "anchors": ("sample",)}
        inputs |= {slot: (sources[slot],) for slot in described.needs if slot in sources}
        given = {"method": method, **settings.model_dump(exclude={"role"})}
        step = f"{synthesise.NAME}.{method}"
        if described.each == "passages":
            drawn = recipe.sample.passages
            given["passages"] = drawn
            inputs = {"passages": ("passages",)}
            if drawn is not None or described.open_passages is not None:
                inputs["every_passage"] = ("passages",)
        if method in resolved.writers:
            stage, config, models = _asked(resolved, method, given)
            steps.append(Step(step, stage, config, inputs, models))
        elif described.each == "passages":
            config = synthesise.OverPassagesConfig(**given)
            steps.append(Step(step, synthesise.OVER_PASSAGES, config, inputs))
        else:
            config = synthesise.SynthesiseConfig(**given)
            steps.append(Step(step, synthesise.STAGE, config, inputs))
    texts = tuple(step.name for step in steps)
    # Those that ask one model stand together, so that each is served once.
    names = [LLM, *recipe.generators]
    steps.sort(key=lambda step: names.index(writer(step) or LLM))
    read = {"generations": texts, "sentences": ("ingest",)}
    return [*steps, Step("parse", parse.STAGE, recipe.parse, read)]


def _asked(
    resolved: Resolved, method: str, given: dict[str, Any]
) -> tuple[Stage, synthesise.SynthesiseConfig, dict[str, Model]]:
    """The stage, config and models of a method that the language model or a generator answers."""
    recipe, name, params = resolved.recipe, resolved.writers[method], given["params"]
    if name == LLM:
        assert recipe.llm is not None
        sampling = asking.sampling_of(recipe.llm, params).model_dump()
        given |= {"params": {**params, **sampling}, "llm": served(recipe.llm)}
        if resolved.methods[method].each == "passages":
            over = prompted.PromptedOverPassagesConfig(**given)
            return prompted.OVER_PASSAGES, over, weights_of(recipe.llm)
        config = prompted.PromptedConfig(**given)
        return prompted.STAGE, config, weights_of(recipe.llm)
    settings, model = recipe.generators[name], resolved.models["generators", name, "model"]
    decoding, kind = settings.decoding(), given["like"] or method
    sampling = asking.sampling_of(decoding, params).model_dump()
    if kind in fit_gense.METHODS and params.get("prompt") is None:
        # A small model is asked in the few words that GenSE's is fitted to.
        fit = model.settings
        prompts = fit.prompts if isinstance(fit, FitGenseConfig) else GensePrompts()
        params = {**params, "prompt": str(prompts.path(kind))}
    given |= {
        "params": {**params, **sampling},
        "decoding": decoding.model_copy(update=sampling),
        "precision": settings.precision,
    }
    return fitted.STAGE, fitted.FittedConfig(**given), {fitted.SLOT: model.model}
