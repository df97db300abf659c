"""Looks up the corpora that a recipe selects, by name, by role or by default."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tercet.flows.recipe.model import ModelSettings, Recipe
from tercet.flows.recipe.resolved import GENSE, Faults, Misplaced, Place, Reference
from tercet.tasks.corpus.sources.corpora import CorpusConfig
from tercet.tasks.stage import PACKAGE
from tercet.tasks.training.generator_pairs import least_of

# Kinds of labelled rows that say of no pair that it is false.
_WITHOUT_FALSE = ("scored", "definitions")
_ABOVE = (
    "the corpus {!r} is scored, so that only pairs of a high label are paraphrases: give the least "
    "label, {}"
)


def select_corpora(recipe: Recipe, models: Mapping[Place, Reference], faults: Faults) -> Recipe:
    """The recipe with names of corpora wherever it selects some by role or by leaving them out.

    So renaming a role remakes nothing. Where a step takes rows of all corpora, none is named.
    models: those that the recipe names, by their places. faults: takes those that are found, whose
    settings stay as they are.
    """
    made, methods = {**recipe.models}, {**recipe.synthesise}
    for name, settings in recipe.models.items():
        with faults.catch():
            made[name] = _of_maker(recipe, name, settings)
    for method, own in recipe.synthesise.items():
        with faults.catch():
            methods[method] = _select(recipe, own, ("synthesise", method))
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
    given = {
        "models": made,
        "synthesise": methods,
        "train": recipe.train.model_copy(update={"phases": tuple(phases)}),
        "measure_generators": measured,
    }
    return recipe.model_copy(update=given)


def _select(recipe: Recipe, settings: Any, place: Place) -> Any:
    """The settings with the names of corpora that exist and give sentences."""
    role = getattr(settings, "role", None)
    known = {corpus.name: corpus for corpus in recipe.corpora}
    for name in settings.corpora:
        if name not in known:
            fault = f"there is no corpus {name!r}, only: {_listed(recipe.unlabelled)}"
            raise Misplaced("unknown_name", fault, *place, "corpora")
        if known[name].role == "labelled":
            fault = f"the corpus {name!r} is labelled and gives no sentences: leave it out"
            raise Misplaced("no_effect", fault, *place, "corpora")
        if known[name].role == "pretrain":
            raise Misplaced(
                "no_effect",
                f"the corpus {name!r} has role pretrain and gives no anchors: leave it out, or "
                "give it the role general",
                *(*place, "corpora"),
            )
    if role is None:
        return settings
    if not (corpora := _of_role(recipe, role)):
        fault = f"no corpus has the role {role}: give it to one under `corpora`"
        raise Misplaced("missing_key", fault, *place, "role")
    return settings.model_copy(update={"corpora": settings.corpora or corpora, "role": None})


def _of_role(recipe: Recipe, role: str) -> tuple[str, ...]:
    return tuple(corpus.name for corpus in recipe.corpora if corpus.role == role)


def _listed(corpora: Sequence[CorpusConfig]) -> str:
    return ", ".join(corpus.name for corpus in corpora) or "none"


def _of_maker(recipe: Recipe, name: str, settings: ModelSettings) -> ModelSettings:
    """With the corpora that the model is made from."""
    if settings.maker is None:
        return settings
    place: Place = ("models", name, settings.maker)
    made: Any = settings.made
    if settings.pretrain is not None:
        made = made.model_copy(update={"corpora": _to_pretrain(recipe, made.corpora, place)})
    elif settings.count_tokens is not None:
        _select(recipe, made, place)
        if not recipe.unlabelled:
            raise Misplaced(
                "missing_key",
                "no corpus gives sentences to count in: add one of role domain or general under "
                "`corpora`",
                *place,
            )
        corpora = made.corpora or tuple(corpus.name for corpus in recipe.unlabelled)
        made = made.model_copy(update={"corpora": corpora})
    elif settings.fit_pair is not None:
        if recipe.evaluator is None:
            fault = "there is no evaluator whose vectors it could read: name one"
            raise Misplaced("missing_key", fault, "evaluator")
        made = _judged(recipe, made, place)
    else:
        chosen = _judged if made.form == GENSE else _rewritten
        pairs = chosen(recipe, made.pairs, (*place, "pairs"))
        made = made.model_copy(update={"pairs": pairs})
    return settings.model_copy(update={settings.maker: made})


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
    """With the labelled corpora that a discriminator learns from: by default all but those of dev.

    pairs: with `corpora` and `dev`.
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
    """With the corpora whose pairs or sentences a generator is fitted to."""
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
    if all(found is not None and found.form == GENSE for found in forms):
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
    """The names of the corpora that are chosen, by default all labelled ones.

    settings: with `corpora` and `above`. remedy: besides `above`, for a scored corpus that has no
    least label; None: it needs none.
    """
    names, above = settings.corpora, settings.above
    known = {corpus.name: corpus for corpus in readable}
    for name in names:
        if name not in known:
            fault = f"no corpus {name!r} has pairs to take, only: {_listed(readable)}"
            raise Misplaced("unknown_name", fault, *place, "corpora")
    chosen = names or tuple(corpus.name for corpus in recipe.labelled)
    for name in chosen:
        if known[name].kind == "definitions":
            raise Misplaced(
                "unfit_model",
                f"the corpus {name!r} has definitions, which are no pairs: name other corpora",
                *(*place, "corpora"),
            )
    scored = [name for name in chosen if known[name].kind == "scored"]
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
    """Documents by corpus in words: the user's own, and those that come with Tercet.

    Empty where there are only those of one kind.
    """
    of_tercet = sum(count for corpus, count in documents.items() if corpus in shipped)
    own = sum(documents.values()) - of_tercet
    if not own or not of_tercet:
        return ""
    documents_of_yours = "1 document of yours" if own == 1 else f"{own:,} documents of yours"
    come = "1 that comes" if of_tercet == 1 else f"{of_tercet:,} that come"
    return f"{documents_of_yours}, {come} with Tercet"
