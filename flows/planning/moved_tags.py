"""Which tags that a recipe reads have moved since its last run."""

from tercet.flows.pipeline.fingerprints import tagged
from tercet.flows.running.run_plan import RunPlan
from tercet.storage import runs
from tercet.storage.store import is_store, open_store


def moved_tags(run_plan: RunPlan) -> list[str]:
    """One sentence per tag; compared with the newest run of the recipe that read it."""
    if not is_store(run_plan.store):
        return []
    store = open_store(run_plan.store, create=False)
    earlier: dict[str, str] = {}
    for run in runs.list_runs(store):
        if run["recipe_name"] == run_plan.recipe.name:
            earlier = {**run["info"].get("tags", {}), **earlier}
    return [
        f"tag:{name} has moved since the last run: {earlier[name]} → {target}."
        for name, target in tagged(run_plan.steps, store).items()
        if earlier.get(name, target) != target
    ]
