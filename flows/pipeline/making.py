"""Steps that make the models under `models:`, whether or not anything uses them."""

from collections.abc import Callable, Mapping

from tercet.flows.pipeline.corpus import of_role
from tercet.flows.pipeline.guarding import guarded
from tercet.flows.pipeline.named_models import model_named
from tercet.flows.pipeline.scoring import evaluator
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.model import Recipe
from tercet.tasks.training import count_tokens, fit_generator, fit_gense, fit_pair, pretrain
from tercet.tasks.training.fit_generator import FitGeneratorSettings
from tercet.tasks.training.fit_gense import FitGenseSettings


def model_steps(recipe: Recipe) -> list[Step]:
    """A step for each model that is made, in the recipe's order."""
    made = {name: settings.maker for name, settings in recipe.models.items()}
    return [MAKERS[maker](recipe, name) for name, maker in made.items() if maker is not None]


def pretrain_step(recipe: Recipe, name: str) -> Step:
    settings = recipe.models[name].pretrain
    assert settings is not None
    of_role = [corpus.name for corpus in recipe.corpora if corpus.role == "pretrain"]
    corpora = settings.corpora or tuple(of_role or [corpus.name for corpus in recipe.unlabelled])
    inputs = {"pretrain_sentences": ("ingest.pretrain",)} if set(corpora) & set(of_role) else {}
    inputs |= {"sentences": ("ingest",)} if set(corpora) - set(of_role) else {}
    models = {slot: model_named(recipe, model) for slot, model in settings.models().items()}
    return Step(f"pretrain.{name}", pretrain.STAGE, settings.config(name, corpora), inputs, models)


def generator_step(recipe: Recipe, name: str) -> Step:
    settings = recipe.models[name].fit_generator
    assert settings is not None
    models = {slot: model_named(recipe, model) for slot, model in settings.models().items()}
    if isinstance(settings, FitGenseSettings):
        corpora = _judged_corpora(recipe, settings.pairs.corpora, settings.pairs.dev)
        inputs = {"labelled": ("labelled",), **guarded(recipe, "labelled")}
        config = settings.config(name, corpora)
        return Step(f"fit_generator.{name}", fit_gense.STAGE, config, inputs, models)
    labelled, sentences = generator_corpora(recipe, settings)
    read: dict[str, tuple[str, ...]] = {}
    if labelled:
        read |= {"labelled": ("labelled",), **guarded(recipe, "labelled")}
    if sentences:
        read |= {"sentences": ("ingest",), **guarded(recipe, "sentences")}
    stage, rewriting = (
        fit_generator.STAGE,
        settings.config(name, labelled, sentences),
    )
    return Step(f"fit_generator.{name}", stage, rewriting, read, models)


def _judged_corpora(
    recipe: Recipe, named: tuple[str, ...], dev: tuple[str, ...]
) -> tuple[str, ...]:
    """The corpora that a discriminator learns from: by default all labelled ones but dev's."""
    return named or tuple(one.name for one in recipe.labelled if one.name not in dev)


def pair_step(recipe: Recipe, name: str) -> Step:
    settings = recipe.models[name].fit_pair
    assert settings is not None
    corpora = _judged_corpora(recipe, settings.corpora, settings.dev)
    inputs = {"labelled": ("labelled",), **guarded(recipe, "labelled")}
    config = settings.config(name, corpora, recipe.embed)
    models = {"evaluator": evaluator(recipe)}
    return Step(f"fit_pair.{name}", fit_pair.STAGE, config, inputs, models)


def generator_corpora(
    recipe: Recipe, settings: FitGeneratorSettings
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The corpora whose pairs a generator is fitted to, and those whose sentences."""
    pairs, all_labelled = settings.pairs, [corpus.name for corpus in recipe.labelled]
    if pairs.role is not None:
        return (), of_role(recipe, pairs.role)
    chosen = pairs.corpora or tuple(all_labelled)
    labelled = tuple(name for name in chosen if name in all_labelled)
    return labelled, tuple(name for name in chosen if name not in all_labelled)


def count_step(recipe: Recipe, name: str) -> Step:
    settings = recipe.models[name].count_tokens
    assert settings is not None
    corpora = settings.corpora or tuple(corpus.name for corpus in recipe.unlabelled)
    config = count_tokens.CountTokensConfig(name=name, corpora=corpora)
    models = {slot: model_named(recipe, model) for slot, model in settings.models().items()}
    inputs = {"sentences": ("ingest",)}
    return Step(f"count_tokens.{name}", count_tokens.STAGE, config, inputs, models)


def fits_to_sentences(recipe: Recipe) -> bool:
    """Whether some generator is fitted to sentences, each its own target."""
    fitted = [m.fit_generator for m in recipe.models.values() if m.fit_generator is not None]
    return any(
        generator_corpora(recipe, settings)[1]
        for settings in fitted
        if isinstance(settings, FitGeneratorSettings)
    )


# By the maker's key in the recipe, which is its stage's name too.
MAKERS: Mapping[str, Callable[[Recipe, str], Step]] = {
    "pretrain": pretrain_step,
    "fit_generator": generator_step,
    "fit_pair": pair_step,
    "count_tokens": count_step,
}
