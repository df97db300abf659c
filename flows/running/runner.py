"""Runs a pipeline's steps against the store: plain functions without Prefect."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow.compute as pc

from tercet.flows.formatting import count_of
from tercet.flows.pipeline import fingerprints
from tercet.flows.pipeline.fingerprints import Fingerprint
from tercet.flows.pipeline.step import Step, writer
from tercet.flows.pipeline.step import schemas as step_schemas
from tercet.flows.recipe.names import count_apart, is_shipped
from tercet.flows.recipe.needs import as_written
from tercet.flows.running import gpus
from tercet.flows.running.answering import check_engine
from tercet.flows.running.executors import Executor, Processes
from tercet.flows.running.gpus import Card, device
from tercet.flows.running.llm_session import LlmSession
from tercet.flows.running.one_step import (
    Progress,
    RunHandle,
    Say,
    artifact_of,
    collecting,
    make_artifact,
)
from tercet.flows.running.processes import Ended, run_jobs
from tercet.flows.running.run_plan import RunPlan, check_models
from tercet.flows.running.workers import open_executor
from tercet.models.errors import Stopped, Unusable
from tercet.storage import artifacts, locks, records, runs
from tercet.storage.artifacts import Artifact, open_artifact
from tercet.storage.catalog import views as catalog
from tercet.storage.objects import Folder
from tercet.storage.part_writer import put_schema
from tercet.storage.rows import rows_of
from tercet.storage.store import Store, StoreError, open_store
from tercet.storage.verifying import faults_of
from tercet.tasks.corpus.ingest import NOTHING_KEPT
from tercet.tasks.corpus.labelled import LabelledConfig
from tercet.tasks.corpus.sources.corpora import IngestConfig
from tercet.tasks.corpus.sources.discover import guesses
from tercet.tasks.stage import BadInput, silent


@dataclass(frozen=True)
class StepResult:
    """The outcome of one step. state: reused, resumed or made; tables: rows by table."""

    step: str
    version: str
    state: str
    seconds: float
    tables: Mapping[str, int]


Make = Callable[[Progress], StepResult]
# A listener follows a run: for each step it gets the function that makes the step, calls it with a
# progress of its own, and returns the outcome.
Listener = Callable[[Step, Make], StepResult]


@contextmanager
def open_run(
    plan: RunPlan, say: Say = lambda text: None, executor: Executor | None = None
) -> Iterator[RunHandle]:
    """A run in the store: its start is recorded on entry, its end on exit.

    executor: makes the parts, by default the recipe's `run.workers`; it is closed at the end.

    The run's lock is held in between. The system releases it if the process is killed, so a run
    without an end whose lock is free has crashed.
    """
    executor = executor or open_executor(plan.recipe.run, say)
    store = open_store(plan.store)
    artifacts.sweep_leftovers(store)
    prints = _fingerprints(plan, store, say)
    # Models that had to be fetched can only be looked at now.
    check_models(plan.steps, plan.store)
    asking = [
        (step.config, prints[step.name].components)
        for step in plan.steps
        if step.stage.asks is not None
        and open_artifact(store, step.name, str(prints[step.name].version)).manifest() is None
    ]
    check_engine(store, plan.recipe, asking)
    arguments = plan.arguments.parameters()
    # The store's path is left out, so that a run's record stays true when the store is moved.
    del arguments["store"]
    with ExitStack() as going:
        # From here on, no collection deletes an artifact that this run may use.
        with locks.hold(store, runs.COLLECTION, collecting(say)):
            kept_versions = _kept(store, prints)
            run_id = runs.start_run(
                store,
                plan.recipe.name,
                as_written(plan.recipe),
                {
                    "arguments": arguments,
                    "pid": os.getpid(),
                    "seed": plan.recipe.seed,
                    "steps": [step.name for step in plan.steps],
                    "tags": fingerprints.tagged(plan.steps, store),
                    "tried": plan.tried,
                    "arm": plan.arm,
                    "warnings": [*plan.warnings],
                },
            )
            versions = [f"{step}@{print_of_step.version}" for step, print_of_step in prints.items()]
            runs.use(store, run_id, [*versions, *kept_versions])
            going.enter_context(locks.hold(store, f"run-{run_id}", say))
        try:
            with closing(executor), _llm_session(plan, store, run_id, say) as llm:
                handle = RunHandle(plan, store, run_id, prints, say, executor, llm)
                handle.whole = _whole(handle)
                yield handle
        except Exception as error:
            # An unforeseen error may have an empty message, so its type is named.
            ours = isinstance(error, BadInput | StoreError | Stopped | Unusable)
            message = str(error) if ours else f"{type(error).__name__}: {error}"
            runs.end_run(store, run_id, "failed", {"error": message[:2000]})
            raise
        except BaseException:
            # The interruption is Ctrl-C, or Prefect's exception for SIGTERM.
            runs.end_run(store, run_id, "interrupted", {})
            raise
        runs.end_run(store, run_id, "done", handle.end_info)
    catalog.write_catalog(store, step_schemas(plan.steps))


def _whole(handle: RunHandle) -> dict[str, dict[str, Any]]:
    """Manifests of the steps that a bucket has whole, by one listing for all of them: nobody
    deletes what this run may use. Empty for a local store, whose files cost nothing to look at.
    """
    whole = {}
    if not isinstance(handle.store.objects, Folder):
        with handle.store.as_listed():
            for step in handle.plan.steps:
                artifact = artifact_of(handle, step.name)
                manifest = artifact.manifest()
                if manifest is not None and artifact.intact():
                    whole[step.name] = manifest
    return whole


def _kept(store: Store, prints: Mapping[str, Fingerprint]) -> list[str]:
    """The versions (`step@version`) that the recipe keeps. Raises BadInput if one is gone."""
    versions = [
        (step, print_of_step.kept)
        for step, print_of_step in prints.items()
        if print_of_step.kept is not None
    ]
    for step, version in versions:
        if open_artifact(store, step, version).manifest() is None:
            raise BadInput(
                "gone",
                f"{step}@{version}, which the recipe keeps, was deleted meanwhile: run again.",
            )
    return [f"{step}@{version}" for step, version in versions]


def _fingerprints(plan: RunPlan, store: Store, say: Say) -> dict[str, Fingerprint]:
    """The steps' fingerprints, after starting new rounds for failed rows if the run asks for it."""
    prints = fingerprints.fingerprints(plan.steps, plan.recipe.seed, store, fetch=True)
    if not plan.arguments.retry_failed:
        return prints
    failed = ask_again(store, plan.steps, prints)
    for name, rows in failed.items():
        say(f"{name:<32} asks again about {count_of(rows, 'failed row')}")
    if not failed:
        say("No rows have failed: there is nothing to ask again.")
        return prints
    return fingerprints.fingerprints(plan.steps, plan.recipe.seed, store, fetch=True)


@contextmanager
def _llm_session(plan: RunPlan, store: Store, run_id: str, say: Say) -> Iterator[LlmSession | None]:
    """The session, if the run has steps that ask a language model."""
    if all(step.stage.asks is None for step in plan.steps):
        yield None
        return
    llm = LlmSession(store, plan.recipe, run_id, say)
    try:
        yield llm
    finally:
        llm.close()


def run_steps(
    handle: RunHandle, listeners: Sequence[Listener] = (), steps: Sequence[Step] | None = None
) -> None:
    """Runs the run's steps in order: `steps`, by default all.

    The trainings of several seeds run at once, in as many processes as the recipe has workers.

    listeners: the first wraps the step, each further listener wraps those before it.
    """
    with closing(SeedsAtOnce(handle, handle.plan.steps if steps is None else steps)) as seeds:
        for step in seeds.steps:
            make: Make = partial(seeds.make, step)
            for listener in listeners:
                make = _heard(listener, step, make)
            make(silent)


class SeedsAtOnce:
    """Makes the steps of each seed's training in a process of its own, in the run's name.

    All trainings begin when the first of their steps is wanted; whoever wants a step waits for it.
    A step that failed is made in this process if it is wanted again, and so is every other step.

    steps: all steps, in the order in which they are to be wanted.
    """

    def __init__(self, handle: RunHandle, steps: Sequence[Step]) -> None:
        recipe = handle.plan.recipe
        self._handle = handle
        self.steps = list(steps)
        self._chains: list[list[Step]] = []
        cards: Sequence[Card] = ()
        workers = recipe.run.workers
        at_once = min(workers, recipe.seeds) if isinstance(workers, int) else 1
        if at_once > 1:
            cards = gpus.cards() if device(recipe.run.device) == "cuda" else ()
            at_once = min(at_once, len(cards) or at_once)
            seeds = range(recipe.seed, recipe.seed + recipe.seeds)
            seed_chains = chains(steps, seeds) if at_once > 1 else []
            missing = [chain for chain in seed_chains if not all(map(self._is_made, chain))]
            if len(missing) > 1:
                self._chains = missing
                self.steps = reordered(steps, missing)
        self._pending = {s.name: place for place, c in enumerate(self._chains) for s in c}
        self._made: dict[str, StepResult] = {}
        self._failed: dict[int, Exception] = {}
        jobs = [
            (
                _make_chain,
                (handle.plan, handle.run_id, handle.fingerprints, [s.name for s in chain]),
            )
            for chain in self._chains
        ]
        self._told = run_jobs(jobs, at_once, cards)

    def make(self, step: Step, progress: Progress) -> StepResult:
        """The outcome of the step. Raises the error with which it failed."""
        place = self._pending.pop(step.name, None)
        if place is None:
            return run_step(self._handle, step, progress)
        # The trainings need the memory of processes that wait.
        self._handle.executor.close()
        while step.name not in self._made:
            if place in self._failed:
                for left in self._chains[place]:
                    self._pending.pop(left.name, None)
                raise self._failed[place]
            place_of_sender, message = next(self._told)
            if isinstance(message, StepResult):
                self._made[message.step] = message
            elif isinstance(message, Ended) and message.error is not None:
                self._failed[place_of_sender] = message.error
            elif isinstance(message, str):
                self._handle.say(message)
            elif isinstance(message, tuple) and message[0] == step.name:
                progress(*message[1:])
        return self._made[step.name]

    def _is_made(self, step: Step) -> bool:
        return artifact_of(self._handle, step.name).manifest() is not None

    def close(self) -> None:
        """Ends the processes."""
        self._told.close()


def _make_chain(
    tell: Callable[[Any], None],
    plan: RunPlan,
    run_id: str,
    prints: Mapping[str, Fingerprint],
    names: Sequence[str],
) -> None:
    """Makes these steps in another process; passes lines, progress and outcomes to `tell`."""
    with closing(Processes(1, tell)) as executor:
        handle = RunHandle(plan, open_store(plan.store), run_id, dict(prints), tell, executor)
        for step in plan.steps:
            if step.name in names:
                tell(run_step(handle, step, _told_now_and_then(tell, step.name)))


def _told_now_and_then(tell: Callable[[Any], None], name: str) -> Progress:
    """Passes a step's progress to `tell`, at most twice a second."""
    before = 0.0

    def report(done: int, total: int | None, unit: str) -> None:
        nonlocal before
        if (now := time.monotonic()) >= before + 0.5:
            before = now
            tell((name, done, total, unit))

    return report


def _heard(listener: Listener, step: Step, make: Make) -> Make:
    """`make` with the listener around it, whose progress is reported besides the outer one's."""

    def heard(outer: Progress) -> StepResult:
        def both(inner: Progress) -> StepResult:
            def report(done: int, total: int | None, unit: str) -> None:
                inner(done, total, unit)
                outer(done, total, unit)

            return make(report)

        return listener(step, both)

    return heard


def run_step(handle: RunHandle, step: Step, progress: Progress) -> StepResult:
    """Makes the step's artifact, or the missing parts of it, and records it in the run.

    A complete artifact is reused. If two runs want the same artifact, the second prints that it
    waits, and then reuses the first one's.
    """
    began = time.monotonic()
    artifact = artifact_of(handle, step.name)
    manifest, state = handle.whole.get(step.name), "reused"
    if manifest is None and (standing := artifact.manifest()) is not None and artifact.intact():
        # Weights are compared with their record each time (in a bucket: when they are fetched),
        # rows only when a step reads them.
        near = isinstance(handle.store.objects, Folder)
        manifest = None if near and faults_of(artifact, tables=False) else standing
    if manifest is not None:
        artifact.clear_scratch()
    else:
        state, manifest = _make(handle, step, progress)
    for line in (
        *guesses_of_tables(step),
        *own_documents(step, artifact),
    ):
        handle.say(line)
    if handle.llm is not None and not _asked_next(handle.plan, step):
        handle.llm.release()
    result = StepResult(
        step.name,
        artifact.version,
        state,
        round(time.monotonic() - began, 3),
        {name: int(entry["rows"]) for name, entry in manifest["tables"].items()},
    )
    runs.record_step(
        handle.store,
        handle.run_id,
        step.name,
        {
            "step": step.name,
            "stage": step.stage.name,
            "version": result.version,
            "state": result.state,
            "seconds": result.seconds,
            "tables": dict(result.tables),
        },
    )
    if state != "reused":
        catalog.write_catalog(handle.store, step_schemas(handle.plan.steps))
    return result


def _make(handle: RunHandle, step: Step, progress: Progress) -> tuple[str, dict[str, Any]]:
    """Makes what is missing or damaged in the step's artifact; returns state and manifest."""
    artifact = artifact_of(handle, step.name)
    name = f"artifact-{step.name}-{artifact.version}"

    def wait(holder: str) -> None:
        handle.say(f"{step.name:<32} waits for {holder}, which is making it")

    with locks.hold(handle.store, name, wait, f"run {handle.run_id}"):
        manifest = artifact.manifest()
        for schema in step_schemas([step]).values():
            put_schema(handle.store, schema)
        if faults := faults_of(artifact):
            path, fault = next(iter(faults.items()))
            more = f" and {len(faults) - 1:,} more" if len(faults) > 1 else ""
            handle.say(f"{step.name:<32} is damaged, and made again: {path} {fault}{more}")
            artifact.repair()
        elif manifest is not None:
            return "reused", manifest
        _compare_inputs(handle, step)
        state = "resumed" if artifact.records() else "made"
        prints = handle.fingerprints[step.name]
        manifest = make_artifact(handle, step, prints, artifact, progress)
        handle.compared.add(step.name)
        return state, manifest


def _compare_inputs(handle: RunHandle, step: Step) -> None:
    """Compares the artifacts that the step reads with their records, once a run. Artifacts that are
    damaged, or that somebody else has discarded meanwhile, are made again.
    """
    steps = {other.name: other for other in handle.plan.steps}
    for name in step.needs:
        artifact, compared = artifact_of(handle, name), name in handle.compared
        if artifact.manifest() is None or (not compared and faults_of(artifact)):
            _make(handle, steps[name], silent)
        handle.compared.add(name)


def _asked_next(plan: RunPlan, step: Step) -> bool:
    """Whether the model that this step asks answers again before another one or a training."""
    names = [other.name for other in plan.steps]
    for other in plan.steps[names.index(step.name) + 1 :]:
        if other.stage.asks is not None:
            return writer(step) in (None, writer(other))
        if other.stage.model:
            break
    return False


def chains(steps: Sequence[Step], seeds: Sequence[int]) -> list[list[Step]]:
    """The steps of each seed; none if there is one seed, or if a seed reads another seed's steps.

    seeds: the recipe's, in order. The steps of the first seed have no seed in their names.
    """
    by_seed = {
        seed: [step for step in steps if step.name.endswith(f".seed{seed}")] for seed in seeds[1:]
    }
    plain = {s.name.removesuffix(f".seed{seed}") for seed, named in by_seed.items() for s in named}
    seed_chains = [[step for step in steps if step.name in plain], *by_seed.values()]
    names = [{step.name for step in chain} for chain in seed_chains]
    every = set().union(*names)
    for chain, names_of_chain in zip(seed_chains, names, strict=True):
        if not chain or any((every - names_of_chain).intersection(step.needs) for step in chain):
            return []
    return seed_chains


def reordered(steps: Sequence[Step], seed_chains: Sequence[Sequence[Step]]) -> list[Step]:
    """The steps with the chains after all that needs none of them, each after its inputs."""
    of_chains = {step.name for chain in seed_chains for step in chain}
    after = set(of_chains)
    for step in steps:
        if after.intersection(step.needs):
            after.add(step.name)
    places = [
        [step for step in steps if step.name not in after],
        [step for step in steps if step.name in of_chains],
        [step for step in steps if step.name in after - of_chains],
    ]
    return [step for place in places for step in place]


def guesses_of_tables(step: Step) -> Sequence[str]:
    """A sentence for each corpus of tables; none for steps that read no corpora."""
    if not isinstance(step.config, IngestConfig | LabelledConfig):
        return ()
    by_corpus = {c.name: guesses(c, step.config.max_line_bytes) for c in step.config.corpora}
    return [
        f"{step.name}: corpus {name!r}: {', '.join(texts)}."
        for name, texts in by_corpus.items()
        if texts
    ]


def own_documents(step: Step, artifact: Artifact) -> Sequence[str]:
    """A sentence after `ingest`; none where all documents are the user's, or all Tercet's."""
    if not isinstance(step.config, IngestConfig):
        return ()
    shipped = [corpus.name for corpus in step.config.corpora if is_shipped(corpus.source)]
    if not shipped:
        return ()
    rows = artifact.rows()
    # Texts to pretrain on have no such table.
    if "corpus_outcomes" not in rows.tables:
        return ()
    documents: Counter[str] = Counter()
    for row in rows.table("corpus_outcomes").to_pylist():
        if row["unit"] == "document" and row["outcome"] != NOTHING_KEPT:
            documents[row["corpus"]] += row["n"]
    counts = count_apart(documents, shipped)
    return [f"{step.name}: {counts}."] if counts else ()


FAILED = "failed"


def count_failed(artifact: Artifact) -> int:
    """The rows in the existing parts that a language model failed to answer."""
    failed = 0
    for record in artifact.records().values():
        for file in record["tables"].get("rejects", ()):
            with suppress(FileNotFoundError):
                path = artifact.store.local(file["path"])
                reasons = rows_of({"rejects": [path]}).table("rejects", ["reason"])["reason"]
                failed += pc.sum(pc.equal(reasons, FAILED)).as_py() or 0
    return failed


def ask_again(
    store: Store, steps: Sequence[Step], prints: Mapping[str, Fingerprint]
) -> dict[str, int]:
    """Starts a new round of each step with failed rows; returns these steps and how many.

    A failed row is a reject of its artifact, which stays as it is. The round is part of the
    version, so the step and all later ones get new versions; answers already in the pool are taken
    from there.
    """
    failed = {}
    for step in steps:
        version = prints[step.name].version
        if step.stage.asks is None or version is None:
            continue
        if rows := count_failed(open_artifact(store, step.name, version)):
            failed[step.name] = rows
    for name in failed:
        records.next_round(store, name, fingerprints.round_key(prints[name].components))
    return failed
