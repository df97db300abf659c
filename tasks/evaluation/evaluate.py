"""Stage `evaluate`: measures one encoder on held-out pairs and labels, and on published sets.

`evaluation_rows` documents the rows and their units.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from tercet.models.encoders.pooling import PoolingMode
from tercet.models.measures import resampling
from tercet.models.precision import Precision
from tercet.storage.rows import joined
from tercet.tasks.evaluation.encoding import Encoded, encoded_texts, load, model_version
from tercet.tasks.evaluation.evaluate_settings import (
    EvaluateSettings,
    list_tasks,
    suite_folder,
)
from tercet.tasks.evaluation.evaluation_rows import (
    DOCUMENT_PAIRS,
    EVALUATIONS,
    HALVES,
    RETRIEVAL_RANKS,
    Pairs,
    Subject,
    geometry_rows,
    rank_table,
    retrieval_rows,
    row,
)
from tercet.tasks.evaluation.items import (
    EVALUATION_ITEMS,
    Figure,
    Scores,
    as_done_by,
    figures,
    gain_rows,
    item_table,
    values_of,
)
from tercet.tasks.evaluation.label_scores import LabelTask, label_scores, label_tasks
from tercet.tasks.evaluation.retrieval import (
    baseline_ranks,
    draw_pairs,
    no_pairs,
    ranks_of,
)
from tercet.tasks.evaluation.suites.awareness_pairs import read_awareness
from tercet.tasks.evaluation.suites.fact_order import find_case_files, read_cases
from tercet.tasks.evaluation.suites.layout import Split
from tercet.tasks.evaluation.suites.own import StsSet
from tercet.tasks.evaluation.suites.reranking import no_ranking
from tercet.tasks.evaluation.suites.sts import ScoredTask
from tercet.tasks.evaluation.suites.sts_sets import find_set_files, read_sets, skipped_pairs
from tercet.tasks.evaluation.suites.suite import (
    Suite,
    read_suite,
    revisions,
    suite_files,
)
from tercet.tasks.evaluation.task_scores import (
    FACT_ORDER_CASES,
    GROUPS,
    case_table,
    stsb_geometry,
    task_scores,
)
from tercet.tasks.stage import Stage, Work, silent

# Rows of several models, by the names they were given; p is that of a gain over the first.
COMPARED = pa.schema([("model", pa.string()), *EVALUATIONS, ("p", pa.float64())])


class EvaluateConfig(EvaluateSettings):
    """The same with the seed of the training that made the model."""

    model_seed: int | None = Field(
        default=None, description="Recorded with each figure; null: the run's seed."
    )
    phase: str = Field(
        default="encoder",
        description="Recorded with each figure: encoder, or the name of an earlier phase.",
    )
    trust_remote_code: bool = False


@dataclass(frozen=True)
class Material:
    """What an encoder is measured on: a suite, and a run's pairs, awareness pairs and labels."""

    pairs: Sequence[Pairs] = ()
    suite: Suite = field(default_factory=Suite)
    awareness: Sequence[ScoredTask] = ()
    labels: Sequence[LabelTask] = ()

    def texts(self) -> list[str]:
        """The texts of all of them, repetitions included."""
        texts = [text for pairs in self.pairs for text in (*pairs.queries, *pairs.answers)]
        texts += self.suite.texts()
        texts += [text for task in self.awareness for text in task.texts()]
        return texts + [text for task in self.labels for text in task.texts()]

    def scores(
        self, encoded: Encoded, progress: Callable[[int, int | None, str], None]
    ) -> list[Scores]:
        """One value per item of all but the pairs, which are ranked."""
        done = task_scores(self.suite, self.awareness, encoded, progress)
        return done + [made for task in self.labels for made in label_scores(task, encoded)]


def externals(config: EvaluateConfig) -> dict[str, Path | str]:
    """What is read besides the run's tables: files by their path inside the suite, and what stands
    for data of the package mteb. Raises BadInput for what is not there.
    """
    names = list_tasks(config)
    own = find_case_files(config.fact_order) | find_set_files(config.sts_sets)
    if not names:
        return {**own}
    files = suite_files(suite_folder(config), names, config.splits)
    return {**files, **revisions(names), **own}


def run(work: Work) -> None:
    """Emits the tables of the model in `model`: its figures, and what they are made of.

    Slots: document_pairs; halves, awareness and labels, where the recipe measures these; baseline,
    the tables of the untouched model: with it the gains over it too.
    """
    config: EvaluateConfig = work.config
    pairs = _pairs(work)
    material = Material(pairs, _suite(config), _awareness(work), _labels(work))
    texts = material.texts()
    if not texts:
        return
    for task in material.suite.reranking:
        if task.skipped:
            work.emit("rejects", no_ranking(task))
    for pairs_of_file in material.suite.sts_sets:
        if pairs_of_file.skipped:
            work.emit("rejects", skipped_pairs(pairs_of_file))
    path = work.models["model"]
    trained = "baseline" in work.inputs
    encoded, pooling = encoded_texts(
        load(
            path,
            config,
            config.max_length,
            work.resources.device,
            config.trust_remote_code,
            cnn_seed=None if trained else work.seed,
        ),
        path,
        texts,
        work.resources.batch_size,
        config.precision,
        work.scratch,
        work.resources.progress,
    )
    phase = config.phase if trained else "base"
    trained_with = work.seed if config.model_seed is None else config.model_seed
    subject = Subject(model_version(path), phase, trained_with, pooling)
    rows: list[dict[str, Any]] = []
    for held_out in pairs:
        ranks = ranks_of(encoded, held_out)
        work.emit("retrieval_ranks", rank_table(subject, held_out, encoded, ranks))
        baseline = baseline_ranks(work.inputs["baseline"], held_out) if trained else None
        rows += _pair_rows(subject, held_out, encoded, ranks, baseline, config.bootstrap, work.seed)
    done = material.scores(encoded, work.resources.progress)
    work.emit("evaluation_items", item_table(subject, done))
    for cases in material.suite.fact_order:
        work.emit("fact_order_cases", case_table(subject, cases, encoded))
    found = figures(done, GROUPS, config.bootstrap, work.seed)
    rows += _figure_rows(subject, found)
    rows += stsb_geometry(subject, material.suite, encoded, work.seed)
    if trained and done:
        values = values_of(work.inputs["baseline"].table("evaluation_items"))
        before = figures(as_done_by(done, values), GROUPS, config.bootstrap, work.seed)
        rows += gain_rows(partial(row, subject), found, before)
    work.emit("evaluations", pa.Table.from_pylist(rows, schema=EVALUATIONS))


def evaluate_models(
    models: Mapping[str, Path],
    suite_dir: Path | None,
    asked: Sequence[str] = (),
    splits: Sequence[Split] = ("test",),
    fact_order: Mapping[str, str] | None = None,
    sts_sets: Mapping[str, StsSet] | None = None,
    pairs: Sequence[Pairs] = (),
    awareness: Sequence[ScoredTask] = (),
    pooling: PoolingMode | None = None,
    prompt: str | None = None,
    max_length: int | None = None,
    precision: Precision = "fp32",
    batch_size: int = 64,
    device: str = "cpu",
    progress: Callable[[int, int | None, str], None] = silent,
    resamples: int = 2_000,
    seed: int = 0,
) -> pa.Table:
    """Rows of `COMPARED`: each model, by the name it is given, on a suite and on pairs of a run.

    Those after the first have gains over the first, on the same resamples.
    suite_dir, asked: None reads only tasks that lie in no suite; no tasks: the seven.
    fact_order, sts_sets: files of cases, and of graded pairs, by name.
    pairs, awareness: what the stage would measure; with the seed and resamples of its run, the
        figures are its own.
    Raises: BadInput for a faulty suite, an unknown task or a model that cannot be loaded.
    """
    config = EvaluateConfig(
        retrieval=False,
        suite=suite_dir,
        tasks=tuple(asked),
        fact_order=dict(fact_order or {}),
        sts_sets=dict(sts_sets or {}),
        splits=tuple(splits),
        pooling=pooling,
        prompt=prompt,
        max_length=max_length,
        precision=precision,
        bootstrap=resamples,
    )
    material = Material(pairs, _suite(config), awareness)
    for path in list(models.values())[1:]:
        load(path, config, config.max_length, device)
    rows: list[dict[str, Any]] = []
    first: list[Figure] | None = None
    ranks_of_first: list[npt.NDArray[np.int32] | None] = [None] * len(pairs)
    for name, path in models.items():
        with tempfile.TemporaryDirectory(prefix="tercet-") as scratch:
            encoded, used = encoded_texts(
                load(path, config, max_length, device),
                path,
                material.texts(),
                batch_size,
                precision,
                Path(scratch),
                progress,
            )
            subject = Subject(model_version(path), "eval", seed, used)
            ranks = [ranks_of(encoded, held_out) for held_out in pairs]
            own: list[dict[str, Any]] = []
            for held_out, after, before in zip(pairs, ranks, ranks_of_first, strict=True):
                own += _pair_rows(subject, held_out, encoded, after, before, resamples, seed)
            done = material.scores(encoded, progress)
            found = figures(done, GROUPS, resamples, seed)
            own += _figure_rows(subject, found)
            own += stsb_geometry(subject, material.suite, encoded, seed)
        if first is None:
            first, ranks_of_first = found, [*ranks]
        else:
            own += gain_rows(partial(row, subject), found, first)
        rows += [{**made, "model": name} for made in own]
    return pa.Table.from_pylist(rows, schema=COMPARED)


def evaluate_model(path: Path, suite_dir: Path, asked: Sequence[str] = (), **kw: Any) -> pa.Table:
    """The rows of `evaluations` of one model on a suite; the options are `evaluate_models`'."""
    return evaluate_models({"": path}, suite_dir, asked, **kw).select(EVALUATIONS.names)


def _pair_rows(
    subject: Subject,
    pairs: Pairs,
    encoded: Encoded,
    ranks: npt.NDArray[np.int32],
    baseline: npt.NDArray[np.int32] | None,
    resamples: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Retrieval, gains if there is a baseline, and geometry of one split's pairs."""
    rows = retrieval_rows(subject, pairs, ranks, baseline, resamples, seed)
    queries, answers = pairs.queries, pairs.answers
    return rows + geometry_rows(
        subject,
        pairs.data(),
        pairs.split,
        encoded,
        queries,
        answers,
        [*queries, *answers],
        seed,
    )


def _figure_rows(subject: Subject, found: Sequence[Figure]) -> list[dict[str, Any]]:
    return [
        row(
            subject,
            figure.data,
            figure.subset,
            figure.metric,
            resampling.interval(figure.sampled),
            figure.n,
        )
        for figure in found
    ]


def _suite(config: EvaluateConfig) -> Suite:
    names = list_tasks(config)
    found = read_suite(suite_folder(config), names, config.splits) if names else Suite()
    return replace(
        found,
        fact_order=read_cases(config.fact_order, config.splits),
        sts_sets=read_sets(config.sts_sets, config.splits),
    )


def _awareness(work: Work) -> list[ScoredTask]:
    if "awareness" not in work.inputs:
        return []
    return read_awareness(work.inputs["awareness"].table("awareness_pairs"))


def _labels(work: Work) -> list[LabelTask]:
    if "labels" not in work.inputs:
        return []
    return label_tasks(work.inputs["labels"].table("labels"), work.config.splits)


def _pairs(work: Work) -> list[Pairs]:
    """At most `max_pairs` of each split and question; a split without any is a reject."""
    config: EvaluateConfig = work.config
    found: list[Pairs] = []
    slots: dict[str, tuple[str, ...]] = {}
    if config.retrieval:
        slots[DOCUMENT_PAIRS] = (DOCUMENT_PAIRS, "questions")
    if HALVES in work.inputs:
        slots[HALVES] = (HALVES,)
    for task, names in slots.items():
        rows = joined([work.inputs[name] for name in names])
        own = draw_pairs(rows, config.splits, config.max_pairs, work.seed)
        there = [pairs.split for pairs in own if pairs.task == task]
        for split in config.splits:
            # Of halves the stage that cuts them says it, and why.
            if split not in there and task != HALVES:
                work.emit("rejects", no_pairs(split))
        found += own
    return found


STAGE = Stage(
    name="evaluate",
    config=EvaluateConfig,
    tables={
        "evaluations": EVALUATIONS,
        "evaluation_items": EVALUATION_ITEMS,
        "retrieval_ranks": RETRIEVAL_RANKS,
        "fact_order_cases": FACT_ORDER_CASES,
    },
    run=run,
    libraries=("torch", "transformers", "sentence-transformers", "scikit-learn"),
    externals=externals,
    locations=("suite", "fact_order", "sts_sets.*.source"),
)
