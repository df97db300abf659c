"""Stage `choose`: chooses on the user's questions how much of the training is shipped.

Each candidate is a mix of the untouched and the trained encoder. `cautious_choice` has the rule and
its gains; with fewer than 30 questions the recipe's `choose.mix` counts.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator

from tercet.errors import InvalidSetting
from tercet.models import seeding
from tercet.models.encoders.settings import Prompts
from tercet.models.measures.cautious_choice import (
    choose_candidate,
    cross_fitted,
    linked_groups,
    standard_errors,
)
from tercet.models.measures.resampling import Floats
from tercet.models.retrieval import rankings
from tercet.tasks.config import Wired, WiredForm
from tercet.tasks.encoders import MIXES, load_mix
from tercet.tasks.evaluation.encoding import encode_texts
from tercet.tasks.evaluation.evaluation_rows import LEAST
from tercet.tasks.evaluation.suites.beir import (
    HYBRID,
    RetrievalTask,
    find_retrieval_files,
    read_retrieval_sets,
)
from tercet.tasks.evaluation.suites.judged import read_judged
from tercet.tasks.evaluation.suites.own import RetrievalSource, TaskName
from tercet.tasks.retrieval.passage_vectors import PASSAGE_VECTORS
from tercet.tasks.stage import Stage, Work

NAME = "choose"
CANDIDATE_ENCODERS = pa.schema(
    [
        ("seed", pa.int64()),
        ("mix", pa.float64()),
        ("gain", pa.float64()),
        ("standard_error", pa.float64()),
        ("n", pa.int64()),
        ("chosen", pa.bool_()),
    ]
)
"""Table `candidate_encoders`. The encoders that `choose` may ship, from the untouched to the
trained one, five for each seed.

Key: `seed`, `mix`.

Columns:
    seed: of the training, as in `evaluations`
    mix: share of the training in the weights: 0 is the untouched encoder, 1 the trained one
    gain: mean over all questions of its nDCG@10 minus that of the untouched encoder, in points;
        NULL without questions
    standard_error: of that mean; NULL with fewer than two questions
    n: number of questions
    chosen: whether it is the run's encoder
"""
CANDIDATE_GAINS = pa.schema(
    [
        ("seed", pa.int64()),
        ("task", pa.string()),
        ("query_id", pa.uint64()),
        ("query", pa.string()),
        ("mix", pa.float64()),
        ("ndcg", pa.float64()),
    ]
)
"""Table `candidate_gains`. The figures that `choose` decides by: one row for each question and
candidate.

Key: `seed`, `task`, `query_id`, `mix`.

Columns:
    seed: of the training, as in `evaluations`
    task: its set in `evaluate.retrieval_sets`
    query_id: id of the question's text, as in `judgements`
    query: the question
    mix: of the candidate, as in `candidate_encoders`
    ndcg: nDCG@10 of this question, in percent
"""
CHOICES = pa.schema(
    [
        ("seed", pa.int64()),
        ("mix", pa.float64()),
        ("chosen_by", pa.string()),
        ("task", pa.string()),
        ("metric", pa.string()),
        ("n", pa.int64()),
        ("gain", pa.float64()),
        ("ci_low", pa.float64()),
        ("ci_high", pa.float64()),
    ]
)
"""Table `choices`. The gain from choosing: one row for each seed, task and metric. Each question is
measured with the candidate that the other questions choose, so that no question is counted with its
own choice.

Key: `seed`, `task`, `metric`.

Columns:
    seed: of the training, as in `evaluations`
    mix: of the candidate that is shipped, as in `candidate_encoders`
    chosen_by: `questions`; `default` (`choose.mix`) with fewer than 30 questions, or if one
        document answers all. Then there is one row, with NULL in the columns below
    task: the set in `evaluate.retrieval_sets`, or this with ` hybrid`
    metric: as in `evaluations`
    n: number of the set's questions
    gain: over the untouched encoder, in points
    ci_low: 95 % interval of a bootstrap over answering files, which chooses anew each time
    ci_high: its upper end
"""


class ChooseConfig(WiredForm):
    """How much of the training is shipped; candidates make vectors as `evaluate` does.

    retrieval_sets: folders in BEIR's layout. model_seed: of the training that made the encoder;
    null: the run's seed.
    """

    mix: float = Field(
        default=0.5,
        description="The share of the training in the weights where fewer than 30 questions are "
        "asked: 0 (untouched), 0.25, 0.5, 0.75 or 1 (trained).",
        json_schema_extra={"enum": list(MIXES)},
    )
    retrieval_sets: Wired[dict[TaskName, RetrievalSource]] = Field(default_factory=dict)
    max_length: Wired[int | None] = None
    bootstrap: Wired[int] = 2_000
    prompts: Wired[Prompts] = Prompts()
    cnn_seed: Wired[int | None] = None
    model_seed: Wired[int | None] = None

    @field_validator("mix")
    @classmethod
    def _candidate(cls, mix: float) -> float:
        if mix not in MIXES:
            raise InvalidSetting(
                "bad_value", f"must be one of {', '.join(format(mix, 'g') for mix in MIXES)}"
            )
        return mix


@dataclass(frozen=True)
class _Questions:
    """The questions of all sets, one set after another.

    tasks: each question's set. groups: a label for each question; questions that one file answers
    share it. All of shape (questions,).
    """

    tasks: npt.NDArray[np.str_]
    texts: list[str]
    groups: npt.NDArray[np.int64]


def slot_of(mix: float) -> str:
    """The slot with this candidate's vectors of the passages."""
    return f"vectors{100 * mix:.0f}"


def externals(config: ChooseConfig) -> dict[str, Path]:
    """The files of the sets in BEIR's layout. Raises BadInput."""
    return find_retrieval_files(config.retrieval_sets, ("test",))


def run(work: Work) -> Path:
    """Chooses; returns the directory of the encoder that is shipped.

    Slots: judgements, passages and the passages' vectors by each candidate (`slot_of`), where
    questions are asked of the run's passages. Models: `model`, the trained encoder, and
    `untouched`.
    """
    from tercet.models.encoders.encoder import save_encoder

    config: ChooseConfig = work.config
    seed = work.seed if config.model_seed is None else config.model_seed
    sets = read_retrieval_sets(config.retrieval_sets, ("test",))
    by_words: dict[str, tuple[rankings.Places, rankings.Scores]] = {}
    measured = []
    tasks: list[RetrievalTask] = []
    for number, mix in enumerate(MIXES, start=1):
        tasks = [*sets, *_judged(work, mix)]
        measured.append(_measure(work, mix, tasks, by_words) if tasks else {})
        work.resources.progress(number, len(MIXES), "candidates")
    questions = _questions(work, tasks)
    # By task and metric, (questions of the task, candidates).
    figures = {name: np.stack([of[name] for of in measured], axis=1) for name in measured[0]}
    ndcg = np.concatenate(
        [np.empty((0, len(MIXES))), *(figures[task.name, "ndcg@10"] for task in tasks)]
    )
    gains = ndcg - ndcg[:, :1]
    # Smaller sets have no intervals, so the gain could not be judged.
    largest = max((len(task.queries) for task in tasks), default=0)
    choosing = largest >= LEAST and len(set(questions.groups)) > 1
    chosen = choose_candidate(gains) if choosing else MIXES.index(config.mix)
    work.emit("candidate_encoders", _candidates(seed, gains, chosen))
    work.emit("candidate_gains", _candidate_gains(seed, questions, ndcg))
    rows = [{"chosen_by": "default"}]
    if choosing:
        rows = _choices(work, questions, figures, gains)
    shipped = [{**row, "seed": seed, "mix": MIXES[chosen]} for row in rows]
    work.emit("choices", pa.Table.from_pylist(shipped, schema=CHOICES))
    if (slot := slot_of(MIXES[chosen])) in work.inputs:
        for batch in work.inputs[slot].batches("passage_vectors"):
            work.emit("passage_vectors", pa.table(batch))
    # The measurement's max_length is not part of the shipped encoder.
    whole = replace(work, config=config.model_copy(update={"max_length": None}))
    return save_encoder(load_mix(whole, "model", MIXES[chosen]), work.scratch / "model")


def _judged(work: Work, mix: float) -> list[RetrievalTask]:
    """Questions to the run's passages, with this candidate's vectors of the passages."""
    if "judgements" not in work.inputs:
        return []
    inputs = {**work.inputs, "passage_vectors": work.inputs[slot_of(mix)]}
    return read_judged(inputs, ("test",))


def _measure(
    work: Work,
    mix: float,
    tasks: Sequence[RetrievalTask],
    by_words: dict[str, tuple[rankings.Places, rankings.Scores]],
) -> dict[tuple[str, str], Floats]:
    """This candidate's figure for each question, in percent, by task and metric.

    by_words: BM25's rankings by task, filled by the first candidate, since all share them.
    """
    model = load_mix(work, "model", mix)
    encoded, _ = encode_texts(work, model, [text for task in tasks for text in task.sided_texts()])
    figures = {}
    for task in tasks:
        near = task.search(encoded)
        if task.name not in by_words:
            by_words[task.name] = task.search_words()
        both, _ = rankings.fuse(near, by_words[task.name])
        for name, ranking in ((task.name, near[0]), (f"{task.name} {HYBRID}", both)):
            for metric, values in task.measure(ranking).items():
                figures[name, metric] = 100.0 * values
    return figures


def _questions(work: Work, tasks: Sequence[RetrievalTask]) -> _Questions:
    """The questions with their groups: by file, or by document if one file answers all."""
    names = np.repeat([task.name for task in tasks], [len(task.queries) for task in tasks])
    texts = [query for task in tasks for query in task.queries]
    groups = linked_groups([])
    for columns in (("corpus", "source"), ("doc_id",)):
        files = _files(work, columns)
        golds: list[list[Hashable]] = [
            # A folder in BEIR's layout has documents instead of files. The text itself links
            # repeated questions.
            [("text", query), *files.get((task.name, query), ((task.name, d) for d in judged))]
            for task in tasks
            for query, judged in zip(task.queries, task.judged, strict=True)
        ]
        groups = linked_groups(golds)
        if len(set(groups)) > 1:
            break
    return _Questions(names.astype(np.str_), texts, groups)


def _files(work: Work, columns: Sequence[str]) -> dict[tuple[str, str], list[Hashable]]:
    """The values of these columns in the answering passages, by task and question."""
    if "judgements" not in work.inputs:
        return {}
    judgements = work.inputs["judgements"].table("judgements")
    judgements = judgements.filter(pc.equal(judgements["split"], "test"))
    passages = work.inputs["passages"].table("passages", ["passage_id", *columns])
    passages = passages.filter(
        pc.is_in(passages["passage_id"], value_set=judgements["passage_id"].combine_chunks())
    )
    of_passage = {row["passage_id"]: tuple(row.values())[1:] for row in passages.to_pylist()}
    files: dict[tuple[str, str], list[Hashable]] = {}
    for row in judgements.to_pylist():
        file = of_passage[row["passage_id"]]
        files.setdefault((row["task"], row["query"]), []).append(file)
    return files


def _candidates(seed: int, gains: Floats, chosen: int) -> pa.Table:
    errors = standard_errors(gains)
    rows = [
        {
            "seed": seed,
            "mix": mix,
            "gain": float(gains[:, place].mean()) if len(gains) else None,
            "standard_error": float(errors[place]) if len(gains) > 1 else None,
            "n": len(gains),
            "chosen": place == chosen,
        }
        for place, mix in enumerate(MIXES)
    ]
    return pa.Table.from_pylist(rows, schema=CANDIDATE_ENCODERS)


def _candidate_gains(seed: int, questions: _Questions, ndcg: Floats) -> pa.Table:
    count = len(questions.texts)
    columns = {
        "seed": np.full(count, seed),
        "task": questions.tasks,
        "query_id": seeding.text_ids(questions.texts),
        "query": questions.texts,
    }
    tables = [
        pa.table({**columns, "mix": np.full(count, mix), "ndcg": ndcg[:, place]})
        for place, mix in enumerate(MIXES)
    ]
    return pa.concat_tables(tables).cast(CANDIDATE_GAINS)


def _choices(
    work: Work,
    questions: _Questions,
    figures: Mapping[tuple[str, str], Floats],
    gains: Floats,
) -> list[dict[str, Any]]:
    """The gain from choosing, by task and metric."""
    seed = seeding.text_id(str(work.seed), NAME)
    crossed = cross_fitted(gains, questions.groups, seed)
    rows = []
    for (task, metric), values in figures.items():
        of_task = questions.tasks == task.removesuffix(f" {HYBRID}")
        whole = np.zeros(gains.shape)
        whole[of_task] = values - values[:, :1]
        gain = crossed.interval(whole, work.config.bootstrap, seed, of_task)
        ends = {"gain": gain.value, "ci_low": gain.low, "ci_high": gain.high}
        n = int(of_task.sum())
        rows.append({"chosen_by": "questions", "task": task, "metric": metric, "n": n, **ends})
    return rows


STAGE = Stage(
    name=NAME,
    config=ChooseConfig,
    tables={
        "candidate_encoders": CANDIDATE_ENCODERS,
        "candidate_gains": CANDIDATE_GAINS,
        "choices": CHOICES,
        "passage_vectors": PASSAGE_VECTORS,
    },
    run=run,
    model=True,
    libraries=("torch", "transformers", "sentence-transformers"),
    externals=externals,
    locations=("retrieval_sets.*.source",),
)
