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
        made: Any = settings.made
        place = ("models", name, str(settings.maker))
        models = {
            slot: resolved.models[*place, slot].model
            for slot in ([] if made is None else made.models())
        }
        inputs: dict[str, tuple[str, ...]] = {}
        match settings.maker:
            case None:
                continue
            case "pretrain":
                stage, config = pretrain.STAGE, made.config(name, made.corpora)
                if pretrained & {*made.corpora}:
                    inputs = {"pretrain_sentences": ("ingest.pretrain",)}
                if {*made.corpora} - pretrained:
                    inputs["sentences"] = ("ingest",)
            case "count_tokens":
                stage, inputs = count_tokens.STAGE, {"sentences": ("ingest",)}
                config = count_tokens.CountTokensConfig(name=name, corpora=made.corpora)
            case "fit_pair":
                stage, inputs = fit_pair.STAGE, guarded("labelled", "labelled")
                config = made.config(name, made.corpora, recipe.embed)
                assert resolved.evaluator is not None
                models = {"evaluator": resolved.evaluator}
            case _ if made.form == GENSE:
                stage, inputs = fit_gense.STAGE, guarded("labelled", "labelled")
                config = made.config(name, made.pairs.corpora)
            case _:
                pairs = tuple(one for one in made.pairs.corpora if one in labelled)
                texts = tuple(one for one in made.pairs.corpora if one not in labelled)
                stage = fit_generator.STAGE
                config = made.config(name, pairs, texts)
                inputs = guarded("labelled", "labelled") if pairs else {}
                inputs |= guarded("sentences") if texts else {}
        steps.append(Step(f"{settings.maker}.{name}", stage, config, inputs, models))
    if resolved.evaluator == Made("fit_evaluator"):
        fit = recipe.evaluator and recipe.evaluator.fit
        assert fit is not None
        backbone = {"backbone": resolved.models["backbone",].model}
        inputs = guarded("sentences")
        steps.append(Step("fit_evaluator", fit_evaluator.STAGE, fit, inputs, backbone))
    return steps
