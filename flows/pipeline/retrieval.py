"""Steps that make vectors of the passages, for all that searches among them."""

from collections.abc import Mapping
from typing import Any

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.resolved import Model, Resolved
from tercet.models.encoders.settings import cnn_form
from tercet.tasks.config import compiled
from tercet.tasks.retrieval import negatives, passage_vectors
from tercet.tasks.training.phases import SOURCES, RowsConfig

BASE = "base"
EVALUATOR = f"{passage_vectors.STAGE.name}.evaluator"
# By the source of the rows; labelled corpora share one.
NEGATIVES: dict[negatives.Source, str] = {
    "queries": "negatives",
    "document_pairs": "negatives.document_pairs",
    "labelled": "negatives.labelled",
}


def cnn_seed(recipe: Recipe) -> int | None:
    """Draws the untouched encoder's token_cnn, as `evaluate.base` does; what is trained has one."""
    pooling = recipe.evaluate.pooling
    return recipe.seed if pooling is not None and cnn_form(pooling) is not None else None


def encoder_vectors(
    recipe: Recipe, name: str, encoder: Model, untouched: Model | None = None, mix: float = 1.0
) -> list[Step]:
    """The step `passage_vectors.NAME` where there are passages: as `evaluate` makes vectors.

    untouched: the encoder to which the rest of the weights belongs where `mix` is below 1.
    """
    measured = recipe.evaluate
    config = passage_vectors.PassageVectorsConfig(
        **measured.model_dump(include={"pooling", "prompt", "max_length", "precision"}),
        prompts=recipe.prompts,
        trust_remote_code=recipe.train.trust_remote_code,
        cnn_seed=cnn_seed(recipe) if name == BASE or untouched is not None else None,
        mix=None if untouched is None else mix,
    )
    models = {"encoder": encoder} | ({} if untouched is None else {"untouched": untouched})
    return _steps(recipe, f"{passage_vectors.STAGE.name}.{name}", config, models)


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
    return _steps(recipe, EVALUATOR, config, {"encoder": evaluator})


def negatives_step(rows: RowsConfig) -> str:
    """The step that mines the negatives of these rows."""
    return NEGATIVES[_source(rows)]


def negatives_steps(resolved: Resolved) -> list[Step]:
    """A step for each source whose rows train with mined negatives; where none do, one that only
    `--until` makes."""
    recipe, settings = resolved.recipe, resolved.recipe.negatives
    if settings is None:
        return []
    parts = [part for phase in recipe.train.phases for part in phase.parts]
    asking = [part.rows for part in parts if part.rows.negatives is not None]
    form: dict[str, Any] = {}
    models: Mapping[str, Model] = {}
    inputs: dict[str, tuple[str, ...]] = {"passages": ("passages",)}
    # Whose dev and test no negative may share words with.
    inputs |= {"sentences": ("ingest",), "document_pairs": ("ingest",)}
    if settings.by != "bm25":
        (vectors,) = evaluator_vectors(recipe, resolved.evaluator)
        form, models = dict(vectors.config), vectors.models
        inputs["passage_vectors"] = (EVALUATOR,)
    tables: dict[negatives.Source, dict[str, tuple[str, ...]]] = {
        "queries": {"triplets": ("select",)},
        "document_pairs": {},
        "labelled": {"labelled": ("labelled",)},
    }
    usual: negatives.Source = "queries" if resolved.has_queries else "document_pairs"
    steps = []
    for source in dict.fromkeys(map(_source, asking)) or (usual,):
        labelled = (
            sorted({rows.source for rows in asking} - {*SOURCES}) if source == "labelled" else ()
        )
        config = compiled(settings, **form, source=source, corpora=tuple(labelled))
        steps.append(
            Step(NEGATIVES[source], negatives.STAGE, config, inputs | tables[source], models)
        )
    return steps


def _source(rows: RowsConfig) -> negatives.Source:
    if rows.source == "queries":
        return "queries"
    return "document_pairs" if rows.source == "document_pairs" else "labelled"


def _steps(
    recipe: Recipe,
    name: str,
    config: passage_vectors.PassageVectorsConfig,
    models: Mapping[str, Model],
) -> list[Step]:
    if recipe.ingest.passages is None:
        return []
    return [Step(name, passage_vectors.STAGE, config, {"passages": ("passages",)}, models)]
