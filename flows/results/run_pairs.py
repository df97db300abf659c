"""A run's own evaluation data: document pairs, awareness pairs, and the files its recipe names."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tercet.flows.formatting import count_of
from tercet.flows.results.queries import named_run, rows_of_stage
from tercet.models.encoders.settings import Prompts
from tercet.storage import runs
from tercet.storage.store import Store, is_store, open_store
from tercet.tasks.corpus import ingest, passages
from tercet.tasks.evaluation import awareness, judgements
from tercet.tasks.evaluation.evaluate import STAGE, EvaluateConfig
from tercet.tasks.evaluation.evaluation_rows import DOCUMENT_PAIRS, HALVES, Pairs, draw_pairs
from tercet.tasks.evaluation.suites.beir import RetrievalTask
from tercet.tasks.evaluation.suites.fact_order import name_after
from tercet.tasks.evaluation.suites.judged import judged_tasks, read_judged
from tercet.tasks.evaluation.suites.layout import Split
from tercet.tasks.evaluation.suites.own import RetrievalSource, StsSet
from tercet.tasks.evaluation.suites.own_questions import Unusable
from tercet.tasks.evaluation.suites.sts import ScoredTask, read_awareness
from tercet.tasks.stage import BadInput, Resources

RETRIEVAL, AWARENESS, FACT_ORDER, STS_SETS = "retrieval", "awareness", "fact_order", "sts_sets"
RETRIEVAL_SETS = "retrieval_sets"
# Tasks that are evaluated on a run's pairs or on the files that its recipe names, not on a suite.
OF_A_RUN = (RETRIEVAL, AWARENESS, FACT_ORDER, STS_SETS, RETRIEVAL_SETS)
# Prefixes of files that `--tasks` names itself.
OF_A_FILE = {FACT_ORDER: "fact_order", STS_SETS: "sts", RETRIEVAL_SETS: "questions"}
_MEANT = {FACT_ORDER: "fact order", STS_SETS: "graded pairs", RETRIEVAL_SETS: "questions"}
FILES = tuple(f"{prefix}:" for prefix in OF_A_FILE.values())
# The prefixes that need no run.
OF_FILES = " or ".join(f"{prefix}FILE" for prefix in FILES[:2])


@dataclass(frozen=True)
class RunPairs:
    """The pairs of one run and its recipe's own files, with the settings that `evaluate` uses.

    Defaults apply without a run.

    seed: draws pairs and resamples. batch_size: the shape of a batch swaps the ranks of nearly
        equal cosines, which changes rank correlations.
    """

    run_id: str | None = None
    seed: int = 0
    batch_size: int = Resources.batch_size
    settings: EvaluateConfig = field(default_factory=EvaluateConfig)
    pairs: Sequence[Pairs] = ()
    awareness: Sequence[ScoredTask] = ()
    fact_order: Mapping[str, str] = field(default_factory=dict)
    sts_sets: Mapping[str, StsSet] = field(default_factory=dict)
    retrieval_sets: Mapping[str, RetrievalSource] = field(default_factory=dict)
    judged: Sequence[RetrievalTask] = ()
    prompts: Prompts = field(default_factory=Prompts)
    left_out: Sequence[str] = ()


def read_pairs(
    location: str,
    run_ref: str | None,
    tasks: Collection[str],
    splits: Sequence[Split],
    question_files: Mapping[str, str] | None = None,
) -> RunPairs:
    """The pairs of a run for the requested tasks of `OF_A_RUN`.

    run_ref: None means the newest run that has trained or measured, else the newest.
    question_files: further tables of questions to its passages, by name.

    Awareness pairs always consist of dev sentences.
    Raises: BadInput if there is no store, no such run, or a split without pairs.
    """
    names = [
        *(name for name in OF_A_RUN if name in tasks),
        *(["questions:FILE"] if question_files else []),
    ]
    store, run = _run(location, run_ref, " and ".join(names))
    settings = _settings(run)
    seed = int(run["recipe"].get("seed", 0))
    pairs: list[Pairs] = []
    if RETRIEVAL in tasks:
        pairs = _pairs(store, run, splits, settings.max_pairs, seed)
    sets = _files(run, settings, RETRIEVAL_SETS) if RETRIEVAL_SETS in tasks else {}
    judged = _judged_tasks(store, run, splits) if settings.questions.keys() & sets.keys() else []
    more, left_out = (
        _question_tasks(store, run, splits, question_files) if question_files else ([], [])
    )
    return RunPairs(
        run["run_id"],
        seed,
        int((run["recipe"].get("run") or {}).get("batch_size", Resources.batch_size)),
        settings,
        pairs,
        _awareness(store, run) if AWARENESS in tasks else [],
        _files(run, settings, FACT_ORDER) if FACT_ORDER in tasks else {},
        _files(run, settings, STS_SETS) if STS_SETS in tasks else {},
        {name: one for name, one in sets.items() if name not in settings.questions},
        judged + more,
        Prompts.model_validate(run["recipe"].get("prompts") or {}),
        left_out,
    )


def own_files(names: Sequence[str], key: str) -> dict[str, str]:
    """The files named as `fact_order:FILE` or the like. Raises BadInput if two have one name."""
    prefix = f"{OF_A_FILE[key]}:"
    files: dict[str, str] = {}
    for file in (name.removeprefix(prefix) for name in names if name.startswith(prefix)):
        name = name_after(file)
        if name in files:
            raise BadInput(
                "conflict", f"--tasks names two files {name!r} of {_MEANT[key]}: rename one."
            )
        files[name] = file
    return files


def _run(location: str, run_ref: str | None, what: str) -> tuple[Store, runs.Run]:
    reads = f"reads the pairs of a run, and {location}"
    if not is_store(location):
        raise BadInput(
            "missing_file",
            f"--tasks {what} {reads} is not a store: name one with --store, or run a recipe first.",
        )
    store = open_store(location, create=False)
    try:
        run = runs.resolve_run(store, run_ref)
    except runs.UnknownRef as error:
        raise BadInput(error.kind, str(error)) from None
    if run_ref is None:
        # The newest run may have stopped before its pairs. The encoder `train` is that of the
        # newest run that has one, and the pairs of this run were held out from it.
        run = next((other for other in runs.list_runs(store) if _has_encoder(other)), run)
    return store, run


def _has_encoder(run: Mapping[str, Any]) -> bool:
    stages = {entry.get("stage", entry["step"]).partition(".")[0] for entry in run["steps"]}
    return not stages.isdisjoint({"train", STAGE.name})


def _settings(run: Mapping[str, Any]) -> EvaluateConfig:
    """The settings that decide which pairs are drawn and how they are evaluated.

    Defaults replace keys that a recipe of another version of Tercet lacks.
    """
    recorded = run["recipe"].get("evaluate") or {}
    keys = ("max_pairs", "max_length", "bootstrap", "precision", *OF_A_FILE)
    return EvaluateConfig(**{key: recorded[key] for key in keys if key in recorded})


def _pairs(
    store: Store, run: Mapping[str, Any], splits: Sequence[Split], max_pairs: int, seed: int
) -> list[Pairs]:
    drawn: list[Pairs] = []
    for stage in (ingest.STAGE.name, HALVES):
        drawn += draw_pairs(rows_of_stage(store, run, stage), splits, max_pairs, seed)
    drawn_splits = {pairs.split for pairs in drawn if pairs.task in (DOCUMENT_PAIRS, HALVES)}
    lacking = [split for split in splits if split not in drawn_splits]
    if lacking:
        raise BadInput(
            "not_reached",
            f"{named_run(run)} has no document pairs in split {' or '.join(lacking)}: name "
            "another run with --run or other --splits, or run a recipe whose corpus names the "
            "columns `query` and `answer`, or which measures halves (`evaluate.halves`), and whose "
            f"`ingest.{lacking[0]}` is large enough.",
        )
    return drawn


def _awareness(store: Store, run: Mapping[str, Any]) -> list[ScoredTask]:
    rows = rows_of_stage(store, run, awareness.NAME)
    tasks = []
    if "awareness_pairs" in rows.tables:
        tasks = read_awareness(rows.table("awareness_pairs"))
    if not tasks:
        fault, more = "has not made awareness pairs", ""
        if rows.versions:
            fault = "found too few entities and quantities for awareness pairs"
            more = " and more dev sentences (`ingest.dev`)"
        raise BadInput(
            "not_reached",
            f"{named_run(run)} {fault}: name another run with --run, or run its recipe with "
            f"`awareness: {{teacher: MODEL}}`{more}.",
        )
    return tasks


def _judged_tasks(store: Store, run: runs.Run, splits: Sequence[Split]) -> list[RetrievalTask]:
    """The run's questions about its passages. Raises BadInput if it has not reached them."""
    slots = {
        name: rows_of_stage(store, run, name) for name in (judgements.NAME, passages.STAGE.name)
    }
    if not all(name in rows.tables for name, rows in slots.items()):
        raise BadInput(
            "not_reached",
            f"{named_run(run)} has not reached its questions: run its recipe again, or name "
            "another run with --run.",
        )
    return read_judged(slots, splits)


def _question_tasks(
    store: Store, run: runs.Run, splits: Sequence[Split], question_files: Mapping[str, str]
) -> tuple[list[RetrievalTask], list[str]]:
    """The tasks of these tables of questions, and a note on each kind of rows left out."""
    passage_rows = rows_of_stage(store, run, passages.STAGE.name)
    if passages.STAGE.name not in passage_rows.tables:
        raise BadInput(
            "not_reached",
            f"{named_run(run)} has no passages to ask: name another run with --run, or run its "
            "recipe with `ingest: {passages: {}}`.",
        )
    recipe = run["recipe"]
    config = judgements.JudgementsConfig(
        sets={name: RetrievalSource(source=file) for name, file in question_files.items()},
        splits=tuple(splits),
        corpora=[c for c in recipe["corpora"] if c.get("role") not in ("labelled", "pretrain")],
        max_line_bytes=(recipe.get("ingest") or {}).get("max_line_bytes", 1_000_000),
    )
    table = passage_rows.table(passages.STAGE.name)
    tasks, notes = [], []
    for name, judged, left_out in judgements.judge_tables(config, table):
        tasks += judged_tasks(judged, table, splits)
        by_kind: dict[str, list[Unusable]] = {}
        for row in left_out:
            by_kind.setdefault(judgements.NOTES.get(row.reason, "left out"), []).append(row)
        for what, some in by_kind.items():
            rows = count_of(len(some), "row")
            notes.append(f"{name}: {rows} {what}; the first: row {some[0].row}: {some[0].detail}")
    return tasks, notes


def _files(run: Mapping[str, Any], settings: EvaluateConfig, key: str) -> Mapping[str, Any]:
    """The files under this key of the run's recipe, by name. Raises BadInput if there is none."""
    files: Mapping[str, Any] = getattr(settings, key)
    if not files:
        raise BadInput(
            "not_reached",
            f"{named_run(run)} names no file under evaluate.{key}: name another run with --run, "
            f"or a file: --tasks {OF_A_FILE[key]}:FILE.",
        )
    return files
