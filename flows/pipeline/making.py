"""Steps that make the models under `models:`, whether or not anything uses them."""

from typing import Any

from tercet.flows.pipeline.step import Step, guarded
from tercet.flows.recipe.resolved import GENSE, Made, Resolved
from tercet.tasks.training import (
    count_tokens,
    fit_evaluator,
    fit_generator,
    fit_gense,
    fit_pair,
    pretrain,
)


def model_steps(resolved: Resolved) -> list[Step]:
    """A step for each model that is made, in the recipe's order, and one that fits the evaluator.

    The latter is left out where nothing reads it.
    """
    recipe, steps = resolved.recipe, []
    labelled = [corpus.name for corpus in recipe.labelled]
    pretrained = {corpus.name for corpus in recipe.corpora if corpus.role == "pretrain"}
    for name, settings in recipe.models.items():
        if settings.maker is None:
            continue
        made, place = settings.made, ("models", name, settings.maker)
        models = {slot: resolved.models[*place, slot].model for slot in made.models()}
        given: dict[str, Any] = {"name": name}
        inputs: dict[str, tuple[str, ...]] = {}
        if settings.maker == "pretrain":
            stage = pretrain.STAGE
            if pretrained & {*made.corpora}:
                inputs = {"pretrain_sentences": ("ingest.pretrain",)}
            if {*made.corpora} - pretrained:
                inputs["sentences"] = ("ingest",)
        elif settings.maker == "count_tokens":
            stage, inputs = count_tokens.STAGE, {"sentences": ("ingest",)}
        elif settings.maker == "fit_pair":
            assert resolved.evaluator is not None
            stage, models = fit_pair.STAGE, {"evaluator": resolved.evaluator}
            made = fit_pair.FitPairConfig(**made.model_dump(), **recipe.embed.model_dump())
            inputs = guarded("labelled", "labelled")
        elif made.form == GENSE:
            stage, inputs = fit_gense.STAGE, guarded("labelled", "labelled")
        else:
            pairs = tuple(one for one in made.pairs.corpora if one in labelled)
            texts = tuple(one for one in made.pairs.corpora if one not in labelled)
            stage = fit_generator.STAGE
            own = {"labelled": pairs, "sentences": texts}
            given["pairs"] = made.pairs.model_copy(update=own)
            inputs = guarded("labelled", "labelled") if pairs else {}
            inputs |= guarded("sentences") if texts else {}
        config = made.model_copy(update=given)
        steps.append(Step(f"{settings.maker}.{name}", stage, config, inputs, models))
    if resolved.evaluator == Made("fit_evaluator"):
        fit = recipe.evaluator and recipe.evaluator.fit
        assert fit is not None
        backbone = {"backbone": resolved.models["backbone",].model}
        inputs = guarded("sentences")
        steps.append(Step("fit_evaluator", fit_evaluator.STAGE, fit, inputs, backbone))
    return steps
