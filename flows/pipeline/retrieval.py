"""Steps that make vectors of the passages, for all that searches among them."""

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.resolved import Model
from tercet.models.encoders.pooling import cnn_form
from tercet.tasks.retrieval import passage_vectors

BASE = "base"
EVALUATOR = f"{passage_vectors.STAGE.name}.evaluator"


def encoder_vectors(recipe: Recipe, name: str, encoder: Model) -> list[Step]:
    """The step `passage_vectors.NAME` where there are passages: as `evaluate` makes vectors."""
    measured = recipe.evaluate
    # As `evaluate.base` draws it; what is trained has one.
    has_cnn = measured.pooling is not None and cnn_form(measured.pooling) is not None
    config = passage_vectors.PassageVectorsConfig(
        **measured.model_dump(include={"pooling", "prompt", "max_length", "precision"}),
        prompts=recipe.prompts,
        trust_remote_code=recipe.train.trust_remote_code,
        cnn_seed=recipe.seed if has_cnn and name == BASE else None,
    )
    return _steps(recipe, f"{passage_vectors.STAGE.name}.{name}", config, encoder)


def evaluator_vectors(recipe: Recipe, evaluator: Model | None) -> list[Step]:
    """The step `passage_vectors.evaluator` where there are both; made only if something reads it.

    As `embed` makes vectors, but that a passage is read as far as the model reads: `embed` may be
    set to the length of sentences.
    """
    if evaluator is None:
        return []
    form = {"pooling", "prompt", "precision", "trust_remote_code"}
    config = passage_vectors.PassageVectorsConfig(
        **recipe.embed.model_dump(include=form), prompts=recipe.prompts
    )
    return _steps(recipe, EVALUATOR, config, evaluator)


def _steps(
    recipe: Recipe, name: str, config: passage_vectors.PassageVectorsConfig, encoder: Model
) -> list[Step]:
    if recipe.ingest.passages is None:
        return []
    inputs, models = {"passages": ("passages",)}, {"encoder": encoder}
    return [Step(name, passage_vectors.STAGE, config, inputs, models)]
