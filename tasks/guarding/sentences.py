"""What the guard looks for: its settings, and the sentences of the evaluation tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from tercet.models.encoders.pooling import FormSettings
from tercet.models.precision import Precision
from tercet.models.text import overlap
from tercet.tasks.evaluation.suites.beir import SUITE as RETRIEVAL_SETS
from tercet.tasks.evaluation.suites.beir import (
    RetrievalTask,
    find_retrieval_files,
    read_retrieval_sets,
)
from tercet.tasks.evaluation.suites.fact_order import find_case_files, read_cases
from tercet.tasks.evaluation.suites.layout import Split
from tercet.tasks.evaluation.suites.own import RetrievalSource, StsSet
from tercet.tasks.evaluation.suites.own_questions import find_questions, read_questions
from tercet.tasks.evaluation.suites.sts_sets import find_set_files, read_sets
from tercet.tasks.evaluation.suites.suite import read_suite, revisions, suite_files
from tercet.tasks.evaluation.suites.task import Task
from tercet.tasks.stage import BadInput, Config


class GuardSettings(Config):
    """What counts as contamination, and what happens to it."""

    action: Literal["remove", "report"] = Field(
        default="remove",
        description="Whether contaminated rows are left out of training or only reported.",
    )
    order: int = Field(default=4, ge=2, le=16, description="Words in an n-gram.")
    min_words: int = Field(
        default=6,
        ge=1,
        le=100,
        description="Evaluation sentences with fewer words are only matched exactly.",
    )
    ngram: float | None = Field(
        default=0.8,
        gt=0.0,
        le=1.0,
        description="Share of an evaluation sentence's n-grams in one text; null: not checked.",
    )
    embedding_min: float | None = Field(
        default=0.9,
        gt=0.0,
        le=1.0,
        description="Cosine with an evaluation sentence; null: not checked.",
    )
    shortlist: float = Field(
        default=0.3,
        gt=0.0,
        le=1.0,
        description="Without stored vectors: share of n-grams from which a text is encoded.",
    )
    encoder: str | None = Field(
        default=None,
        description="Encodes the shortlist: directory, package:PACKAGE/FOLDER or hub name; null: "
        "evaluator.model, if there is one.",
    )


class GuardConfig(FormSettings, GuardSettings):
    """The settings with what else decides the result.

    chosen_on: tasks whose dev split decides which checkpoint is kept. fact_order, sts_sets,
    retrieval_sets: names and files of their tasks. The form, max_length and precision are those
    that the stored vectors were made with.
    """

    suite: Path
    tasks: tuple[str, ...]
    splits: tuple[Split, ...] = ("test",)
    chosen_on: tuple[str, ...] = ()
    fact_order: tuple[tuple[str, str], ...] = ()
    sts_sets: tuple[tuple[str, StsSet], ...] = ()
    retrieval_sets: tuple[tuple[str, RetrievalSource], ...] = ()
    max_length: int = 128
    precision: Precision = "fp32"
    trust_remote_code: bool = False


@dataclass(frozen=True)
class Sentences:
    """The distinct evaluation sentences, and the tasks that each belongs to.

    names: (suite, task). owners, starts: places in `names`, sentence after sentence.
    """

    texts: pa.Array
    names: Sequence[tuple[str, str]]
    owners: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    index: overlap.Index


def externals(config: GuardConfig) -> dict[str, Path | str]:
    """The files of the suite, and the revisions of mteb's tasks. Raises BadInput."""
    files: dict[str, Path | str] = dict(sentence_files(config))
    return files | revisions(config.tasks)


def sentence_files(config: GuardConfig) -> dict[str, Path]:
    """The files that hold them, by their path inside the suite. Raises BadInput."""
    found = find_case_files(dict(config.fact_order)) | find_set_files(dict(config.sts_sets))
    folders, tables = _retrieval_sets(config)
    found |= find_retrieval_files(folders, ("test", "dev"))
    found |= {f"questions/{name}": find_questions(one.source) for name, one in tables.items()}
    for tasks, splits in _asked(config):
        found |= suite_files(config.suite.expanduser(), tasks, splits)
    return found


def _retrieval_sets(
    config: GuardConfig,
) -> tuple[dict[str, RetrievalSource], dict[str, RetrievalSource]]:
    """Those in BEIR's layout, and those that are tables of questions."""
    sets = dict(config.retrieval_sets)
    tables = {name: one for name, one in sets.items() if one.is_table}
    return {name: one for name, one in sets.items() if name not in tables}, tables


def _asked(config: GuardConfig) -> list[tuple[tuple[str, ...], tuple[Split, ...]]]:
    """Tasks and splits to read: those measured or chosen on, and where it is there the other split.

    The other of dev and test, of what is measured.
    """
    asked = [(config.tasks, config.splits)] if config.tasks else []
    if config.chosen_on:
        asked.append((config.chosen_on, ("dev",)))
    others: tuple[Split, ...] = ("dev", "test")
    for split in others:
        for task in config.tasks if split not in config.splits else ():
            try:
                files = suite_files(config.suite.expanduser(), (task,), (split,))
            except BadInput:
                continue
            if files:
                asked.append(((task,), (split,)))
    return asked


def read_sentences(config: GuardConfig) -> Sentences:
    """Reads the evaluation sentences of all tasks."""
    places: dict[str, int] = {}
    names: dict[tuple[str, str], int] = {}
    owned: set[tuple[int, int]] = set()
    suites: list[Task] = []
    for asked in _asked(config):
        suites += read_suite(config.suite.expanduser(), *asked)
    both: tuple[Split, ...] = ("dev", "test")
    sets = read_sets(dict(config.sts_sets), both, required=False)
    folders, tables = _retrieval_sets(config)
    for table, one in tables.items():
        name = names.setdefault((RETRIEVAL_SETS, table), len(names))
        for question in read_questions(one).rows:
            owned.add((places.setdefault(question.text, len(places)), name))
    asked_of = read_retrieval_sets(folders, both)
    for task in (*suites, *read_cases(dict(config.fact_order), both), *sets, *asked_of):
        name = names.setdefault((task.suite, task.name), len(names))
        # The documents of a retrieval set may be the corpus; its queries are what nobody may see.
        for text in task.queries if isinstance(task, RetrievalTask) else task.texts():
            owned.add((places.setdefault(text, len(places)), name))
    pairs = np.array(sorted(owned), dtype=np.int64).reshape(-1, 2)
    starts = np.searchsorted(pairs[:, 0], np.arange(len(places) + 1))
    texts = pa.array(places, pa.string())
    least = min(config.ngram or 1.0, config.shortlist)
    index = overlap.Index(texts, config.order, config.min_words, least)
    return Sentences(texts, list(names), pairs[:, 1], starts, index)
