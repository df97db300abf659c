"""Looks up every name in a recipe once, and checks that what they name fits together."""

from tercet.flows.recipe.checks import check_keys, check_resolved, check_selection
from tercet.flows.recipe.corpus_names import select_corpora
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.model_names import EVALUATOR, find_defined, find_judges, find_models
from tercet.flows.recipe.negatives_checks import check_negatives
from tercet.flows.recipe.resolved import LLM, Resolved
from tercet.tasks.scoring.select_checks import find_scorers
from tercet.tasks.synthesis.methods import method_of


def resolve(recipe: Recipe) -> Resolved:
    """What the recipe's names mean.

    Raises: Misplaced for the first name that means nothing, or the first key that does not fit the
        others, with its place; Unusable for a generator that cannot do what it is asked.
    """
    check_keys(recipe)
    defined = find_defined(recipe)
    models = find_models(recipe, defined)
    recipe = select_corpora(recipe, models)
    methods = {name: method_of(name, settings) for name, settings in recipe.synthesise.items()}
    check_selection(recipe, methods)
    check_negatives(recipe)
    scorers = find_scorers(recipe.score, recipe.evaluator is not None)
    models |= find_judges(scorers, defined)
    evaluator = models[EVALUATOR].model if EVALUATOR in models else None
    writers = {
        name: str(recipe.synthesise[name].params.get("generator", LLM))
        for name, method in methods.items()
        if method.prompted
    }
    resolved = Resolved(recipe, models, evaluator, scorers, methods, writers)
    check_resolved(resolved)
    return resolved
