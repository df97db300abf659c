"""Steps that make the models under `models:`, whether or not anything uses them."""

from collections.abc import Callable, Mapping

from tercet.flows.pipeline.corpus import of_role
from tercet.flows.pipeline.guarding import guarded
from tercet.flows.pipeline.named_models import model_named
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.model import Recipe
from tercet.tasks.training import fit_generator, pretrain
from tercet.tasks.training.fit_generator import FitGeneratorSettings


def model_steps(recipe: Recipe) -> list[Step]:
    """A step for each model that is made, in the recipe's order."""
    made = {name: settings.maker for name, settings in recipe.models.items()}
    return [MAKERS[maker](recipe, name) for name, maker in made.items() if maker is not None]


def pretrain_step(recipe: Recipe, name: str) -> Step:
    settings = recipe.models[name].pretrain
    assert settings is not None
    of_role = [corpus.name for corpus in recipe.corpora if corpus.role == "pretrain"]
    corpora = settings.corpora or tuple(of_role or [corpus.name for corpus in recipe.unlabelled])
    own = {"sentences": ("ingest.pretrain",)} if set(corpora) & set(of_role) else {}
    shared = {"sentences": ("ingest",)} if set(corpora) - set(of_role) else {}
    inputs = {
        slot: (*own.get(slot, ()), *shared.get(slot, ())) for slot in dict.fromkeys([*own, *shared])
    }
    models = {slot: model_named(recipe, model) for slot, model in settings.models().items()}
    return Step(f"pretrain.{name}", pretrain.STAGE, settings.config(name, corpora), inputs, models)


def generator_step(recipe: Recipe, name: str) -> Step:
    settings = recipe.models[name].fit_generator
    assert settings is not None
    labelled, sentences = generator_corpora(recipe, settings)
    inputs: dict[str, tuple[str, ...]] = {}
    if labelled:
        inputs |= {"labelled": ("labelled",), **guarded(recipe, "labelled")}
    if sentences:
        inputs |= {"sentences": ("ingest",), **guarded(recipe, "sentences")}
    models = {slot: model_named(recipe, model) for slot, model in settings.models().items()}
    stage = fit_generator.stage_for(settings.form)
    config = settings.config(name, labelled, sentences)
    return Step(f"fit_generator.{name}", stage, config, inputs, models)


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


def fits_to_sentences(recipe: Recipe) -> bool:
    """Whether some generator is fitted to sentences, each its own target."""
    fitted = [m.fit_generator for m in recipe.models.values() if m.fit_generator is not None]
    return any(generator_corpora(recipe, settings)[1] for settings in fitted)


# By the maker's key in the recipe, which is its stage's name too.
MAKERS: Mapping[str, Callable[[Recipe, str], Step]] = {
    "pretrain": pretrain_step,
    "fit_generator": generator_step,
}
