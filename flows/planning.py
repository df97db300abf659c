"""Plans a run: what it would do, why, and what it would ask, without running or fetching anything.

The pool of answers is opened only if a step will ask; that may seal the journals of dead runs.

Requests to language models and fitted generators are estimated: if a step's inputs exist, its
prompts are rendered for the rows of some parts, and a sample of them is counted. The length and
speed of answers come from the store's pool.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tercet.flows.pipeline import fingerprints
from tercet.flows.pipeline.fingerprints import UNKNOWN, Fingerprint, tagged
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.names import Made
from tercet.flows.running import parts
from tercet.flows.running.answering import cost, digested, identity
from tercet.flows.running.one_part import PartOrder
from tercet.flows.running.one_step import part_order
from tercet.flows.running.run_plan import RunPlan
from tercet.flows.running.runner import count_failed
from tercet.models.llm.messages import Request
from tercet.storage import runs
from tercet.storage.answers import Pool, open_pool
from tercet.storage.artifacts import Artifact, artifacts_of, find_parts, open_artifact
from tercet.storage.store import Store, is_store, open_store, work_of
from tercet.tasks.findings.warning import age
from tercet.tasks.stage import Planned, Resources, Work

# Parts to sample (more, until there are this many requests), and prompts to count.
_PARTS = 8
_REQUESTS = 200
_PROMPTS = 2000
# The first n multiples of this number, modulo 1, are evenly spread for any n.
_GOLDEN = 0.6180339887498949
# An estimate, exact enough to decide whether to start.
_CHARACTERS_A_TOKEN = 4.0


@dataclass(frozen=True)
class Estimate:
    """The estimated requests of one step.

    requests: rows to ask about. answered: rows whose answer is in the pool. prompt_tokens,
    answer_tokens: for the remaining rows. known_length: false if the method has no earlier answers,
    so that the maximum length of answers counts. sampled: prompts behind these figures.
    seconds, money: None if no rate or price is known.
    """

    requests: int
    answered: int
    prompt_tokens: int
    answer_tokens: int
    sampled: int
    known_length: bool
    seconds: float | None
    money: float | None


def estimate(recipe: Recipe, order: PartOrder, pool: Pool) -> Estimate:
    """The estimate for the step of this order; nothing is sent or written."""
    config = order.step.config
    who = identity(config, order.components)
    sampled, all_rows = _sampled(order)
    keyed = list(digested(sampled, "", config, who))
    answered = pool.find([request.digest for request in keyed])
    missing = [request for request in keyed if request.digest not in answered]
    scale = all_rows / len(keyed) if keyed else 0.0
    prompts = [len(text) for r in missing for text in (*sum(r.shots, ()), r.prompt)]
    longest = sum(request.sampling.max_tokens for request in missing)
    rates = pool.rates(who.label)
    usual = None if rates is None else rates.mean_tokens.get(order.step.method)
    speed = None if rates is None else rates.tokens_per_second
    answers = longest if usual is None else usual * len(missing)
    prompt_tokens = round(sum(prompts) / _CHARACTERS_A_TOKEN * scale)
    answer_tokens = round(answers * scale)
    return Estimate(
        requests=round(len(keyed) * scale),
        answered=round((len(keyed) - len(missing)) * scale),
        prompt_tokens=prompt_tokens,
        answer_tokens=answer_tokens,
        sampled=len(keyed),
        known_length=usual is not None,
        seconds=answer_tokens / speed if speed else None,
        money=cost(recipe.run.llm, config, prompt_tokens, answer_tokens),
    )


def _sampled(order: PartOrder) -> tuple[list[Request], float]:
    """Some requests, spread evenly over the sampled parts, and the total number.

    Parts that were not sampled are assumed to have as many requests as the sampled parts.
    """
    sample: list[Request] = []
    count, every = 0, 1
    sources = spread(list(order.driving))
    for number, source in enumerate(sources, start=1):
        for request in requests_of(order, source):
            if count % every == 0:
                sample.append(request)
            count += 1
            if len(sample) == 2 * _PROMPTS:
                sample, every = sample[::2], 2 * every
        if number >= _PARTS and count >= _REQUESTS:
            return sample, count * len(sources) / number
    return sample, count


def spread(sources: Sequence[str]) -> list[str]:
    """The items in an order whose every prefix is spread evenly over all of them."""
    places = sorted(range(len(sources)), key=lambda place: place * _GOLDEN % 1)
    return [sources[place] for place in places]


def requests_of(order: PartOrder, source: str) -> Iterator[Request]:
    """The requests of the part made from this file."""
    stage = order.step.stage
    assert stage.asks is not None
    return stage.asks(work_on(order, source))


def work_on(order: PartOrder, source: str) -> Work:
    """The work that the stage would get for the part made from this file; nothing is emitted."""
    reads = parts.reads(order.step, order.inputs, order.driving[source])
    return order.work(reads, {}, Path(), lambda table, rows: None, order.resources)


NEVER = "never run here"


@dataclass(frozen=True)
class PlannedStep:
    """The plan for one step.

    state: reuse, resume, run or unknown. why: the changed components.
    parts: the numbers of existing parts and of all parts, if known in advance.
    rows: rows of its inputs; None while these do not exist yet.
    seconds: its estimated time, from earlier times in this store; None without such times.
    asking: the estimate of its requests, if it asks a language model. lacking: the missing inputs
        of such a step, without which there is no estimate.
    failed: rows whose requests failed.
    """

    step: str
    version: str | None
    state: str
    why: tuple[str, ...] = ()
    parts: tuple[int, int] | None = None
    rows: int | None = None
    seconds: float | None = None
    asking: Estimate | None = None
    lacking: tuple[str, ...] = ()
    failed: int = 0


@dataclass(frozen=True)
class _Planning:
    """The data for planning each step. pool: opens the pool of answers, once."""

    run_plan: RunPlan
    store: Store
    prints: Mapping[str, Fingerprint]
    earlier: Mapping[str, list[str]]
    pool: Callable[[], Pool]


def existing_store(place: str) -> Store | None:
    """The store at this place; None if nothing was ever run there."""
    if not is_store(place) and ("://" in place or not work_of(place).exists()):
        return None
    return open_store(place, create=False)


def plan(run_plan: RunPlan, store: Store | None) -> list[PlannedStep]:
    """One entry per step, in order. Raises BadInput for a file that does not exist.

    store: the run's, None if there is none yet.
    """
    if store is None:
        # Nothing was ever run: a temporary empty store answers the same questions.
        with tempfile.TemporaryDirectory() as folder:
            arguments = replace(run_plan.arguments, store=f"{folder}/store")
            return plan(replace(run_plan, arguments=arguments), open_store(arguments.store))
    prints = fingerprints.fingerprints(run_plan.steps, run_plan.recipe.seed, store)
    earlier = _earlier_versions(store, run_plan)
    with ExitStack() as stack:

        @cache
        def pool() -> Pool:
            return stack.enter_context(open_pool(store, run_plan.recipe.name, ""))

        look = _Planning(run_plan, store, prints, earlier, pool)
        return [_planned(step, look) for step in run_plan.steps]


def _planned(step: Step, look: _Planning) -> PlannedStep:
    fingerprint, store = look.prints[step.name], look.store
    if fingerprint.version is None:
        if not artifacts_of(store, step.name):
            # This store has no artifact of the step, whichever weights the step will read.
            return _to_make(step, look, PlannedStep(step.name, None, "run", (NEVER,)))
        return _to_make(step, look, PlannedStep(step.name, None, "unknown", (UNKNOWN,)))
    artifact = open_artifact(store, step.name, fingerprint.version)
    if artifact.manifest() is not None:
        if artifact.intact():
            failed = 0 if step.stage.asks is None else count_failed(artifact)
            why = _kept_note(step, fingerprint, store)
            return PlannedStep(step.name, fingerprint.version, "reuse", why, failed=failed)
        gone = ("some of its files are missing",)
        done = (len(artifact.whole_parts()), len(artifact.plan() or ()))
        return _to_make(
            step, look, PlannedStep(step.name, fingerprint.version, "resume", gone, done)
        )
    why = _kept_note(step, fingerprint, store)
    if not step.is_kept:
        why = (*_changes(step, fingerprint, store, look.earlier), *why)
    standing, records = artifact.plan(), artifact.records()
    if standing is not None and records:
        done = (len(records), len(standing))
        return _to_make(
            step, look, PlannedStep(step.name, fingerprint.version, "resume", why, done)
        )
    inputs = _ready_inputs(step, look.prints, store)
    done_parts = (
        None if inputs is None else _known_parts(step, fingerprint, look.run_plan, store, inputs)
    )
    return _to_make(step, look, PlannedStep(step.name, fingerprint.version, "run", why, done_parts))


def _to_make(step: Step, look: _Planning, planned: PlannedStep) -> PlannedStep:
    """The entry with the amount of work, as far as it can be known."""
    fingerprint = look.prints[step.name]
    rows = rows_read(look.store, step, fingerprint.components["inputs"])
    planned = replace(planned, rows=rows)
    if step.is_kept:
        return planned
    if step.stage.asks is None:
        seconds = earlier_seconds(look.store, step, fingerprint.components, rows)
        if seconds is not None and planned.parts is not None:
            done, total = planned.parts
            seconds *= 1 - done / total
        return replace(planned, seconds=seconds)
    inputs = _ready_inputs(step, look.prints, look.store)
    if inputs is None or fingerprint.version is None:
        lacking = tuple(n for n in step.needs if _finished(look.prints, n, look.store) is None)
        return replace(planned, lacking=lacking)
    # Planning needs no models.
    order = part_order(look.store, look.run_plan, step, fingerprint, inputs, {}, Resources())
    return replace(planned, asking=estimate(look.run_plan.recipe, order, look.pool()))


def _earlier_versions(store: Store, run_plan: RunPlan) -> dict[str, list[str]]:
    """Versions of each step that runs of this recipe have reached, the newest first."""
    versions: dict[str, list[str]] = {}
    for run in runs.list_runs(store):
        if run["recipe_name"] == run_plan.recipe.name:
            for entry in run["steps"]:
                versions.setdefault(entry["step"], []).append(entry["version"])
    return versions


def _kept_note(step: Step, fingerprint: Fingerprint, store: Store) -> tuple[str, ...]:
    """Which version is kept, and how old it is; () if none is."""
    if fingerprint.kept is None:
        return ()
    artifact = open_artifact(store, step.name, fingerprint.kept)
    manifest = artifact.manifest()
    assert manifest is not None
    return (f"keeps {step.name}@{artifact.version} of {age(manifest['created'])}",)


def _changes(
    step: Step, fingerprint: Fingerprint, store: Store, earlier: Mapping[str, list[str]]
) -> list[str]:
    for version in earlier.get(step.name, []):
        manifest = open_artifact(store, step.name, version).manifest()
        if manifest is not None:
            changes = fingerprints.changes(
                manifest["components"],
                fingerprint.components,
                manifest.get("modules", {}),
                fingerprint.modules,
            )
            return changes or ["changed back from another result"]
    return [NEVER]


def _ready_inputs(
    step: Step, prints: Mapping[str, Fingerprint], store: Store
) -> dict[str, list[parts.PartFile]] | None:
    """The input files, or None while some input is still to be made."""
    slots: dict[str, list[parts.PartFile]] = {}
    for slot, names in step.inputs.items():
        artifacts = [_finished(prints, name, store) for name in names]
        if any(artifact is None for artifact in artifacts):
            return None
        slots[slot] = parts.input_files([a for a in artifacts if a is not None])
    for model in step.models.values():
        if isinstance(model, Made) and _finished(prints, model.step, store) is None:
            return None
    return slots


def _finished(prints: Mapping[str, Fingerprint], name: str, store: Store) -> Artifact | None:
    version = prints[name].version
    artifact = None if version is None else open_artifact(store, name, version)
    return artifact if artifact is not None and artifact.manifest() is not None else None


def _known_parts(
    step: Step,
    fingerprint: Fingerprint,
    run_plan: RunPlan,
    store: Store,
    inputs: Mapping[str, list[parts.PartFile]],
) -> tuple[int, int] | None:
    """The numbers of parts that an earlier version has made, and of all parts."""
    if isinstance(step.stage.cut, Planned):
        return None
    order = part_order(store, run_plan, step, fingerprint, inputs, {}, Resources())
    entries = parts.specs(step, None, order.inputs)
    keys = [order.part(index, entry).key for index, entry in enumerate(entries)]
    made_parts = find_parts(store, step.name, set(keys))
    return sum(key in made_parts for key in keys), len(entries)


def moved_tags(run_plan: RunPlan, store: Store) -> list[str]:
    """One sentence per tag; compared with the newest run of the recipe that read it."""
    earlier: dict[str, str] = {}
    for run in runs.list_runs(store):
        if run["recipe_name"] == run_plan.recipe.name:
            earlier = {**run["info"].get("tags", {}), **earlier}
    return [
        f"tag:{name} has moved since the last run: {earlier[name]} → {target}."
        for name, target in tagged(run_plan.steps, store).items()
        if earlier.get(name, target) != target
    ]


def earlier_seconds(
    store: Store, step: Step, components: Mapping[str, Any], rows: int | None
) -> float | None:
    """Seconds for this many rows, from the largest artifact made in one go; None without one.

    rows: None if not known yet; then as many as the newest artifact read.

    Only artifacts of the same work count: a training's time does not apply to another
    configuration, nor a corpus's time to another corpus.
    """
    best: tuple[int, float] | None = None
    newest: tuple[str, int] | None = None
    # Trainings of several seeds take equally long.
    folder = step.name.partition(".seed")[0]
    for artifact in artifacts_of(store, folder):
        manifest = artifact.manifest()
        if manifest is None or not manifest.get("at_once"):
            continue
        if not _is_same_work(step, components, manifest["components"]):
            continue
        read = rows_read(store, step, manifest["components"]["inputs"])
        if not step.inputs:
            read = rows = 1
        if read and (best is None or read > best[0]):
            best = read, float(manifest["seconds"])
        if read:
            newest = max(newest or ("", 0), (str(manifest["created"]), read))
    if best is None or newest is None:
        return None
    return best[1] * (newest[1] if rows is None else rows) / best[0]


def rows_read(store: Store, step: Step, versions: Mapping[str, Any]) -> int | None:
    """The rows of the table that the step maps or, failing that, of all its input tables.

    versions: slot to the versions of the steps that it reads; None for a version not made yet.
    """
    if not step.inputs:
        return None
    total = 0
    for slot, names in step.inputs.items():
        slot_versions = versions.get(slot, ())
        if len(slot_versions) != len(names):
            return None
        mapped = 0
        for name, version in zip(names, slot_versions, strict=True):
            manifest = None if version is None else open_artifact(store, name, version).manifest()
            if manifest is None:
                return None
            tables = manifest["tables"]
            read = [slot] if slot in tables else [n for n in tables if n != parts.UNREAD]
            mapped += sum(int(tables[n]["rows"]) for n in read)
        if step.stage.each == slot:
            return mapped
        total += mapped
    return total


def _is_same_work(step: Step, now: Mapping[str, Any], then: Mapping[str, Any]) -> bool:
    if not step.inputs and now["externals"] != then["externals"]:
        return False
    if not step.stage.model:
        return True
    return bool(now["config"] | {"model_seed": 0} == then["config"] | {"model_seed": 0})
