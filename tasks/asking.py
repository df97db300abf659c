"""Asking the recipe's language model about rows: prompts rendered, answers kept word for word."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.models import prompting, seeding
from tercet.models.generation import GENERATIONS, generation_ids, numbered
from tercet.models.llm.messages import Answer, Request
from tercet.models.llm.settings import LlmSettings, Sampling
from tercet.tasks.stage import REJECTS, Work

# Bits of a row's seed: what an OpenAI-compatible endpoint takes.
_SEED_BITS = np.uint64(0x7FFFFFFF)


# Keys of `LlmSettings` that only say where files lie, whose content is digested.
LLM_LOCATIONS = ("model", "adapter")


def llm_externals(llm: LlmSettings) -> dict[str, Path]:
    """Files beside the model's own weights that decide what it says."""
    return {} if llm.adapter is None else {"adapter": Path(llm.adapter)}


def sampling_of(llm: LlmSettings, own: Mapping[str, Any]) -> Sampling:
    """How answers are drawn: what a method says itself (not none), else what `llm` says."""
    keys = Sampling.model_fields
    said = {key: own[key] for key in keys if own.get(key) is not None}
    return Sampling(**({key: getattr(llm, key) for key in keys} | said))


def requests(
    asked: pa.Table,
    method: str,
    seed: int,
    template: prompting.Template,
    sampling: Sampling,
    schema: Mapping[str, Any] | None = None,
) -> Iterator[Request]:
    """The rows of `ASKED` as requests, in order; rendered one at a time, as they are taken.

    A row's seed is drawn from (seed, method, sentence, number of the row in its sentence).
    """
    ids = asked["sentence_id"].to_numpy()
    seeds = seeding.draws(seed, f"{method}.ask", ids, numbered(ids).astype(np.uint64)) & _SEED_BITS
    rows = zip(asked["values"].to_pylist(), seeds.tolist(), strict=True)
    for place, (values, row_seed) in enumerate(rows):
        prompt = prompting.render(template, json.loads(values))
        yield Request(place, prompt, sampling, row_seed, schema)


def said(
    work: Work,
    *,
    method: str,
    purpose: str,
    asked: pa.Table,
    template_path: Path,
    variables: Sequence[str],
    sampling: Sampling,
    schema: Mapping[str, Any] | None = None,
) -> None:
    """Asks about the rows of `ASKED` and emits `generations` in their order.

    A row for which asking failed for good is a reject with the reason `failed`.
    Raises Unusable and Stopped as asking does; what was answered until then is in the store's pool.
    """
    if not asked.num_rows:
        return
    assert work.resources.ask is not None
    template = prompting.load(template_path, variables)
    prompts: list[str | None] = [None] * asked.num_rows
    answers: list[Answer | None] = [None] * asked.num_rows

    def remembered() -> Iterator[Request]:
        for request in requests(asked, method, work.seed, template, sampling, schema):
            prompts[request.place] = request.prompt
            yield request

    for count, answer in enumerate(work.resources.ask(method, remembered()), start=1):
        answers[answer.place] = answer
        work.resources.progress(count, asked.num_rows, "answers")
    got = [answer for answer in answers if answer is not None]
    assert len(got) == asked.num_rows
    failed = np.array([answer.finish_reason == "failed" for answer in got])
    if failed.any():
        work.emit("rejects", _failures(asked, method, prompts, got, np.flatnonzero(failed)))
    keep = np.flatnonzero(~failed)
    work.emit("generations", _generations(asked, method, purpose, prompts, got, sampling, keep))


def _generations(
    asked: pa.Table,
    method: str,
    purpose: str,
    prompts: Sequence[str | None],
    answers: Sequence[Answer],
    sampling: Sampling,
    keep: Any,
) -> pa.Table:
    taken = asked.take(pa.array(keep))
    kept = [answers[place] for place in keep.tolist()]
    raws = [answer.raw for answer in kept]
    count = len(kept)
    columns = {
        "generation_id": generation_ids(method, taken["sentence_id"].to_numpy(), raws),
        "purpose": [purpose] * count,
        "sentence_id": taken["sentence_id"],
        "method": [method] * count,
        "prompt": [prompts[place] for place in keep.tolist()],
        "model": [answer.model for answer in kept],
        "sampling": [json.dumps(sampling.model_dump())] * count,
        "request_digest": [answer.digest for answer in kept],
        "raw": raws,
        "finish_reason": [answer.finish_reason for answer in kept],
        "n_tokens": [answer.n_tokens for answer in kept],
        "detail": taken["detail"],
    }
    arrays = [
        column
        if isinstance(column, pa.ChunkedArray)
        else pa.array(column, GENERATIONS.field(n).type)
        for n, column in columns.items()
    ]
    return pa.table(arrays, schema=GENERATIONS)


def _failures(
    asked: pa.Table,
    method: str,
    prompts: Sequence[str | None],
    answers: Sequence[Answer],
    places: Any,
) -> pa.Table:
    """Rows of `rejects`; their id is that of the sentence that was asked about."""
    count = len(places)
    step = "extract_generate" if method == "extract" else "synthesise"
    columns = [
        [step] * count,
        asked["sentence_id"].take(pa.array(places)),
        ["failed"] * count,
        [f"{method}: {answers[place].error}" for place in places.tolist()],
        [prompts[place] for place in places.tolist()],
    ]
    arrays = [
        column if isinstance(column, pa.ChunkedArray) else pa.array(column, field.type)
        for field, column in zip(REJECTS, columns, strict=True)
    ]
    return pa.table(arrays, schema=REJECTS)
