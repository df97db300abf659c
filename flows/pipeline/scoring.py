"""Steps from candidates to triplets."""

from tercet.flows.pipeline.retrieval import EVALUATOR, evaluator_vectors
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.resolved import Resolved
from tercet.tasks.scoring import embed, mine, select
from tercet.tasks.scoring.scorers import filter_scorers
from tercet.tasks.scoring.select_checks import MEASURES, asks_probability


def scoring_steps(resolved: Resolved) -> list[Step]:
    """The candidates' vectors if there is an evaluator, one step per scorer, and the selection."""
    recipe, steps = resolved.recipe, []
    if not recipe.synthesise:
        return []
    candidates, sentences = {"candidates": ("parse",)}, {"sentences": ("ingest",)}
    vectors = {**sentences, "embeddings": ("embed",)}
    read = {**vectors, "passages": ("passages",), "passage_vectors": (EVALUATOR,)}
    if resolved.evaluator is not None:
        models = {"evaluator": resolved.evaluator}
        steps.append(Step("embed", embed.STAGE, recipe.embed, candidates | sentences, models))
    for name, (scorer, config) in resolved.scorers.items():
        inputs = candidates | {str(slot): read[slot] for slot in scorer.reads}
        slots = config.models() if hasattr(config, "models") else ()
        models = {slot: resolved.models["score", name, slot].model for slot in slots}
        if "passage_vectors" in scorer.reads:
            # What searches among them is encoded as they are.
            (made,) = evaluator_vectors(recipe, resolved.evaluator)
            config, models = made.config, {**made.models}
        steps.append(Step(f"score.{name}", scorer.stage, config, inputs, models))
    if recipe.mine is not None:
        steps.append(Step("mine", mine.STAGE, recipe.mine, candidates | vectors))
    return [*steps, _select_step(resolved)]


def _select_step(resolved: Resolved) -> Step:
    """The selection, which reads only the scorers that it uses; adding others changes nothing."""
    recipe = resolved.recipe
    asked: dict[str, str | None] = {}
    for measure in MEASURES:
        own = [name for name, (scorer, _) in resolved.scorers.items() if scorer.measure == measure]
        if own and (measure == "similarity" or asks_probability(recipe.select)):
            asked[measure] = getattr(recipe.select, measure) or own[0]
        else:
            asked[measure] = None
    ranked = [] if recipe.select.rank_max is None else filter_scorers("rank", resolved.scorers)
    scores = [f"score.{name}" for name in (*asked.values(), *ranked) if name is not None]
    inputs = {
        "candidates": ("parse", "mine"),
        "scores": (*dict.fromkeys(scores), "mine"),
        "sentences": ("ingest",),
        "document_pairs": ("ingest",),
    }
    if resolved.has_queries:
        inputs["passages"] = ("passages",)
    below = {"mined_below": recipe.mine.below} if recipe.mine is not None else {}
    given = {**asked, **below, "by_similarity": asked["similarity"] is not None}
    config = select.PairedConfig(**recipe.select.model_dump() | given)
    return Step("select", select.STAGE, config, inputs)
