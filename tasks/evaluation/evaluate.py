"""Stage `evaluate`: measures one encoder on held-out document pairs and on scored sentence pairs.

`evaluation_rows` documents the rows and their units.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator

from tercet.models.encoders.pooling import FormSettings, PoolingMode
from tercet.models.measures import metrics, resampling
from tercet.storage.rows import Rows
from tercet.tasks.evaluation.document_pairs import pairs_of_split
from tercet.tasks.evaluation.encoding import Encoded, encoded_texts, load, model_version
from tercet.tasks.evaluation.evaluation_rows import (
    EVALUATIONS,
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
    as_done_by,
    figures,
    gain_rows,
    item_table,
    values_of,
)
from tercet.tasks.evaluation.suites.awareness_pairs import awareness_tasks
from tercet.tasks.evaluation.suites.layout import Split
from tercet.tasks.evaluation.suites.reranking import MTEB
from tercet.tasks.evaluation.suites.sts import STS_TASKS, ScoredTask
from tercet.tasks.evaluation.suites.suite import (
    Suite,
    read_suite,
    revisions,
    suite_files,
    task_names,
)
from tercet.tasks.evaluation.task_scores import GROUPS, stsb_geometry, task_scores
from tercet.tasks.rejects import rejects
from tercet.tasks.stage import BadInput, Config, Stage, Work, silent

# Rows of several models, by the names they were given; p is that of a gain over the first.
COMPARED = pa.schema([("model", pa.string()), *EVALUATIONS, ("p", pa.float64())])


class EvaluateSettings(FormSettings, Config):
    """What an encoder is measured on, and how its vectors are made."""

    retrieval: bool = Field(
        default=True,
        description="Finds each document pair's answer among all answers of its split.",
    )
    suite: Path | None = Field(
        default=None, description="Directory in SentEval's layout with the tasks; null: none."
    )
    tasks: tuple[str, ...] = Field(
        default=STS_TASKS,
        description="Tasks of the suite, or sts, transfer, reranking, pairs or all.",
    )
    splits: tuple[Split, ...] = Field(
        default=("test",), min_length=1, description="Splits to measure, each separately."
    )
    max_length: int | None = Field(
        default=None, ge=4, le=8192, description="Longest input in tokens; null: the model's own."
    )
    precision: Literal["fp32", "bf16"] = Field(
        default="fp32", description="bf16 is faster and moves cosines by up to 4e-3."
    )
    max_pairs: int = Field(
        default=2_000,
        ge=2,
        le=10_000_000,
        description="Most document pairs of a split, drawn by seed.",
    )
    bootstrap: int = Field(
        default=2_000, ge=100, le=100_000, description="Resamples behind an interval."
    )

    @field_validator("tasks")
    @classmethod
    def _known_tasks(cls, asked: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return task_names(asked)
        except BadInput as error:
            raise ValueError(str(error)) from None


class EvaluateConfig(EvaluateSettings):
    """The same with the seed of the training that made the model."""

    model_seed: int | None = Field(
        default=None, description="Recorded with each figure; null: the run's seed."
    )
    phase: str = Field(
        default="encoder",
        description="Recorded with each figure: encoder, or the name of an earlier phase.",
    )


@dataclass(frozen=True)
class Material:
    """What an encoder is measured on: a run's document pairs, a suite, a run's awareness pairs."""

    pairs: Sequence[Pairs] = ()
    suite: Suite = field(default_factory=Suite)
    awareness: Sequence[ScoredTask] = ()

    def texts(self) -> list[str]:
        """The texts of all of them, repetitions included."""
        texts = [text for pairs in self.pairs for text in (*pairs.queries, *pairs.answers)]
        texts += self.suite.texts()
        return texts + [text for task in self.awareness for text in task.texts()]


def externals(config: EvaluateConfig) -> dict[str, Path | str]:
    """What is read besides the run's tables: files by their path inside the suite, and what stands
    for data of the package mteb. Raises BadInput for what is not there.
    """
    names = measured_tasks(config)
    if not names:
        return {}
    files = suite_files(_folder(config), names, config.splits)
    return {**files, **revisions(names)}


def run(work: Work) -> None:
    """Emits `evaluations`, `evaluation_items` and `retrieval_ranks` of the model in `model`.

    Slots: document_pairs; awareness, where the recipe measures that; baseline, the tables of the
    untouched model: with it the gains over it too.
    """
    config: EvaluateConfig = work.config
    pairs = _document_pairs(work) if config.retrieval else []
    material = Material(pairs, _suite(config), _awareness(work))
    texts = material.texts()
    if not texts:
        return
    path = work.models["model"]
    encoded, pooling = encoded_texts(
        load(path, config, config.max_length, work.resources.device),
        path,
        texts,
        work.resources.batch_size,
        config.precision,
        work.scratch,
        work.resources.progress,
    )
    trained = "baseline" in work.inputs
    phase = config.phase if trained else "base"
    trained_with = work.seed if config.model_seed is None else config.model_seed
    subject = Subject(model_version(path), phase, trained_with, pooling)
    rows: list[dict[str, Any]] = []
    for held_out in pairs:
        ranks = _ranks(encoded, held_out)
        work.emit("retrieval_ranks", rank_table(subject, held_out, ranks))
        baseline = _baseline(work.inputs["baseline"], held_out) if trained else None
        rows += _pair_rows(subject, held_out, encoded, ranks, baseline, config.bootstrap, work.seed)
    done = task_scores(material.suite, material.awareness, encoded, work.resources.progress)
    work.emit("evaluation_items", item_table(subject, done))
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
    pairs: Sequence[Pairs] = (),
    awareness: Sequence[ScoredTask] = (),
    pooling: PoolingMode | None = None,
    prompt: str | None = None,
    max_length: int | None = None,
    precision: Literal["fp32", "bf16"] = "fp32",
    batch_size: int = 64,
    device: str = "cpu",
    progress: Callable[[int, int | None, str], None] = silent,
    resamples: int = 2_000,
    seed: int = 0,
) -> pa.Table:
    """Rows of `COMPARED`: each model, by the name it is given, on a suite and on pairs of a run.

    Those after the first have gains over the first, on the same resamples.
    suite_dir, asked: None reads only tasks that lie in no suite; no tasks: the seven.
    pairs, awareness: what the stage would measure; with the seed and resamples of its run, the
        figures are its own.
    Raises: BadInput for a faulty suite, an unknown task or a model that cannot be loaded.
    """
    config = EvaluateConfig(
        retrieval=False,
        suite=suite_dir,
        tasks=tuple(asked),
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
            ranks = [_ranks(encoded, held_out) for held_out in pairs]
            own: list[dict[str, Any]] = []
            for held_out, after, before in zip(pairs, ranks, ranks_of_first, strict=True):
                own += _pair_rows(subject, held_out, encoded, after, before, resamples, seed)
            done = task_scores(material.suite, awareness, encoded, progress)
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
    names = measured_tasks(config)
    return read_suite(_folder(config), names, config.splits) if names else Suite()


def measured_tasks(config: EvaluateSettings) -> tuple[str, ...]:
    """The tasks to read; without a suite those that need none."""
    own = tuple(name for name in config.tasks if name.startswith(MTEB))
    return own if config.suite is None else config.tasks


def _folder(config: EvaluateSettings) -> Path:
    return Path() if config.suite is None else config.suite.expanduser()


def _awareness(work: Work) -> list[ScoredTask]:
    if "awareness" not in work.inputs:
        return []
    return awareness_tasks(work.inputs["awareness"].table("awareness_pairs"))


def _document_pairs(work: Work) -> list[Pairs]:
    """The pairs of each split, at most `max_pairs` of them; a split without pairs is a reject."""
    config: EvaluateConfig = work.config
    found = drawn_pairs(work.inputs["document_pairs"], config.splits, config.max_pairs, work.seed)
    for split in config.splits:
        if split not in [pairs.split for pairs in found]:
            work.emit("rejects", _no_pairs(split))
    return found


def drawn_pairs(rows: Rows, splits: Sequence[Split], max_pairs: int, seed: int) -> list[Pairs]:
    """The pairs of each split that has some, at most `max_pairs` of them, drawn by their ids."""
    found = []
    for split in splits:
        part = pairs_of_split(rows, split, max_pairs, seed)
        ids = part["pair_id"].to_numpy().astype(np.uint64)
        if len(ids):
            found.append(Pairs(split, ids, part["query"].to_pylist(), part["answer"].to_pylist()))
    return found


def _no_pairs(split: str) -> pa.Table:
    detail = f"the corpora have no document pairs in split {split}: retrieval was not measured"
    return rejects("evaluate", [None], "no_pairs", detail, None)


def _ranks(encoded: Encoded, pairs: Pairs) -> npt.NDArray[np.int32]:
    """Rank of each query's answer among the distinct answers of the split."""
    places = {text: place for place, text in enumerate(dict.fromkeys(pairs.answers))}
    own = np.array([places[text] for text in pairs.answers], dtype=np.int64)
    return metrics.answer_ranks(encoded.of(pairs.queries), encoded.of(list(places)), own)


def _baseline(rows: Rows, pairs: Pairs) -> npt.NDArray[np.int32]:
    """The untouched model's ranks of these pairs. Raises BadInput if one is missing."""
    table = rows.table("retrieval_ranks", ["pair_id", "split", "rank"])
    table = table.filter(pc.equal(table["split"], pairs.split)).sort_by("pair_id")
    ids = table["pair_id"].to_numpy().astype(np.uint64)
    absent = int((~np.isin(pairs.ids, ids)).sum())
    if absent:
        raise BadInput(
            f"The baseline lacks {absent} of {len(pairs.ids)} document pairs, so nothing can be "
            "compared: evaluate it on the same pairs (same seed and max_pairs)."
        )
    ranks: npt.NDArray[np.int32] = table["rank"].to_numpy().astype(np.int32)
    return np.take(ranks, np.searchsorted(ids, pairs.ids))


STAGE = Stage(
    name="evaluate",
    config=EvaluateConfig,
    tables={
        "evaluations": EVALUATIONS,
        "evaluation_items": EVALUATION_ITEMS,
        "retrieval_ranks": RETRIEVAL_RANKS,
    },
    run=run,
    libraries=("torch", "transformers", "sentence-transformers", "scikit-learn"),
    modules=("tercet.models.encoders.encoder",),
    externals=externals,
    locations=("suite",),
)
