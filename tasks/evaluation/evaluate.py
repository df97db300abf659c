"""Stage `evaluate`: measures one encoder on held-out pairs and labels, and on published sets.

`evaluation_rows` documents the rows and their units.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, field_validator

from tercet.errors import InvalidSetting, kind_of
from tercet.models.encoders.settings import FormSettings, Prompts, Sided
from tercet.models.machine import Precision
from tercet.models.measures import probe
from tercet.models.retrieval.rankings import NONE
from tercet.storage.rows import joined
from tercet.tasks.config import Steers, Wired
from tercet.tasks.encoders import load_encoder
from tercet.tasks.evaluation.encoding import Encoded, encode_texts, model_version
from tercet.tasks.evaluation.evaluation_rows import (
    DOCUMENT_PAIRS,
    EVALUATIONS,
    FACT_ORDER_CASES,
    HALVES,
    RETRIEVAL_RANKS,
    Pairs,
    Subject,
    baseline_ranks,
    case_table,
    draw_pairs,
    geometry_rows,
    rank_table,
    ranks_of,
    retrieval_rows,
    stsb_geometry,
)
from tercet.tasks.evaluation.items import (
    EVALUATION_ITEMS,
    Figure,
    figures,
    gain_rows,
    gains_of_choice,
    item_table,
    rescore,
)
from tercet.tasks.evaluation.suites.beir import (
    BM25,
    ENCODER,
    HYBRID,
    RetrievalTask,
    find_retrieval_files,
    read_retrieval_sets,
)
from tercet.tasks.evaluation.suites.fact_order import (
    OrderTask,
    find_case_files,
    name_after,
    read_cases,
)
from tercet.tasks.evaluation.suites.judged import read_judged
from tercet.tasks.evaluation.suites.layout import Split, content_digest, text_form
from tercet.tasks.evaluation.suites.own import RetrievalSource, StsSet, TaskName
from tercet.tasks.evaluation.suites.reranking import MTEB
from tercet.tasks.evaluation.suites.sts import STS_TASKS, read_awareness
from tercet.tasks.evaluation.suites.sts_sets import find_set_files, read_sets
from tercet.tasks.evaluation.suites.suite import (
    KINDS,
    read_suite,
    revisions,
    suite_files,
    task_names,
)
from tercet.tasks.evaluation.suites.task import Data, Part, Scores, Task
from tercet.tasks.rejects import SHOWN, rejects
from tercet.tasks.stage import BadInput, Resources, Stage, Work


class EvaluateConfig(FormSettings):
    """Which data an encoder is measured on, and how its vectors are made."""

    retrieval: bool = Field(
        default=True,
        description="Finds each document pair's answer among all answers of its split, and those "
        "of the table `questions`.",
    )
    suite: Path | None = Field(
        default=None, description="Directory in SentEval's layout with the tasks; null: none."
    )
    tasks: tuple[str, ...] = Field(
        default=STS_TASKS,
        description="Tasks of the suite, or sts, transfer, reranking, pairs or all.",
    )
    fact_order: dict[TaskName, str] = Field(
        default_factory=dict,
        description="Files of fact order by name, or one file: whether a rewording is nearer than "
        "a changed fact.",
        json_schema_extra={"type": ["object", "string"]},
    )
    sts_sets: dict[TaskName, StsSet] = Field(
        default_factory=dict,
        description="Files of graded pairs by name, or one file: Spearman of cosine and score.",
        json_schema_extra={"type": ["object", "string"]},
    )
    retrieval_sets: dict[TaskName, RetrievalSource] = Field(
        default_factory=dict,
        description="By name, or one alone: folders in BEIR's layout, whose queries are ranked "
        "among their documents, or tables of questions to the corpora's passages; by vectors, by "
        "BM25 and by both.",
        json_schema_extra={"type": ["object", "string"]},
    )
    splits: tuple[Split, ...] = Field(
        default=("test",), min_length=1, description="Splits to measure, each separately."
    )
    max_length: int | None = Field(
        default=None, ge=4, le=8192, description="Longest input in tokens; null: the model's own."
    )
    precision: Precision = Field(
        default="fp32", description="bf16 is faster and moves cosines by up to 4e-3."
    )
    max_pairs: int = Field(
        default=2_000,
        ge=2,
        le=10_000_000,
        description="Most document pairs, or halves, of a split, drawn by seed.",
    )
    bootstrap: int = Field(
        default=2_000, ge=100, le=100_000, description="Resamples behind an interval."
    )
    phases: Steers[Literal["last", "all"]] = Field(
        default="last",
        description="last: evaluate the last phase's encoder; all: every phase's",
    )
    halves: Steers[bool] = Field(
        default=False,
        description="Cuts held-out texts in two: the first half must find its second half.",
    )
    halves_min_words: Steers[int] = Field(
        default=20,
        ge=8,
        le=1000,
        description="For halves, the words from which a single sentence is cut.",
    )
    # Recorded with each figure. model_seed: the seed of the training, null for the run's. phase:
    # `encoder`, or the name of an earlier phase.
    model_seed: Wired[int | None] = None
    phase: Wired[str] = "encoder"
    trust_remote_code: Wired[bool] = False
    prompts: Wired[Prompts] = Prompts()

    @property
    def questions(self) -> dict[str, RetrievalSource]:
        """The `retrieval_sets` that are tables of questions to the run's passages."""
        return {name: one for name, one in self.retrieval_sets.items() if one.is_table}

    @field_validator("fact_order", "sts_sets", "retrieval_sets", mode="before")
    @classmethod
    def _one_file(cls, value: Any) -> Any:
        """A single file may stand without a name: its task is named after the file."""
        if isinstance(value, str):
            return {name_after(value): value}
        return {} if value is None else value

    @field_validator("tasks")
    @classmethod
    def _known_tasks(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return task_names(names)
        except BadInput as error:
            raise InvalidSetting("bad_value", str(error)) from None


def list_tasks(config: EvaluateConfig) -> tuple[str, ...]:
    """The tasks to read; without a suite, the tasks that need none."""
    mteb_tasks = tuple(name for name in config.tasks if name.startswith(MTEB))
    return mteb_tasks if config.suite is None else config.tasks


def measures_texts(config: EvaluateConfig) -> bool:
    """Whether it measures texts from outside the run, which training must not see."""
    return bool(list_tasks(config) or config.fact_order or config.sts_sets or config.retrieval_sets)


def suite_folder(config: EvaluateConfig) -> Path:
    """The suite's directory; without a suite, the current directory."""
    return Path() if config.suite is None else config.suite.expanduser()


# The number of tasks in a suite's average.
AVERAGED = {kind.name: len(kind.tasks) for kind in KINDS}
# Rows of several models, with the models' names; p: of the gain over the first model.
COMPARED = pa.schema([("model", pa.string()), *EVALUATIONS, ("p", pa.float64())])


@dataclass(frozen=True)
class Material:
    """The data to measure on: pairs of a run, whose answers are ranked, and tasks."""

    pairs: Sequence[Pairs]
    tasks: Sequence[Task]

    def texts(self) -> list[Sided]:
        """The texts of all pairs and tasks with their sides, repetitions included."""
        texts = [text for pairs in self.pairs for text in pairs.texts()]
        return texts + [text for task in self.tasks for text in task.sided_texts()]


@dataclass(frozen=True)
class Before:
    """Another model's results on the material: ranks of each pairs' answers, and figures."""

    ranks: Sequence[npt.NDArray[np.int32]]
    figures: Sequence[Figure]


@dataclass(frozen=True)
class Results(Before):
    """A model's results."""

    subject: Subject
    encoded: Encoded
    scores: Sequence[Scores]


def externals(config: EvaluateConfig) -> dict[str, Path | str]:
    """Inputs besides the run's tables: files by their path inside the suite, and revisions of data
    of the package mteb. Raises BadInput for a missing one.
    """
    names = list_tasks(config)
    files_of_sets = find_case_files(config.fact_order) | find_set_files(config.sts_sets)
    files_of_sets |= find_retrieval_files(config.retrieval_sets, config.splits)
    if not names:
        return {**files_of_sets}
    files = suite_files(suite_folder(config), names, config.splits)
    return {**files, **revisions(names), **files_of_sets}


def run(work: Work) -> None:
    """Emits the tables of the model in the slot `model`: its figures, and the values behind them.

    Slots: document_pairs; halves, awareness and labels, if the recipe measures these; judgements
    and passages, if it measures questions to the run's passages; baseline, the tables of the
    untouched model, for the gains over it; choices, if some of the questions chose the model.
    """
    config: EvaluateConfig = work.config
    tasks = _read_tasks(config)
    if "awareness" in work.inputs:
        tasks += read_awareness(work.inputs["awareness"].table("awareness_pairs"))
    tasks += read_judged(work.inputs, config.splits)
    if "labels" in work.inputs:
        tasks += read_label_tasks(work.inputs["labels"].table("labels"), config.splits)
    material = Material(_pairs(work), tasks)
    if not material.texts():
        return
    left_out = [one for task in tasks for one in task.left_out()]
    if left_out:
        columns = map(list, zip(*left_out, strict=True))
        work.emit("rejects", rejects("evaluate", [None] * len(left_out), *columns))
    trained = "baseline" in work.inputs
    model = load_encoder(work, "model", cnn_seed=None if trained else work.seed)
    results = _measure(work, model, material, config.phase if trained else "base")
    for pairs, ranks in zip(material.pairs, results.ranks, strict=True):
        work.emit("retrieval_ranks", rank_table(results.subject, pairs, results.encoded, ranks))
    work.emit("evaluation_items", item_table(results.subject, results.scores))
    for task in tasks:
        if isinstance(task, OrderTask):
            work.emit("fact_order_cases", case_table(results.subject, task, results.encoded))
        if isinstance(task, RetrievalTask):
            work.emit("question_ranks", question_table(results.subject, task, results.scores))
    before = None
    if trained:
        baseline = work.inputs["baseline"]
        scores = rescore(results.scores, baseline.table("evaluation_items"))
        before = Before(
            [baseline_ranks(baseline, pairs) for pairs in material.pairs],
            figures(scores, AVERAGED, config.bootstrap, work.seed),
        )
    rows = _rows(work, material, results, before)
    if "choices" in work.inputs:
        rows = gains_of_choice(rows, work.inputs["choices"].table("choices").to_pylist())
    work.emit("evaluations", pa.Table.from_pylist(rows, schema=EVALUATIONS))


def evaluate_models(
    models: Mapping[str, Path],
    config: EvaluateConfig,
    resources: Resources,
    pairs: Sequence[Pairs] = (),
    tasks: Sequence[Task] = (),
    seed: int = 0,
) -> pa.Table:
    """Rows of `COMPARED`: each model, by the name it is given, on files and on pairs of a run.

    Models after the first have gains over it, on the same resamples.
    pairs, tasks: of a run; with the run's config and seed, the figures equal the run's own.
    Raises: BadInput for a faulty suite, an unknown task or a model that cannot be loaded.
    """
    material = Material(pairs, [*_read_tasks(config), *tasks])
    rows: list[dict[str, Any]] = []
    first: Before | None = None
    with tempfile.TemporaryDirectory(prefix="tercet-") as scratch:
        works = [
            Work(config, seed, {}, {"model": path}, {}, resources, Path(scratch), _discard)
            for path in models.values()
        ]
        for work in works[1:]:
            load_encoder(work, "model")
        for name, work in zip(models, works, strict=True):
            results = _measure(work, load_encoder(work, "model"), material, "eval")
            rows += [{**row, "model": name} for row in _rows(work, material, results, first)]
            first = first or Before(results.ranks, results.figures)
    return pa.Table.from_pylist(rows, schema=COMPARED)


def _discard(table: str, rows: pa.Table) -> None:
    """Discards tables: a comparison of models needs only their figures."""


def _measure(work: Work, model: Any, material: Material, phase: str) -> Results:
    config: EvaluateConfig = work.config
    encoded, pooling = encode_texts(work, model, material.texts())
    seed = work.seed if config.model_seed is None else config.model_seed
    scores: list[Scores] = []
    for number, task in enumerate(material.tasks, start=1):
        scores += task.scores(encoded)
        work.resources.progress(number, len(material.tasks), "tasks")
    return Results(
        [ranks_of(encoded, pairs) for pairs in material.pairs],
        figures(scores, AVERAGED, config.bootstrap, work.seed),
        Subject(model_version(work.models["model"]), phase, seed, pooling),
        encoded,
        scores,
    )


def _rows(
    work: Work, material: Material, results: Results, before: Before | None
) -> list[dict[str, Any]]:
    """Rows of `evaluations`, with the gains over another model's results."""
    subject, encoded = results.subject, results.encoded
    rows: list[dict[str, Any]] = []
    for place, pairs in enumerate(material.pairs):
        baseline = None if before is None else before.ranks[place]
        resamples = work.config.bootstrap
        rows += retrieval_rows(subject, pairs, results.ranks[place], baseline, resamples, work.seed)
        texts = pairs.texts()
        sides = (texts[: len(pairs.ids)], texts[len(pairs.ids) :], texts)
        rows += geometry_rows(subject, pairs.data(), pairs.split, encoded, *sides, work.seed)
    rows += [figure.row(subject) for figure in results.figures]
    rows += stsb_geometry(subject, material.tasks, encoded, work.seed)
    return rows if before is None else rows + gain_rows(subject, results.figures, before.figures)


def _read_tasks(config: EvaluateConfig) -> list[Task]:
    """The suite's tasks, then the tasks of the user's files."""
    names = list_tasks(config)
    suite = read_suite(suite_folder(config), names, config.splits) if names else []
    cases = read_cases(config.fact_order, config.splits)
    graded = read_sets(config.sts_sets, config.splits)
    return [*suite, *cases, *graded, *read_retrieval_sets(config.retrieval_sets, config.splits)]


def _pairs(work: Work) -> list[Pairs]:
    """At most `max_pairs` of each split and question; a split without any is a reject."""
    config: EvaluateConfig = work.config
    drawn: list[Pairs] = []
    slots: dict[str, tuple[str, ...]] = {}
    if config.retrieval:
        slots[DOCUMENT_PAIRS] = (DOCUMENT_PAIRS, "questions")
    if HALVES in work.inputs:
        slots[HALVES] = (HALVES,)
    for task, names in slots.items():
        rows = joined([work.inputs[name] for name in names])
        of_table = draw_pairs(rows, config.splits, config.max_pairs, work.seed)
        splits = [pairs.split for pairs in of_table if pairs.task == task]
        for split in config.splits:
            # The stage `halves` reports its missing splits itself.
            if split not in splits and task != HALVES:
                why = f"the corpora have no document pairs in split {split}: retrieval was not "
                why += "measured"
                work.emit("rejects", rejects("evaluate", [None], "no_pairs", why, split))
        drawn += of_table
    return drawn


QUESTION_RANKS = pa.schema(
    [
        ("model_version", pa.string()),
        ("task", pa.string()),
        ("way", pa.string()),
        ("item", pa.int32()),
        ("query_id", pa.uint64()),
        ("query", pa.string()),
        ("rank", pa.int32()),
        ("first_id", pa.uint64()),
        ("first", pa.string()),
    ]
)
"""Table `question_ranks`. The questions of `evaluate.retrieval_sets` in the measured splits: one
row for each model, question and way to rank.

Key: `model_version`, `task`, `way`, `item`.

Columns:
    model_version: as in `evaluations`
    task: the set, with ` dev` behind it for questions of that split
    way: what ranks: `encoder`, `bm25`, which is the same for every model, or `hybrid` of both
    item: place among the questions of the task: `evaluation_items.item`
    query_id: id of the question's text, as in `judgements`
    query: the question
    rank: place from 1 of the best answer, a passage, a document or a file as `judgements.unit` has
        it; NULL where none is among what was found, 1,000 passages at most
    first_id: → `passages.passage_id`: what came first; NULL for a folder in BEIR's layout, and
        where nothing was found
    first: the beginning of its text, 200 characters
"""


def question_table(subject: Subject, task: RetrievalTask, scores: Sequence[Scores]) -> pa.Table:
    """Rows of `question_ranks`. scores: of all tasks, this one among them."""
    tables = [QUESTION_RANKS.empty_table()]
    n = len(task.queries)
    ids = task.passage_ids or [None] * len(task.documents)
    for way in (ENCODER, BM25, HYBRID):
        named = (task.suite, task.title_by(way))
        by_way = next(one for one in scores if (one.data.suite, one.data.task) == named)
        ranking = by_way.ranking
        assert ranking is not None
        ranks = [
            next((rank for rank, place in enumerate(places, 1) if of.get(place, 0) > 0), None)
            for places, of in zip(task.rank_units(ranking).tolist(), task.judged, strict=True)
        ]
        firsts = [None if place == NONE else place for place in ranking[:, 0].tolist()]
        columns = {
            "model_version": [subject.model_version] * n,
            "task": [task.title] * n,
            "way": [way] * n,
            "item": range(n),
            "query_id": by_way.parts[0].queries,
            "query": task.queries,
            "rank": ranks,
            "first_id": [None if p is None else ids[p] for p in firsts],
            "first": [None if place is None else task.documents[place][:SHOWN] for place in firsts],
        }
        tables.append(pa.table(columns, schema=QUESTION_RANKS))
    return pa.concat_tables(tables)


@dataclass(frozen=True)
class Labelled:
    """Texts with their labels, as numbers from 0."""

    texts: tuple[str, ...]
    labels: npt.NDArray[np.int64]


@dataclass(frozen=True)
class LabelTask(Task):
    """A corpus's column of labels. train: fits a classifier; judged: measures it, by split."""

    name: str
    classes: tuple[str, ...]
    train: Labelled
    judged: Mapping[Split, Labelled]
    suite = "labels"

    def texts(self) -> list[str]:
        return [text for part in (self.train, *self.judged.values()) for text in part.texts]

    def scores(self, encoded: "Encoded") -> list[Scores]:
        """Right or wrong on each judged text, by `probe` and by `nearest`."""
        if not self.judged:
            return []
        texts = [text for part in self.judged.values() for text in part.texts]
        labels = np.concatenate([part.labels for part in self.judged.values()])
        ends = np.cumsum([len(part.texts) for part in self.judged.values()])[:-1]
        try:
            fitted = probe.folds_then_test(
                probe.Sample(encoded.raw(self.train.texts), self.train.labels),
                probe.Sample(encoded.raw(texts), labels),
            )
        except ValueError as error:
            raise BadInput(
                kind_of(error, "unfit_model"), f"{self.name} cannot be evaluated: {error}."
            ) from None
        nearest = probe.predicted(
            encoded.of(self.train.texts), self.train.labels, encoded.of(texts)
        )
        scores = []
        for way, predictions in (("probe", fitted.predictions), ("nearest", nearest)):
            right = np.split((predictions == labels).astype(np.float64), ends)
            for split, values in zip(self.judged, right, strict=True):
                scores.append(Scores(self._data(way, split), "accuracy", (Part("all", values),)))
        return scores

    def _data(self, way: str, split: Split) -> Data:
        """Form and digest of the judged texts and of the texts that fit the classifier."""
        both = (self.train, self.judged[split])
        rows = [
            (text, self.classes[label])
            for part in both
            for text, label in zip(part.texts, part.labels.tolist(), strict=True)
        ]
        name = f"{self.name} {way}" + (" dev" if split == "dev" else "")
        return Data(self.suite, name, text_form([text for text, _ in rows]), content_digest(rows))


def read_label_tasks(table: pa.Table, splits: Sequence[Split]) -> list[LabelTask]:
    """The tasks of the table `labels`, called CORPUS.COLUMN; splits without texts are left out."""
    rows = table.to_pylist()
    tasks = []
    for corpus, column in dict.fromkeys((row["corpus"], row["name"]) for row in rows):
        of_column = [row for row in rows if (row["corpus"], row["name"]) == (corpus, column)]
        classes = tuple(sorted({row["label"] for row in of_column}))
        numbers = {label: number for number, label in enumerate(classes)}
        parts = {}
        for split in ("train", *splits):
            some = [row for row in of_column if row["split"] == split]
            labels = np.array([numbers[row["label"]] for row in some], dtype=np.int64)
            parts[split] = Labelled(tuple(row["text"] for row in some), labels)
        judged = {split: parts[split] for split in splits if parts[split].texts}
        tasks.append(LabelTask(f"{corpus}.{column}", classes, parts["train"], judged))
    return tasks


STAGE = Stage(
    name="evaluate",
    config=EvaluateConfig,
    tables={
        "evaluations": EVALUATIONS,
        "evaluation_items": EVALUATION_ITEMS,
        "retrieval_ranks": RETRIEVAL_RANKS,
        "fact_order_cases": FACT_ORDER_CASES,
        "question_ranks": QUESTION_RANKS,
    },
    run=run,
    libraries=("torch", "transformers", "sentence-transformers", "scikit-learn"),
    externals=externals,
    locations=("suite", "fact_order", "sts_sets.*.source", "retrieval_sets.*.source"),
)
