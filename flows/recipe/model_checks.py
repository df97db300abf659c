"""Checks of the models that a recipe names, and of what it asks them."""

from typing import TYPE_CHECKING

from tercet.flows.recipe import discriminators, generator_pairs, named_models
from tercet.flows.recipe.generator_pairs import GENSE
from tercet.flows.recipe.misplaced import Misplaced, Place
from tercet.tasks.knowledge.extract import ExtractConfig
from tercet.tasks.synthesis.asking import sampling_of
from tercet.tasks.synthesis.fitted import FROM_SENTENCE
from tercet.tasks.synthesis.methods import PROMPTED_NAMES
from tercet.tasks.training.fit_generator import FitGeneratorSettings
from tercet.tasks.training.fit_gense import METHODS
from tercet.tasks.training.phases import PhaseSettings

if TYPE_CHECKING:
    from tercet.flows.recipe.model import Recipe

# Who writes a prompted method's texts unless it names a generator.
LLM = "llm"
# Forms that are made from a model of another form.
STARTS_FROM = {"vaegpt": "causal", GENSE: "t5"}
# The slot of a loss that reads counts of tokens, as only count_tokens makes them.
_FREQUENCIES = "frequencies"
# What a phase may call an encoder, beside the phases' own names.
_ENCODERS = ("base", "previous", "evaluator")
_COUNTS = "{!r} counts tokens, which is no model that could stand here: name another"


def check_names(recipe: "Recipe") -> None:
    """Names of models must lead somewhere, and makers must find their corpora."""
    phases = [phase.name for phase in recipe.train.phases]
    for message, below in named_models.faults(recipe.models, phases):
        raise Misplaced(message, "models", *below)
    for message, below in generator_pairs.faults(recipe):
        raise Misplaced(message, *below)
    for message, below in discriminators.faults(recipe):
        raise Misplaced(message, *below)
    for name, settings in recipe.models.items():
        for below, other in settings.models().items():
            # Another name for it is none of these.
            if below == ("take",):
                continue
            fault = discriminators.unfit(other, recipe.models)
            if named_models.counted(other, recipe.models):
                fault = _COUNTS.format(other)
            if fault:
                raise Misplaced(fault, "models", name, *below)
    for name, settings in recipe.models.items():
        own = settings.pretrain or settings.fit_generator
        if own is None:
            continue
        needed = STARTS_FROM.get(own.form, own.form)
        for slot, other in own.models().items():
            before = named_models.made_as(other, recipe.models)
            if before in (None, needed):
                continue
            takes = "starts from" if slot == "init" else "is judged by"
            raise Misplaced(
                f"the model {other!r} has the form {before}, but a model of form {own.form} "
                f"{takes} one of form {needed}",
                *("models", name, str(settings.maker), slot),
            )
    readable = [corpus.name for corpus in recipe.corpora if corpus.role != "labelled"]
    for name, settings in recipe.models.items():
        place: Place = ("models", name, "pretrain", "corpora")
        if settings.pretrain is None:
            continue
        for corpus in settings.pretrain.corpora:
            if corpus not in readable:
                known = ", ".join(readable) or "none"
                raise Misplaced(f"no corpus {corpus!r} has sentences, only: {known}", *place)
        if not readable:
            raise Misplaced(
                "no corpus has sentences to train on: add one of role pretrain under `corpora`",
                *place[:-1],
            )
    used: list[tuple[str | None, Place]] = [(recipe.backbone, ("backbone",))]
    if recipe.evaluator is not None:
        used.append((recipe.evaluator.model, ("evaluator", "model")))
    if recipe.awareness is not None:
        used.append((recipe.awareness.teacher, ("awareness", "teacher")))
    used.append((recipe.guard.encoder, ("guard", "encoder")))
    if recipe.measure_generators is not None:
        for key in ("encoder", "judge"):
            used.append((getattr(recipe.measure_generators, key), ("measure_generators", key)))
    for name, generator in recipe.generators.items():
        used.append((generator.model, ("generators", name, "model")))
    for model, place in used:
        fault = model and named_models.slip(model, recipe.models)
        if fault := fault or discriminators.unfit(model, recipe.models):
            raise Misplaced(fault, *place)
        if model and named_models.counted(model, recipe.models):
            raise Misplaced(_COUNTS.format(model), *place)


def check_phase(recipe: "Recipe", index: int, phase: PhaseSettings) -> None:
    """The models that a phase starts from, or that its losses read, must exist before it."""
    of_phase: Place = ("train", "phases", index)
    named: list[tuple[str, Place]] = [(phase.backbone, (*of_phase, "backbone"))]
    for number, part in enumerate(phase.parts):
        place: Place = (*of_phase, "parts", number, "models")
        named += [(name, (*place, slot)) for slot, name in part.models.items()]
    for name, place in named:
        if name == "evaluator" and recipe.evaluator is None:
            raise Misplaced(
                "there is no evaluator to take: name one under `evaluator`, or leave this key out",
                *place,
            )
        fault = named_models.slip(name, recipe.models) or _misspelt_phase(recipe, index, name)
        if fault := fault or discriminators.unfit(name, recipe.models):
            raise Misplaced(fault, *place)
        counts = place[-1] == _FREQUENCIES
        if named_models.counted(name, recipe.models) and not counts:
            raise Misplaced(_COUNTS.format(name), *place)
        encoders = {*_ENCODERS, *(other.name for other in recipe.train.phases), *recipe.models}
        if counts and name in encoders and not named_models.counted(name, recipe.models):
            raise Misplaced(
                f"{name!r} is a model, but the loss reads counts of tokens: name one that "
                "count_tokens makes",
                *place,
            )
        if name in [later.name for later in recipe.train.phases[index:]]:
            raise Misplaced(
                f"the phase {name!r} does not come before this one: name an earlier phase",
                *place,
            )


def _misspelt_phase(recipe: "Recipe", index: int, name: str) -> str | None:
    """What to say of a name that is nearly an earlier phase's, and no model's."""
    earlier = [phase.name for phase in recipe.train.phases[:index]]
    known = {*_ENCODERS, *recipe.models, *(phase.name for phase in recipe.train.phases)}
    nearest = None if name in known else named_models.nearest(name, earlier)
    return nearest and f"there is no phase {name!r}; the nearest is {nearest!r}"


def check_asking(recipe: "Recipe") -> None:
    """Steps that ask a model need one, and something that serves it."""
    asking: list[tuple[str, ...]] = [
        ("synthesise", name) for name in recipe.synthesise if writer(recipe, name) == LLM
    ]
    if recipe.extract_generate is not None:
        asking.insert(0, ("extract_generate",))
        if recipe.extract != ExtractConfig():
            raise Misplaced(
                "either rules extract (`extract`) or the language model (`extract_generate`)",
                "extract_generate",
            )
    if asking and recipe.llm is None:
        raise Misplaced(f"{asking[0][-1]} asks a language model: name it under `llm`", *asking[0])
    for _, name in (place for place in asking if place[0] == "synthesise"):
        params = recipe.synthesise[name].params
        greedy = recipe.llm is not None and not sampling_of(recipe.llm, params).by_seed
        if greedy and params.get("per_sentence", 1) > 1:
            raise Misplaced(
                f"at temperature 0 the model gives the same answer {params['per_sentence']} times",
                *("synthesise", name, "per_sentence"),
            )
    if recipe.llm is not None and recipe.llm.name is not None and not recipe.run.llm.endpoints:
        raise Misplaced(
            "a model given only by name must be served by an endpoint: list run.llm.endpoints, "
            "or give its files as `model`",
            *("llm", "name"),
        )
    _generating(recipe)


def _generating(recipe: "Recipe") -> None:
    """The generators that methods name must exist, and be able to do what is asked."""
    if LLM in recipe.generators:
        raise Misplaced(
            "llm is the name of the recipe's language model: give the generator another",
            *("generators", LLM),
        )
    for method in recipe.synthesise:
        name = writer(recipe, method)
        if name in (None, LLM):
            continue
        if name not in recipe.generators:
            known = ", ".join([LLM, *recipe.generators])
            raise Misplaced(
                f"there is no generator {name!r}: choose one of {known}, or list it under "
                "`generators`",
                *("synthesise", method, "generator"),
            )
        form = named_models.made_as(recipe.generators[name].model, recipe.models)
        if form == GENSE and method not in METHODS:
            raise Misplaced(
                f"the generator {name!r} is of form {GENSE}, which writes {' and '.join(METHODS)} "
                "alone: name another",
                *("synthesise", method, "generator"),
            )
        own_words = method in FROM_SENTENCE or form == GENSE
        if own_words and recipe.synthesise[method].params.get("prompt"):
            what = "the words that it was fitted to" if form == GENSE else "the sentence alone"
            raise Misplaced(
                f"{method} gives a generator {what}, so this prompt would not be read: leave it "
                + (f"out, or fit it to this file (prompts.{method})" if form == GENSE else "out"),
                *("synthesise", method, "prompt"),
            )
        params = recipe.synthesise[method].params
        count = params.get("per_sentence", 1)
        greedy = not sampling_of(recipe.generators[name].decoding(), params).by_seed
        if greedy and count > 1 and _without_noise(recipe, recipe.generators[name].model):
            raise Misplaced(
                f"at temperature 0 the generator writes the same text {count} times: give it a "
                "higher temperature, or ask once",
                *("synthesise", method, "per_sentence"),
            )


def _without_noise(recipe: "Recipe", model: str) -> bool:
    """Whether the recipe makes this model, and it has no noise that varies what it writes."""
    made = named_models.settings_of(model, recipe.models)
    fitted = made and made.fit_generator
    if not fitted:
        return False
    return not isinstance(fitted, FitGeneratorSettings) or not fitted.writes_with_noise


def writer(recipe: "Recipe", method: str) -> str | None:
    """Who writes a method's texts: `llm` or a generator's name; None for a rule."""
    if method not in PROMPTED_NAMES:
        return None
    return str(recipe.synthesise[method].params.get("generator", LLM))
