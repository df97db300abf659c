"""Steps that fit the evaluator and train the encoder, and what measures both."""

from tercet.flows.pipeline.guarding import guarded
from tercet.flows.pipeline.scoring import evaluator
from tercet.flows.pipeline.step import Made, Step, Weights
from tercet.flows.recipe.model import Recipe
from tercet.tasks.evaluation import evaluate
from tercet.tasks.training import train


def training_steps(recipe: Recipe) -> list[Step]:
    backbone = Weights(recipe.backbone)
    start = evaluator(recipe) if recipe.start == "evaluator" else backbone
    rows: dict[str, tuple[str, ...]] = {}
    phases = recipe.train.phases if recipe.train.triplets is None else ()
    if any(phase.rows == "dropout" for phase in phases):
        rows |= {"sentences": ("ingest",), "anchors": ("sample",)}
    if any(phase.rows != "dropout" for phase in phases):
        rows["triplets"] = ("select",)
        if any(phase.corpora for phase in phases):
            rows["sentences"] = ("ingest",)
    if "anchors" in rows:
        rows |= guarded(recipe, "sentences")
    if "triplets" in rows or recipe.train.triplets is not None:
        rows |= guarded(recipe, "triplets")
    pairs: dict[str, tuple[str, ...]] = {"document_pairs": ("ingest",)}
    if recipe.awareness is not None:
        pairs["awareness"] = ("awareness",)
    fixed, measured = recipe.train.model_dump(), recipe.evaluate.model_dump()
    choose = recipe.train.choose
    if choose is not None and choose.by == "retrieval":
        rows["document_pairs"] = ("ingest",)
    elif choose is not None:
        fixed["suite"] = recipe.evaluate.suite
    steps = [
        Step(
            "evaluate.base",
            evaluate.STAGE,
            evaluate.EvaluateConfig(**measured),
            pairs,
            {"model": backbone},
        )
    ]
    for number in range(recipe.seeds):
        # The first is what a recipe of one seed makes, and found again by it.
        seed = recipe.seed + number if number else None
        name = trained_by(recipe.seed, recipe.seed + number)
        steps += [
            Step(
                name,
                train.STAGE,
                train.TrainConfig(**fixed, model_seed=seed),
                rows,
                {"backbone": start},
            ),
            Step(
                name.replace("train", "evaluate.encoder"),
                evaluate.STAGE,
                evaluate.EvaluateConfig(**measured, model_seed=seed),
                {**pairs, "baseline": ("evaluate.base",)},
                {"model": Made(name)},
            ),
        ]
    return steps


def trained_by(recipe_seed: int, seed: int) -> str:
    """Name of the step that trains with this seed."""
    return "train" if seed == recipe_seed else f"train.seed{seed}"
