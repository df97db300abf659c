"""Checks of who answers what a recipe asks: its language model, and fitted generators."""

from tercet.flows.recipe.misplaced import Misplaced, Place
from tercet.flows.recipe.resolved import GENSE, LLM, Resolved
from tercet.tasks.knowledge.extract import ExtractConfig
from tercet.tasks.synthesis import fitted, prompted
from tercet.tasks.synthesis.asking import sampling_of
from tercet.tasks.training.fit_gense import METHODS


def check_asking(resolved: Resolved) -> None:
    """Steps that ask the language model need one, and something that serves it; those that ask a
    generator need one that can answer. Raises Misplaced for the first fault."""
    recipe = resolved.recipe
    asking: list[Place] = [("synthesise", m) for m, who in resolved.writers.items() if who == LLM]
    if recipe.extract_generate is not None:
        asking.insert(0, ("extract_generate",))
        if recipe.extract != ExtractConfig():
            raise Misplaced(
                "either rules extract (`extract`) or the language model (`extract_generate`)",
                "extract_generate",
            )
    if asking and recipe.llm is None:
        raise Misplaced(f"{asking[0][-1]} asks a language model: name it under `llm`", *asking[0])
    for place in asking:
        params = recipe.synthesise[str(place[-1])].params if place[1:] else {}
        times = params.get("per_unit", 1)
        if times > 1 and recipe.llm is not None and not sampling_of(recipe.llm, params).by_seed:
            fault = f"at temperature 0 the model gives the same answer {times} times"
            raise Misplaced(fault, *place, "per_unit")
    if recipe.llm is not None and recipe.llm.name is not None and not recipe.run.llm.endpoints:
        raise Misplaced(
            "a model given only by name must be served by an endpoint: list run.llm.endpoints, "
            "or give its files as `model`",
            *("llm", "name"),
        )
    if LLM in recipe.generators:
        raise Misplaced(
            "llm is the name of the recipe's language model: give the generator another",
            *("generators", LLM),
        )
    for method, name in resolved.writers.items():
        if name != LLM:
            _check_generator(resolved, method, name)


def _check_generator(resolved: Resolved, method: str, name: str) -> None:
    """The generator that a method names must exist, and be able to do what is asked."""
    recipe, place = resolved.recipe, ("synthesise", method)
    if resolved.methods[method].each == "passages":
        raise Misplaced(
            f"{method} asks the language model about passages, and a generator answers sentences: "
            "leave generator out",
            *(*place, "generator"),
        )
    if name not in recipe.generators:
        known = ", ".join([LLM, *recipe.generators])
        raise Misplaced(
            f"there is no generator {name!r}: choose one of {known}, or list it under `generators`",
            *(*place, "generator"),
        )
    params, settings = recipe.synthesise[method].params, recipe.generators[name]
    found = resolved.models["generators", name, "model"]
    kind = recipe.synthesise[method].like or method
    if found.form == GENSE and kind not in METHODS:
        raise Misplaced(
            f"the generator {name!r} is of form {GENSE}, which writes {' and '.join(METHODS)} "
            "alone: name another",
            *(*place, "generator"),
        )
    if params.get("prompt") and (kind in fitted.FROM_SENTENCE or found.form == GENSE):
        what = "the words that it was fitted to" if found.form == GENSE else "the sentence alone"
        raise Misplaced(
            f"{method} gives a generator {what}, so this prompt would not be read: leave it "
            + (f"out, or fit it to this file (prompts.{kind})" if found.form == GENSE else "out"),
            *(*place, "prompt"),
        )
    if params.get("shots") not in (None, prompted.BUILTIN):
        raise Misplaced(
            f"a generator is shown no worked examples: leave shots out, or let {LLM} answer",
            *(*place, "shots"),
        )
    if found.maker is None:
        # Its files tell the rest.
        return
    if found.maker != "fit_generator":
        raise Misplaced(
            f"{settings.model} is made by {found.maker}, which fits no generator: name a model "
            "that fit_generator makes",
            *("generators", name, "model"),
        )
    times, made = params.get("per_unit", 1), found.settings
    noise = found.form != GENSE and made.writes_with_noise
    if times > 1 and not noise and not sampling_of(settings.decoding(), params).by_seed:
        raise Misplaced(
            f"at temperature 0 the generator writes the same text {times} times: give it a "
            "higher temperature, or ask once",
            *(*place, "per_unit"),
        )
    fitted.check_method(kind, name, follows_prompts=found.form == GENSE)
    fitted.check_backend(name, settings.backend, "t5" if found.form == GENSE else str(found.form))
