"""What the name of a model means in a recipe."""

from tercet.flows.pipeline.step import Made, Model, Tagged, Weights
from tercet.flows.recipe.model import Recipe
from tercet.storage.runs import TAG_PREFIX


def model_named(recipe: Recipe, name: str | None) -> Model:
    """The source of the model that the recipe calls by this name.

    A key of `models:`, `tag:NAME`, or else weights that exist. The recipe's checks have seen to
    it that there is a name and that names lead nowhere in a circle.
    """
    assert name is not None
    settings = recipe.models.get(name)
    if settings is not None and settings.maker is not None:
        return Made(f"{settings.maker}.{name}")
    if settings is not None:
        return model_named(recipe, settings.take)
    if name.startswith(TAG_PREFIX):
        return Tagged(name.removeprefix(TAG_PREFIX))
    return Weights(name)
