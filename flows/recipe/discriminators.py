"""Whether discriminators find the pairs and vectors that they need, and scorers their models."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tercet.flows.recipe.generator_pairs import GENSE
from tercet.flows.recipe.named_models import Fault, ModelSettings, made_as, slip
from tercet.tasks.scoring.scorers import scorer_named
from tercet.tasks.training.fit_gense import FitGenseSettings

if TYPE_CHECKING:
    from tercet.flows.recipe.model import Recipe

# Kinds of labelled rows that say of no pair that it is false.
_WITHOUT_FALSE = ("scored", "definitions")


def faults(recipe: "Recipe") -> Iterator[Fault]:
    """What is wrong, each with its place in the recipe."""
    labelled = {corpus.name: corpus for corpus in recipe.labelled}
    for name, settings in recipe.models.items():
        if settings.fit_pair is not None:
            place: tuple[str, ...] = ("models", name, "fit_pair")
            corpora, dev = settings.fit_pair.corpora, settings.fit_pair.dev
        elif isinstance(settings.fit_generator, FitGenseSettings):
            place = ("models", name, "fit_generator", "pairs")
            pairs = settings.fit_generator.pairs
            corpora, dev = pairs.corpora, pairs.dev
        else:
            continue
        if settings.fit_pair is not None and recipe.evaluator is None:
            yield "there is no evaluator whose vectors it could read: name one", ("evaluator",)
        if not labelled:
            yield "there are no pairs to fit to: add a corpus of role labelled", place
        others = corpora or tuple(name for name in labelled if name not in dev)
        for corpus, key in [
            *((name, "corpora") for name in others),
            *((name, "dev") for name in dev),
        ]:
            kind = labelled[corpus].kind if corpus in labelled else None
            if corpus not in labelled:
                known = ", ".join(labelled) or "none"
                yield f"no corpus {corpus!r} has labelled pairs, only: {known}", (*place, key)
            elif kind in _WITHOUT_FALSE:
                yield (
                    f"the corpus {corpus!r} is of kind {kind}, which says of no pair that it is "
                    "false: name corpora of kind entailment or triplets",
                    (*place, key),
                )
            elif key == "dev" and corpus in others:
                yield (
                    f"the corpus {corpus!r} is learnt from too: leave it out of one",
                    (*place, key),
                )
        if labelled and not others:
            yield "every labelled corpus is held out: name another to learn from", (*place, "dev")


def scorer_faults(recipe: "Recipe") -> Iterator[Fault]:
    """The models that scorers name must exist, and be made by what they need."""
    for scorer, given in recipe.score.items():
        config: Any = scorer_named(scorer).stage.config.model_validate(given or {})
        if not hasattr(config, "models"):
            continue
        needed = getattr(config, "made_by", None)
        for name in config.models().values():
            place = ("score", scorer, "model")
            if fault := slip(name, recipe.models):
                yield fault, place
            elif getattr(config, "question", None) and made_as(name, recipe.models) == GENSE:
                yield (
                    f"{name!r} judges in the words that it was fitted to: leave this key out, or "
                    "give them as its fit_generator.question",
                    ("score", scorer, "question"),
                )
            elif needed is not None and made_by(name, recipe.models) != needed:
                yield f"{name!r} is not one of `models` that {needed} makes: name one", place
            elif (
                needed is None
                and made_by(name, recipe.models)
                and made_as(name, recipe.models) != GENSE
            ):
                yield (
                    f"{name!r} judges nothing: name a model that fit_generator makes with form: "
                    f"{GENSE}",
                    place,
                )


def made_by(name: str, models: Mapping[str, ModelSettings]) -> str | None:
    """The stage that makes the model of this name in the recipe; None if none does."""
    while name in models and models[name].take is not None:
        name = models[name].take or ""
    return models[name].maker if name in models else None


def unfit(name: str | None, models: Mapping[str, ModelSettings]) -> str | None:
    """What to say where a model is wanted and this one is only numbers about vectors."""
    if name is None or made_by(name, models) != "fit_pair":
        return None
    return (
        f"{name!r} judges pairs of vectors and neither encodes nor writes texts: name it under "
        "`score.pair` alone"
    )
