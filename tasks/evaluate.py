"""Stage `evaluate`: measures one encoder on held-out document pairs and on scored sentence pairs.

What its rows mean, and in which unit, says `tercet.tasks.evaluation_rows`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator

from tercet.models import metrics, seeding
from tercet.storage.fingerprint import tree_digest
from tercet.storage.rows import Rows
from tercet.tasks import suites
from tercet.tasks.evaluation_rows import (
    EVALUATIONS,
    RETRIEVAL_RANKS,
    Encoded,
    Pairs,
    Subject,
    geometry_rows,
    rank_table,
    retrieval_rows,
    suite_rows,
)
from tercet.tasks.stage import BadInput, Config, Stage, Work
from tercet.tasks.suites import STS_TASKS, ScoredTask, Split


class EvaluateConfig(Config):
    """What an encoder is measured on, and how its vectors are made."""

    retrieval: bool = Field(
        default=True, description="Find each document pair's answer among all answers of its split."
    )
    suite: Path | None = Field(
        default=None, description="Directory in SentEval's layout with STS and SICK; null: none."
    )
    tasks: tuple[str, ...] = Field(
        default=STS_TASKS, description="Tasks of the suite: STS12 to STS16, STS-B, SICK-R, or sts."
    )
    splits: tuple[Split, ...] = Field(
        default=("test",), min_length=1, description="Splits measured, each by itself."
    )
    pooling: Literal["mean", "cls"] | None = Field(
        default=None, description="How token states become a vector; null: the model's own way."
    )
    max_length: int | None = Field(
        default=None, ge=4, le=8192, description="Longest input in tokens; null: the model's own."
    )
    precision: Literal["fp32", "bf16"] = Field(
        default="fp32", description="bf16 is faster and moves cosines by up to 4e-3."
    )
    max_pairs: int = Field(
        default=2_000, ge=2, le=10_000_000, description="Document pairs of a split, drawn by seed."
    )
    bootstrap: int = Field(
        default=2_000, ge=100, le=100_000, description="Resamples behind an interval."
    )

    @field_validator("tasks")
    @classmethod
    def _known_tasks(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return suites.task_names(tasks)
        except BadInput as error:
            raise ValueError(str(error)) from None


@dataclass(frozen=True)
class _Baseline:
    """What the untouched model reached: the rank of each pair's answer."""

    ids: npt.NDArray[np.uint64]
    ranks: npt.NDArray[np.int32]

    def of(self, ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
        """The baseline's ranks of these pairs. Raises BadInput where it lacks one."""
        order = np.argsort(self.ids)
        places = np.searchsorted(self.ids, ids, sorter=order)
        found = order[np.minimum(places, max(len(order) - 1, 0))] if len(order) else places
        absent = len(ids) if not len(order) else int((self.ids[found] != ids).sum())
        if absent:
            raise BadInput(
                f"The baseline lacks {absent} of {len(ids)} document pairs, so nothing can be "
                "compared: evaluate it on the same pairs (same seed and max_pairs)."
            )
        return self.ranks[found]


def externals(config: EvaluateConfig) -> dict[str, Path]:
    """The suite's files that the evaluation reads, by their path inside it. Raises BadInput."""
    if config.suite is None:
        return {}
    return suites.suite_files(config.suite.expanduser(), config.tasks, config.splits)


def run(work: Work) -> None:
    """Emits `evaluations` and `retrieval_ranks` of the model in the slot `model`.

    With the slot `baseline` (the tables of the untouched model) the gains over it too.
    """
    config: EvaluateConfig = work.config
    pairs = _document_pairs(work) if config.retrieval else []
    tasks: list[ScoredTask] = []
    if config.suite is not None:
        tasks = suites.read_suite(config.suite.expanduser(), config.tasks, config.splits)
    path = work.models["model"]
    texts = [text for p in pairs for text in (*p.queries, *p.answers)]
    texts += [text for task in tasks for text in task.texts()]
    if not texts:
        return
    encoded, pooling = _encode(
        path,
        texts,
        config,
        work.resources.batch_size,
        work.resources.device,
        lambda done, total: work.resources.progress(done, total, "texts"),
    )
    phase = "encoder" if "baseline" in work.inputs else "base"
    subject = Subject(model_version(path), phase, work.seed, pooling)
    rows: list[dict[str, Any]] = []
    for held_out in pairs:
        ranks = _ranks(encoded, held_out)
        work.emit("retrieval_ranks", rank_table(subject, held_out, ranks))
        baseline = _baseline(work.inputs["baseline"], held_out) if phase == "encoder" else None
        rows += retrieval_rows(subject, held_out, ranks, baseline, config.bootstrap)
        data, texts = held_out.data(), [*held_out.queries, *held_out.answers]
        rows += geometry_rows(
            subject, data, held_out.split, encoded, held_out.queries, held_out.answers, texts
        )
    rows += suite_rows(subject, tasks, encoded)
    work.emit("evaluations", pa.Table.from_pylist(rows, schema=EVALUATIONS))


def evaluate_model(
    model_path: Path,
    suite_dir: Path,
    tasks: Sequence[str] = (),
    splits: Sequence[Split] = ("test",),
    pooling: Literal["mean", "cls"] | None = None,
    max_length: int | None = None,
    precision: Literal["fp32", "bf16"] = "fp32",
    batch_size: int = 64,
    device: str = "cpu",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> pa.Table:
    """The rows of `evaluations` of a model on a suite; no tasks means all seven.

    Raises: BadInput for a faulty suite, an unknown task or a model that cannot be loaded.
    """
    config = EvaluateConfig(
        retrieval=False,
        suite=suite_dir,
        tasks=suites.task_names(tasks),
        splits=tuple(splits),
        pooling=pooling,
        max_length=max_length,
        precision=precision,
    )
    read = suites.read_suite(suite_dir.expanduser(), config.tasks, config.splits)
    texts = [text for task in read for text in task.texts()]
    encoded, used = _encode(model_path, texts, config, batch_size, device, progress)
    subject = Subject(model_version(model_path), "eval", 0, used)
    return pa.Table.from_pylist(suite_rows(subject, read, encoded), schema=EVALUATIONS)


def model_version(path: Path) -> str:
    """The version of the artifact that a model's directory lies in, else a digest of its files."""
    for folder in list(path.resolve().parents)[:3]:
        if (folder / "manifest.json").is_file() and (folder / "_parts").is_dir():
            return folder.name
    return tree_digest(path)


def _document_pairs(work: Work) -> list[Pairs]:
    """The pairs of each split, at most `max_pairs` of them; a split without pairs is a reject."""
    config: EvaluateConfig = work.config
    columns = ["pair_id", "query", "answer", "split"]
    table = work.inputs["document_pairs"].table("document_pairs", columns)
    found = []
    for split in config.splits:
        part = table.filter(pc.equal(table["split"], split)).sort_by("pair_id")
        ids = part["pair_id"].to_numpy().astype(np.uint64)
        if len(ids) > config.max_pairs:
            draws = seeding.draws(work.seed, "evaluate", ids)
            chosen = np.sort(np.argsort(draws, kind="stable")[: config.max_pairs])
            ids, part = ids[chosen], part.take(pa.array(chosen))
        if len(ids) == 0:
            work.emit("rejects", _no_pairs(split))
            continue
        found.append(Pairs(split, ids, part["query"].to_pylist(), part["answer"].to_pylist()))
    return found


def _no_pairs(split: str) -> pa.Table:
    detail = f"the corpora have no document pairs in split {split}: retrieval was not measured"
    return pa.table(
        {
            "stage": ["evaluate"],
            "row_id": pa.array([None], pa.uint64()),
            "reason": ["no_pairs"],
            "detail": [detail],
            "text": pa.array([None], pa.string()),
        }
    )


def _encode(
    path: Path,
    texts: Iterable[str],
    config: EvaluateConfig,
    batch_size: int,
    device: str,
    progress: Callable[[int, int], None],
) -> tuple[Encoded, str]:
    """Vectors of the distinct texts, and the pooling that made them."""
    from tercet.models.encoder import encode, load_encoder

    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    try:
        model = load_encoder(path, config.pooling, config.max_length, device)
    except ValueError as error:
        raise BadInput(str(error)) from error
    distinct = list(rows)
    vectors = encode(
        model, distinct, batch_size, config.precision, lambda done: progress(done, len(distinct))
    )
    faulty = int((~np.isfinite(vectors).all(axis=1)).sum())
    if faulty:
        raise BadInput(
            f"The encoder at {path} gives NaN or infinity for {faulty} of {len(rows)} texts: its "
            "weights are damaged or its training diverged."
        )
    modes = [str(mode) for module in model if (mode := getattr(module, "pooling_mode", None))]
    return Encoded(vectors, rows), modes[0] if modes else "model"


def _ranks(encoded: Encoded, pairs: Pairs) -> npt.NDArray[np.int32]:
    """Rank of each query's answer among the distinct answers of the split."""
    places = {text: place for place, text in enumerate(dict.fromkeys(pairs.answers))}
    own = np.array([places[text] for text in pairs.answers], dtype=np.int64)
    return metrics.answer_ranks(encoded.of(pairs.queries), encoded.of(list(places)), own)


def _baseline(rows: Rows, pairs: Pairs) -> npt.NDArray[np.int32]:
    table = rows.table("retrieval_ranks", ["pair_id", "split", "rank"])
    table = table.filter(pc.equal(table["split"], pairs.split))
    ids = table["pair_id"].to_numpy().astype(np.uint64)
    return _Baseline(ids, table["rank"].to_numpy().astype(np.int32)).of(pairs.ids)


STAGE = Stage(
    name="evaluate",
    config=EvaluateConfig,
    tables={"evaluations": EVALUATIONS, "retrieval_ranks": RETRIEVAL_RANKS},
    run=run,
    libraries=("torch", "transformers", "sentence-transformers"),
    modules=("tercet.models.encoder",),
    externals=externals,
    locations=("suite",),
)
