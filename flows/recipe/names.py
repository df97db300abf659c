"""Resolves the names in a recipe: models, corpora, methods, and who writes each method's texts."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, TypeAlias

from tercet.flows.recipe.faults import NAME, Faults, Misplaced, Place, nearest
from tercet.flows.recipe.model import ModelSettings, Recipe
from tercet.models.generation import Method
from tercet.models.losses.registry import FREQUENCIES
from tercet.models.weights import PACKAGE_PREFIX
from tercet.storage.runs import TAG_PREFIX
from tercet.tasks.corpus.sources.corpora import CorpusConfig
from tercet.tasks.scoring.score import Scorer
from tercet.tasks.stage import PACKAGE
from tercet.tasks.training.generator_pairs import least_of

# Who writes a prompted method's texts unless it names a generator.
LLM = "llm"
# The form of a fitted model that writes and judges, and paraphrases nothing.
GENSE = "gense"


@dataclass(frozen=True)
class Made:
    """A model that a step of the same pipeline makes."""

    step: str


@dataclass(frozen=True)
class Weights:
    """A model that exists: a directory, `package:PACKAGE/FOLDER` or a hub name."""

    name: str


@dataclass(frozen=True)
class Tagged:
    """A model that another run made in this store, by its tag (`tag:NAME` without the prefix)."""

    name: str


@dataclass(frozen=True)
class Trained:
    """The encoder of a phase of this recipe, of which each seed has its own."""

    phase: str


Model: TypeAlias = Made | Weights | Tagged


@dataclass(frozen=True)
class Reference:
    """The model that a name stands for.

    maker: the stage that makes it in this recipe; None for a model that exists, and for an encoder
        that is trained here. form: what that stage makes, as its settings call it.
    """

    source: Model | Trained
    maker: str | None = None
    form: str | None = None
    settings: Any = None

    @property
    def model(self) -> Model:
        """The source of a model that is the same for all seeds."""
        assert not isinstance(self.source, Trained)
        return self.source


@dataclass(frozen=True)
class Resolved:
    """A recipe whose names have been looked up.

    recipe: with the corpora's names in the place of roles and defaults, wherever it selects some.
    models: by the place that names one; of phases, `(train, phases, INDEX, backbone)`.
    evaluator: the frozen model that scores candidates. scorers: by name, with their settings.
    methods: by name, as the recipe changes them.
    writers: by method, who answers its prompts: `llm`, or the name of a generator.
    written: the recipe before that, without keys that have no effect. notes: these keys.
    """

    recipe: Recipe
    models: Mapping[Place, Reference]
    evaluator: Model | None
    scorers: Mapping[str, tuple[Scorer, Any]]
    methods: Mapping[str, Method]
    writers: Mapping[str, str]
    written: Recipe
    notes: Sequence[Misplaced]

    @property
    def has_queries(self) -> bool:
        """Whether methods write queries to passages, which become candidates and triplets."""
        return any(method.each == "passages" for method in self.methods.values())


# Forms of models that start from another form; every other form starts from itself.
_STARTS_FROM = {"vaegpt": "causal", GENSE: "t5"}
# Names with a meaning of their own where a phase names its backbone.
_TAKEN = re.compile(r"base|encoder|previous|evaluator|seed\d+")
# A name of the hub that is this close to one of `models:` is taken for a slip.
_ALIKE = 0.8
# A name of the hub holds no colon.
_PREFIXES = (PACKAGE_PREFIX, TAG_PREFIX)
EVALUATOR: Place = ("evaluator",)


def find_models(
    recipe: Recipe, defined: Mapping[str, Reference], faults: Faults
) -> dict[Place, Reference]:
    """The model at each place that names one; at `(evaluator,)` the model that scores.

    defined: the models under `models:`. faults: collects the names that mean nothing.
    """
    references: dict[Place, Reference] = {}
    for place, name in _places(recipe):
        with faults.catch():
            references[place] = _look_up(name, defined, place)
    for name, settings in recipe.models.items():
        with faults.catch():
            _check_forms(settings, ("models", name), references)
    if recipe.evaluator is not None:
        fitted = Reference(Made("fit_evaluator"))
        references[EVALUATOR] = references.get(("evaluator", "model"), fitted)
    for index in range(len(recipe.train.phases) if ("backbone",) in references else 0):
        with faults.catch():
            references.update(_find_of_phase(recipe, index, defined, references))
    return references


def find_judges(
    scorers: Mapping[str, tuple[Scorer, Any]], defined: Mapping[str, Reference], faults: Faults
) -> dict[Place, Reference]:
    """The models that scorers read, by `(score, NAME, SLOT)`.

    faults: collects the names that mean nothing.
    """
    references: dict[Place, Reference] = {}
    for scorer, (_, config) in scorers.items():
        for slot, name in (config.models() if hasattr(config, "models") else {}).items():
            with faults.catch():
                references["score", scorer, slot] = _find_judge(scorer, config, name, defined)
    return references


def _places(recipe: Recipe) -> Iterator[tuple[Place, str]]:
    """The places, except in phases, that name a model that encodes or writes texts."""
    for name, settings in recipe.models.items():
        for below, other in settings.models().items():
            if settings.maker is not None:
                yield ("models", name, *below), other
    places: list[tuple[Any, Place]] = [
        (recipe, ("backbone",)),
        (recipe.evaluator, ("evaluator", "model")),
        (recipe.awareness, ("awareness", "teacher")),
        (recipe.guard, ("guard", "encoder")),
        (recipe.measure_generators, ("measure_generators", "encoder")),
        (recipe.measure_generators, ("measure_generators", "judge")),
        *(
            (generator, ("generators", name, "model"))
            for name, generator in recipe.generators.items()
        ),
    ]
    for settings, place in places:
        named = None if settings is None else getattr(settings, str(place[-1]))
        if named is not None:
            yield place, named


def find_defined(recipe: Recipe) -> dict[str, Reference]:
    """The model that each name under `models:` stands for.

    Raises: Misplaced.
    """
    models = recipe.models
    phases = [phase.name for phase in recipe.train.phases]
    for name, model in models.items():
        if not NAME.fullmatch(name):
            fault = f"{name!r} is no name for a model: use letters, digits, _ and -"
            raise Misplaced("bad_value", fault, "models", name)
        if _TAKEN.fullmatch(name):
            fault = f"{name} means something else where a model is named: choose another"
            raise Misplaced("conflict", fault, "models", name)
        if name in phases:
            fault = f"a phase has the name {name} too: give one of them another"
            raise Misplaced("conflict", fault, "models", name)
        for place, other in model.models().items():
            _check_spelling(other, models, ("models", name, *place))
    references: dict[str, Reference] = {}
    for name in _in_order(models):
        settings = models[name]
        if settings.maker is None:
            references[name] = references.get(settings.take or "") or _existing(settings.take or "")
        else:
            form = getattr(settings.made, "form", None)
            references[name] = Reference(
                Made(f"{settings.maker}.{name}"), settings.maker, form, settings.made
            )
    return references


def _in_order(models: Mapping[str, ModelSettings]) -> list[str]:
    """The names of the models, each after the models that it is made from."""
    needs = {
        name: [other for other in settings.models().values() if other in models]
        for name, settings in models.items()
    }
    try:
        return list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        circle = error.args[1][:0:-1]
        start = circle.index(next(name for name in models if name in circle))
        chain = [*circle[start:], *circle[:start], circle[start]]
        slots = models[chain[0]].models().items()
        place = next(below for below, other in slots if other == chain[1])
        fault = f"models that need each other can never be made: {' → '.join(chain)}"
        raise Misplaced("conflict", fault, "models", chain[0], *place) from None


def _existing(name: str) -> Reference:
    if name.startswith(TAG_PREFIX):
        return Reference(Tagged(name.removeprefix(TAG_PREFIX)))
    return Reference(Weights(name))


def _check_spelling(name: str, defined: Mapping[str, Any], place: Place) -> None:
    """Raises Misplaced for a name that is most likely a misspelt name of `models:`."""
    if name in defined:
        return
    if alike := nearest(name, defined, _ALIKE):
        fault = f"there is no model {name!r} under `models`; the nearest is {alike!r}"
        raise Misplaced("unknown_name", fault, *place)
    prefix, colon, _ = name.partition(":")
    if not colon or f"{prefix}:" in _PREFIXES or "/" in prefix or Path(name).exists():
        return
    raise Misplaced(
        "bad_value",
        f"{name!r} has the unknown prefix {prefix + colon!r}: a model may begin with "
        f"{' or '.join(_PREFIXES)}, or is a directory, or a name on the hub",
        *place,
    )


def _look_up(name: str, defined: Mapping[str, Reference], place: Place) -> Reference:
    """A model that encodes or writes texts; for token frequencies, a model that counts tokens."""
    _check_spelling(name, defined, place)
    reference = defined.get(name) or _existing(name)
    if reference.maker == "fit_pair":
        raise Misplaced(
            "unfit_model",
            f"{name!r} judges pairs of vectors and neither encodes nor writes texts: name it under "
            "`score.pair` alone",
            *place,
        )
    if reference.maker == "count_tokens" and place[-1] != FREQUENCIES:
        fault = f"{name!r} counts tokens, which is no model that could stand here: name another"
        raise Misplaced("unfit_model", fault, *place)
    return reference


def _check_forms(
    settings: ModelSettings, place: Place, references: Mapping[Place, Reference]
) -> None:
    """Raises Misplaced if a model starts from, or is judged by, one of the wrong form."""
    form = getattr(settings.made, "form", None)
    if form is None:
        return
    needed = _STARTS_FROM.get(form, form)
    for below, name in settings.models().items():
        before = getattr(references.get((*place, *below)), "form", None)
        if before not in (None, needed):
            takes = "starts from" if below[-1] == "init" else "is judged by"
            raise Misplaced(
                "unfit_model",
                f"the model {name!r} has the form {before}, but a model of form {form} "
                f"{takes} one of form {needed}",
                *(*place, *below),
            )


def _find_of_phase(
    recipe: Recipe,
    index: int,
    defined: Mapping[str, Reference],
    references: Mapping[Place, Reference],
) -> Iterator[tuple[Place, Reference]]:
    """The models that a phase starts from, or that its losses read: they must exist before it."""
    phase = recipe.train.phases[index]
    of_phase: Place = ("train", "phases", index)
    earlier = [other.name for other in recipe.train.phases[:index]]
    fixed = {name: Reference(Trained(name)) for name in earlier}
    fixed["base"] = references["backbone",]
    fixed["previous"] = fixed[earlier[-1]] if earlier else fixed["base"]
    named: list[tuple[str, Place]] = [(phase.backbone, (*of_phase, "backbone"))]
    for number, part in enumerate(phase.parts):
        place: Place = (*of_phase, "parts", number, "models")
        named += [(name, (*place, slot)) for slot, name in part.models.items()]
    for name, place in named:
        if name == "evaluator":
            if EVALUATOR not in references:
                raise Misplaced(
                    "missing_key",
                    "there is no evaluator to take: name one under `evaluator`, or leave this key "
                    "out",
                    *place,
                )
            fixed[name] = references[EVALUATOR]
        if name in [later.name for later in recipe.train.phases[index:]]:
            raise Misplaced(
                "conflict",
                f"the phase {name!r} does not come before this one: name an earlier phase",
                *place,
            )
        is_model = name in fixed or name in defined
        if not is_model and (alike := nearest(name, earlier, _ALIKE)):
            raise Misplaced(
                "unknown_name", f"there is no phase {name!r}; the nearest is {alike!r}", *place
            )
        model = fixed.get(name) or _look_up(name, defined, place)
        if place[-1] == FREQUENCIES and is_model and model.maker != "count_tokens":
            raise Misplaced(
                "unfit_model",
                f"{name!r} is a model, but the loss reads counts of tokens: name one that "
                "count_tokens makes",
                *place,
            )
        yield place, model


def _find_judge(scorer: str, config: Any, name: str, defined: Mapping[str, Reference]) -> Reference:
    """The model of a scorer. Raises Misplaced if it lacks the maker that the scorer needs."""
    place: Place = ("score", scorer, "model")
    _check_spelling(name, defined, place)
    reference = defined.get(name) or _existing(name)
    needed = getattr(config, "made_by", None)
    if needed is not None and reference.maker != needed:
        fault = f"{name!r} is not one of `models` that {needed} makes: name one"
        raise Misplaced("unfit_model", fault, *place)
    if reference.form == GENSE and getattr(config, "question", None):
        raise Misplaced(
            "no_effect",
            f"{name!r} judges in the words that it was fitted to: leave this key out, or give them "
            "as its fit_generator.question",
            *("score", scorer, "question"),
        )
    if needed is None and reference.maker and reference.form != GENSE:
        raise Misplaced(
            "unfit_model",
            f"{name!r} judges nothing: name a model that fit_generator makes with form: {GENSE}",
            *place,
        )
    return reference


# Kinds of labelled rows that have no false pairs.
_WITHOUT_FALSE = ("scored", "definitions")
_ABOVE = (
    "the corpus {!r} is scored, so that only pairs of a high label are paraphrases: give the least "
    "label, {}"
)


def select_corpora(recipe: Recipe, models: Mapping[Place, Reference], faults: Faults) -> Recipe:
    """The recipe with names of corpora wherever it selects some by role or by leaving them out.

    Steps depend on these names alone, so renaming a role remakes nothing. A step that takes rows of
    all corpora names none.
    models: the models that the recipe names, by their places. faults: collects the names that mean
    nothing; settings with one stay as they are.
    """
    makers, methods = {**recipe.models}, {**recipe.synthesise}
    for name, settings in recipe.models.items():
        with faults.catch():
            makers[name] = _of_maker(recipe, name, settings)
    for method, amount in recipe.synthesise.items():
        with faults.catch():
            methods[method] = _select(recipe, amount, ("synthesise", method))
    measured = recipe.measure_generators
    with faults.catch():
        measured = _measured(recipe, models)
    phases = []
    for index, phase in enumerate(recipe.train.phases):
        parts = []
        for number, part in enumerate(phase.parts):
            # In a phase written flat, the part's keys are in the phase itself.
            place: Place = ("train", "phases", index, "parts", number, "rows")
            with faults.catch():
                part = part.model_copy(update={"rows": _select(recipe, part.rows, place)})
            parts.append(part)
        phases.append(phase.model_copy(update={"parts": tuple(parts)}))
    changes = {
        "models": makers,
        "synthesise": methods,
        "train": recipe.train.model_copy(update={"phases": tuple(phases)}),
        "measure_generators": measured,
    }
    return recipe.model_copy(update=changes)


def _select(recipe: Recipe, settings: Any, place: Place) -> Any:
    """The settings with the names of corpora that exist and give sentences."""
    role = getattr(settings, "role", None)
    corpora = {corpus.name: corpus for corpus in recipe.corpora}
    for name in settings.corpora:
        if name not in corpora:
            fault = f"there is no corpus {name!r}, only: {_listed(recipe.unlabelled)}"
            raise Misplaced("unknown_name", fault, *place, "corpora")
        if corpora[name].role == "labelled":
            fault = f"the corpus {name!r} is labelled and gives no sentences: leave it out"
            raise Misplaced("no_effect", fault, *place, "corpora")
        if corpora[name].role == "pretrain":
            raise Misplaced(
                "no_effect",
                f"the corpus {name!r} has role pretrain and gives no anchors: leave it out, or "
                "give it the role general",
                *(*place, "corpora"),
            )
    if role is None:
        return settings
    if not (of_role := _of_role(recipe, role)):
        fault = f"no corpus has the role {role}: give it to one under `corpora`"
        raise Misplaced("missing_key", fault, *place, "role")
    return settings.model_copy(update={"corpora": settings.corpora or of_role, "role": None})


def _of_role(recipe: Recipe, role: str) -> tuple[str, ...]:
    return tuple(corpus.name for corpus in recipe.corpora if corpus.role == role)


def _listed(corpora: Sequence[CorpusConfig]) -> str:
    return ", ".join(corpus.name for corpus in corpora) or "none"


def _of_maker(recipe: Recipe, name: str, settings: ModelSettings) -> ModelSettings:
    """Fills in the corpora that the model is made from."""
    if settings.maker is None:
        return settings
    place: Place = ("models", name, settings.maker)
    stage: Any = settings.made
    if settings.pretrain is not None:
        stage = stage.model_copy(update={"corpora": _to_pretrain(recipe, stage.corpora, place)})
    elif settings.count_tokens is not None:
        _select(recipe, stage, place)
        if not recipe.unlabelled:
            raise Misplaced(
                "missing_key",
                "no corpus gives sentences to count in: add one of role domain or general under "
                "`corpora`",
                *place,
            )
        corpora = stage.corpora or tuple(corpus.name for corpus in recipe.unlabelled)
        stage = stage.model_copy(update={"corpora": corpora})
    elif settings.fit_pair is not None:
        if recipe.evaluator is None:
            fault = "there is no evaluator whose vectors it could read: name one"
            raise Misplaced("missing_key", fault, "evaluator")
        stage = _judged(recipe, stage, place)
    else:
        chosen = _judged if stage.form == GENSE else _rewritten
        pairs = chosen(recipe, stage.pairs, (*place, "pairs"))
        stage = stage.model_copy(update={"pairs": pairs})
    return settings.model_copy(update={settings.maker: stage})


def _to_pretrain(recipe: Recipe, named: Sequence[str], place: Place) -> tuple[str, ...]:
    readable = [corpus for corpus in recipe.corpora if corpus.role != "labelled"]
    for corpus in named:
        if corpus not in [one.name for one in readable]:
            fault = f"no corpus {corpus!r} has sentences, only: {_listed(readable)}"
            raise Misplaced("unknown_name", fault, *place, "corpora")
    if not readable:
        raise Misplaced(
            "missing_key",
            "no corpus has sentences to train on: add one of role pretrain under `corpora`",
            *place,
        )
    every = tuple(corpus.name for corpus in recipe.unlabelled)
    return tuple(named) or _of_role(recipe, "pretrain") or every


def _judged(recipe: Recipe, pairs: Any, place: Place) -> Any:
    """Fills in the labelled corpora that a discriminator learns from: by default all but dev's.

    pairs: the discriminator's settings, with `corpora` and `dev`.
    """
    labelled = {corpus.name: corpus for corpus in recipe.labelled}
    if not labelled:
        raise Misplaced(
            "missing_key", "there are no pairs to fit to: add a corpus of role labelled", *place
        )
    learnt = pairs.corpora or tuple(name for name in labelled if name not in pairs.dev)
    named = [(name, "corpora") for name in learnt] + [(name, "dev") for name in pairs.dev]
    for name, key in named:
        if name not in labelled:
            fault = f"no corpus {name!r} has labelled pairs, only: {', '.join(labelled)}"
            raise Misplaced("unknown_name", fault, *place, key)
        if labelled[name].kind in _WITHOUT_FALSE:
            raise Misplaced(
                "conflict",
                f"the corpus {name!r} is of kind {labelled[name].kind}, which says of no pair that "
                "it is false: name corpora of kind entailment or triplets",
                *(*place, key),
            )
        if key == "dev" and name in learnt:
            fault = f"the corpus {name!r} is learnt from too: leave it out of one"
            raise Misplaced("conflict", fault, *place, key)
    if not learnt:
        fault = "every labelled corpus is held out: name another to learn from"
        raise Misplaced("no_rows", fault, *place, "dev")
    return pairs.model_copy(update={"corpora": learnt})


def _rewritten(recipe: Recipe, pairs: Any, place: Place) -> Any:
    """Fills in the corpora whose pairs or sentences a generator is fitted to."""
    if not pairs.corpora and not recipe.labelled:
        raise Misplaced(
            "missing_key",
            "there are no pairs to fit to: add a corpus of role labelled, or name one of sentences "
            "under pairs.corpora, each of which is then its own target",
            *place,
        )
    readable = [*recipe.labelled, *recipe.unlabelled]
    remedy = "or set unsupervised: true, which takes each text for itself"
    chosen = _paraphrases(recipe, readable, pairs, place, None if pairs.unsupervised else remedy)
    return pairs.model_copy(update={"corpora": chosen})


def _measured(recipe: Recipe, models: Mapping[Place, Reference]) -> Any:
    """The settings of the generators' measurement, with the labelled corpora of its pairs."""
    place, settings = ("measure_generators",), recipe.measure_generators
    if settings is None:
        return None
    forms = [models.get(("generators", name, "model")) for name in recipe.generators]
    if all(reference is not None and reference.form == GENSE for reference in forms):
        raise Misplaced(
            "no_effect",
            f"the generators are of form {GENSE}, which writes no paraphrases to measure: leave "
            "this out",
            *place,
        )
    if not recipe.labelled:
        fault = "there are no pairs to measure on: add a corpus of role labelled"
        raise Misplaced("missing_key", fault, *place)
    remedy = "or name other corpora"
    chosen = _paraphrases(recipe, recipe.labelled, settings, place, remedy)
    return settings.model_copy(update={"corpora": chosen})


def _paraphrases(
    recipe: Recipe,
    readable: Sequence[CorpusConfig],
    settings: Any,
    place: Place,
    remedy: str | None,
) -> tuple[str, ...]:
    """The names of the chosen corpora, by default of all labelled corpora.

    settings: with `corpora` and `above`. remedy: besides `above`, for a scored corpus that has no
    least label; None: it needs none.
    """
    names, above = settings.corpora, settings.above
    corpora = {corpus.name: corpus for corpus in readable}
    for name in names:
        if name not in corpora:
            fault = f"no corpus {name!r} has pairs to take, only: {_listed(readable)}"
            raise Misplaced("unknown_name", fault, *place, "corpora")
    chosen = names or tuple(corpus.name for corpus in recipe.labelled)
    for name in chosen:
        if corpora[name].kind == "definitions":
            raise Misplaced(
                "unfit_model",
                f"the corpus {name!r} has definitions, which are no pairs: name other corpora",
                *(*place, "corpora"),
            )
    scored = [name for name in chosen if corpora[name].kind == "scored"]
    if above is not None and not scored:
        fault = "only corpora of kind scored have labels to be above: leave this out"
        raise Misplaced("no_effect", fault, *place, "above")
    unknown = [name for name in above if name not in scored] if isinstance(above, dict) else []
    if unknown:
        raise Misplaced(
            "unknown_name",
            f"{unknown[0]!r} is no corpus of kind scored whose pairs are taken, only: "
            f"{', '.join(scored)}",
            *(*place, "above"),
        )
    for name in scored:
        if remedy is not None and least_of(above, name) is None:
            raise Misplaced("missing_key", _ABOVE.format(name, remedy), *place, "above")
    return chosen


_OF_TERCET = f"{PACKAGE}tercet."


def is_shipped(source: str) -> bool:
    """Whether a corpus's source, or a file of evaluation, comes with Tercet."""
    return source.startswith(_OF_TERCET)


def shipped_corpora(recipe: Mapping[str, Any]) -> list[str]:
    """The names of a recipe's corpora that come with Tercet. recipe: as its run has recorded it."""
    corpora = recipe.get("corpora") or ()
    return [corpus["name"] for corpus in corpora if is_shipped(str(corpus.get("source")))]


def count_apart(documents: Mapping[str, int], shipped: Collection[str]) -> str:
    """Documents by corpus in words: the user's, and the shipped ones.

    Empty if all documents are the user's, or all are shipped.
    """
    of_tercet = sum(count for corpus, count in documents.items() if corpus in shipped)
    yours = sum(documents.values()) - of_tercet
    if not yours or not of_tercet:
        return ""
    documents_of_yours = "1 document of yours" if yours == 1 else f"{yours:,} documents of yours"
    come = "1 that comes" if of_tercet == 1 else f"{of_tercet:,} that come"
    return f"{documents_of_yours}, {come} with Tercet"
