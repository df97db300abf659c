"""Asks a language model or a fitted generator about rows; answers are kept verbatim."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from tercet.models import seeding
from tercet.models.errors import Unusable
from tercet.models.generation import GENERATIONS, Unit, generation_ids, numbered
from tercet.models.llm.messages import Answer, Request, Shot
from tercet.models.llm.settings import LlmSettings, Sampling
from tercet.models.prompted import templates
from tercet.models.seeding import Ids
from tercet.models.text.passages import passage_text
from tercet.tasks.rejects import MOST, REASON, rejects
from tercet.tasks.stage import Work

# Bits of a row's seed that an OpenAI-compatible endpoint takes.
_SEED_BITS = np.uint64(0x7FFFFFFF)
# Requests of one part whose prompts and answers are in memory at once; several parts run at a time.
_AT_ONCE = 20_000
# If all of at least this many rows break a prompt file, the file is at fault.
_SEVERAL = 10
EMPTY = "empty_prompt"

# Keys of `LlmSettings` that only locate files, whose content is digested.
LLM_LOCATIONS = ("llm.model", "llm.adapter")


# The module that puts text around a prompt, which affects the answer.
WIRE = "tercet.models.llm.wire"


def llm_externals(llm: LlmSettings) -> dict[str, Path]:
    """Files besides the model's own weights that affect its answers."""
    return {} if llm.adapter is None else {"adapter": Path(llm.adapter)}


def sampling_of(model: Sampling, overrides: Mapping[str, Any]) -> Sampling:
    """How answers are sampled: by the method's settings, else the model's."""
    keys = Sampling.model_fields
    settings = {key: overrides[key] for key in keys if overrides.get(key) is not None}
    return Sampling(**({key: getattr(model, key) for key in keys} | settings))


# Worked examples by kind of query; the kind is "" for a method without kinds.
ShotsByKind: TypeAlias = Mapping[str, tuple[Shot, ...]]
NO_SHOTS: ShotsByKind = MappingProxyType({})


class Refusal(NamedTuple):
    """A row of `ASKED` without an answer. text: its prompt or, if it has none, its values."""

    place: int
    reason: str
    detail: str
    text: str


def requests(
    questions: pa.Table,
    method: str,
    seed: int,
    template: templates.Template | None,
    sampling: Sampling,
    schema: Mapping[str, Any] | None = None,
    refuse: Callable[[Refusal], None] = lambda refusal: None,
    shots: ShotsByKind = NO_SHOTS,
) -> Iterator[Request]:
    """The rows of `ASKED` as requests, in order; each is rendered as it is taken.

    template: None: the prompt is the bare sentence.

    A row's seed is drawn from (seed, method, sentence, number of the row in its sentence); it is 0
    for a language model at temperature 0, whose answer does not depend on it. A row that breaks
    the prompt file, or whose prompt is blank, is refused and not asked.

    Raises Unusable if the file itself is at fault: more than `MOST` rows break it, or all of
    `_SEVERAL` or more.
    """
    ids = questions["sentence_id"].to_numpy()
    seeds = seeding.draws(seed, f"{method}.ask", ids, numbered(ids).astype(np.uint64)) & _SEED_BITS
    if not sampling.by_seed:
        seeds = np.zeros_like(seeds)
    broken = 0
    rows = zip(questions["values"], seeds.tolist(), strict=True)
    for place, (cell, row_seed) in enumerate(rows):
        values = cell.as_py()
        variables = json.loads(values)
        sentence = str(variables.get("sentence") or variables.get("passage", ""))
        try:
            prompt = sentence if template is None else templates.render(template, variables)
        except Unusable as error:
            broken += 1
            if broken > MOST or broken == len(ids) >= _SEVERAL:
                raise
            refuse(Refusal(place, REASON, str(error), values))
            continue
        if prompt.strip():
            shown = shots.get(variables.get("kind", ""), ())
            yield Request(place, prompt, sampling, row_seed, schema, sentence, shown)
        else:
            refuse(Refusal(place, EMPTY, "the prompt is empty", values))


def ask(
    work: Work,
    *,
    method: str,
    purpose: str,
    relation: str | None,
    checks: Sequence[str] = (),
    unit: Unit = "sentence",
    as_anchor: bool = False,
    questions: pa.Table,
    template: templates.Template | None,
    sampling: Sampling,
    schema: Mapping[str, Any] | None = None,
    shots: ShotsByKind = NO_SHOTS,
) -> None:
    """Asks about the rows of `ASKED` and emits `generations` in their order.

    Rejects are rows that got no answer (`failed`), that break the prompt file (`error`), or whose
    prompt is empty (`empty_prompt`). Raises Unusable and Stopped as asking does; answers up to
    then are in the store's pool.
    """
    for start, stop in _slices(questions["sentence_id"].to_numpy()):
        some = questions.slice(start, stop - start)
        refused: list[Refusal] = []
        rendered = list(
            requests(some, method, work.seed, template, sampling, schema, refused.append, shots)
        )
        answers = _answers(work, method, rendered, start, questions.num_rows)
        answered = []
        for request in rendered:
            answer = answers[request.place]
            if answer.finish_reason == "failed":
                why = str(answer.error)
                refused.append(Refusal(request.place, "failed", why, request.prompt))
            else:
                answered.append((request, answer))
        if refused:
            work.emit("rejects", _rejects(some, work.stage, method, sorted(refused)))
        if answered:
            rows = _generations(some, method, purpose, relation, checks, unit, as_anchor, answered)
            work.emit("generations", rows)


def _slices(ids: Ids) -> Iterator[tuple[int, int]]:
    """Spans of at most `_AT_ONCE` rows; the few rows of a sentence stay together."""
    starts = np.flatnonzero(numbered(ids) == 0)
    start = 0
    while start < len(ids):
        stop = start + _AT_ONCE
        if stop < len(ids):
            stop = int(starts[np.searchsorted(starts, stop, side="right") - 1])
        yield start, min(stop, len(ids))
        start = stop


def _answers(
    work: Work, method: str, rendered: Sequence[Request], before: int, total: int
) -> dict[int, Answer]:
    """The answers by place. Requests with the same prompt and seed are asked once."""
    assert work.resources.ask is not None
    places: dict[tuple[str, int], list[int]] = {}
    for request in rendered:
        places.setdefault((request.prompt, request.seed), []).append(request.place)
    firsts = {same[0]: same for same in places.values()}
    distinct = (request for request in rendered if request.place in firsts)
    answers: dict[int, Answer] = {}
    for answer in work.resources.ask(method, distinct):
        answers.update(dict.fromkeys(firsts[answer.place], answer))
        work.resources.progress(before + len(answers), total, "answers")
    return answers


def _generations(
    questions: pa.Table,
    method: str,
    purpose: str,
    relation: str | None,
    checks: Sequence[str],
    unit: Unit,
    as_anchor: bool,
    answered: Sequence[tuple[Request, Answer]],
) -> pa.Table:
    rows = questions.take(pa.array([request.place for request, _ in answered], pa.int64()))
    raws = [answer.raw for _, answer in answered]
    count = len(answered)
    columns = {
        "generation_id": generation_ids(method, rows["sentence_id"].to_numpy(), raws),
        "purpose": [purpose] * count,
        "relation": [relation] * count,
        "sentence_id": rows["sentence_id"],
        "method": [method] * count,
        "passage": _passages(rows) if unit == "passage" else [None] * count,
        "as_anchor": [as_anchor] * count,
        "prompt": [request.prompt for request, _ in answered],
        "shots": [[shot.answer for shot in request.shots] or None for request, _ in answered],
        "checks": [checks] * count,
        "model": [answer.model for _, answer in answered],
        "sampling": [json.dumps(answered[0][0].sampling.model_dump())] * count,
        "request_digest": [answer.digest for _, answer in answered],
        "raw": raws,
        "finish_reason": [answer.finish_reason for _, answer in answered],
        "n_tokens": [answer.n_tokens for _, answer in answered],
        "detail": rows["detail"],
    }
    arrays = [
        column
        if isinstance(column, pa.ChunkedArray)
        else pa.array(column, GENERATIONS.field(n).type)
        for n, column in columns.items()
    ]
    return pa.table(arrays, schema=GENERATIONS)


def _passages(questions: pa.Table) -> list[str]:
    """The passage of each row, with the context that the model was shown."""
    values = map(json.loads, questions["values"].to_pylist())
    return [passage_text(one.get("context", ""), one["passage"]) for one in values]


def _rejects(questions: pa.Table, stage: str, method: str, refused: Sequence[Refusal]) -> pa.Table:
    """Rows of `rejects`, by the id of the sentence they would have asked about."""
    ids = questions["sentence_id"].take(pa.array([one.place for one in refused], pa.int64()))
    return rejects(
        stage,
        ids,
        [one.reason for one in refused],
        [f"{method}: {one.detail}" for one in refused],
        [one.text for one in refused],
    )
