"""Checks of mined negatives: what they are found by, and which rows train with how many."""

from tercet.flows.recipe.misplaced import Misplaced, Place
from tercet.flows.recipe.model import Recipe
from tercet.tasks.training.phases import PartConfig


def check_negatives(recipe: Recipe) -> None:
    """Raises Misplaced for the first fault."""
    if recipe.negatives is not None:
        if recipe.ingest.passages is None:
            raise Misplaced(
                "negatives are mined among passages, and there are none: write `passages: {}` "
                "under `ingest`, or leave negatives out",
                "negatives",
            )
        if recipe.negatives.by != "bm25" and recipe.evaluator is None:
            raise Misplaced(
                "negatives are found by the evaluator's vectors, and there is none: name one under "
                "`evaluator`, or find them by: bm25",
                *("negatives", "by"),
            )
    for index, phase in enumerate(recipe.train.phases):
        for number, part in enumerate(phase.parts):
            place = ("train", "phases", index, "parts", number, "rows", "negatives")
            if part.rows.negatives is not None:
                _check_part(recipe, part, part.rows.negatives, place)


def _check_part(recipe: Recipe, part: PartConfig, wanted: int, place: Place) -> None:
    loss = part.resolved()
    if recipe.negatives is None:
        raise Misplaced(
            "nothing mines negatives: write `negatives: {}` in the recipe, or leave this key out",
            *place,
        )
    if wanted > recipe.negatives.k:
        raise Misplaced(
            f"no row has more than {recipe.negatives.k}: raise negatives.k to {wanted}, or lower "
            "this key",
            *place,
        )
    if "negative" in loss.texts and wanted > 1:
        raise Misplaced(
            f"the loss {loss.name} takes one negative a row: set this key to 1, or train with "
            "info_nce, which takes any number",
            *place,
        )
    if "negative" not in (*loss.texts, *loss.optional):
        raise Misplaced(
            f"the loss {loss.name} reads no negatives: leave this key out, or train with info_nce",
            *place,
        )
