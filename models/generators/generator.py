"""A fitted generator in this process, with the interface of a language model's client."""

import gc
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from tercet.errors import kind_of
from tercet.models.errors import CeilingReached, Stopped, Unusable
from tercet.models.generators import layout
from tercet.models.generators.decode import NotFinite, decode
from tercet.models.generators.layout import Layout
from tercet.models.generators.settings import DTYPES, Decoding
from tercet.models.llm.messages import Answer, Request
from tercet.models.machine import Precision, computed_in
from tercet.models.pretrained import FAULTS, loaded, whole

# Tokens that every answer may have, however short its source is.
_AT_LEAST = 8


class Generator(NamedTuple):
    """A loaded model in evaluation mode on its device."""

    folder: Path
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    layout: Layout


class Text(NamedTuple):
    """An answer: its text, whether it ended before the limit, tokens of prompt and answer."""

    raw: str
    ended: bool
    prompt_tokens: int
    n_tokens: int


def load(folder: Path, precision: Precision, device: str) -> Generator:
    """The generator in this directory. Raises Unusable for one that cannot be used."""
    transformers_logging.disable_progress_bar()
    try:
        laid = layout.read(folder)
        if laid.form == "vaegpt":
            # Registers the form with transformers.
            import tercet.models.vaegpt.network  # noqa: F401
        kind: Any = AutoModelForSeq2SeqLM if laid.form == "t5" else AutoModelForCausalLM
        dtype = getattr(torch, DTYPES[computed_in(precision, device)])
        model = whole(kind, folder, dtype=dtype, local_files_only=True)
        if (model.config.model_type == "vaegpt") != (laid.form == "vaegpt"):
            raise ValueError(
                f"{layout.FILE} says {laid.form}, and its model is a {model.config.model_type}"
            )
        tokenizer = loaded(AutoTokenizer, folder)
        # Both raise ValueError if tokenizer and layout do not fit.
        layout.room(tokenizer, laid)
        layout.end_token(tokenizer)
    except (ImportError, *FAULTS) as error:
        message = " ".join(str(error).split()).rstrip(".")
        raise Unusable(
            "unreadable", f"The generator in {folder} cannot be loaded: {message}."
        ) from None
    places = getattr(model.config, "max_position_embeddings", None)
    if laid.form != "t5" and places is not None and laid.max_length > places:
        raise Unusable(
            "bad_value",
            f"{folder / layout.FILE}: max_length is {laid.max_length}, but the model has only "
            f"{places} positions: lower it.",
        )
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        raise Unusable(
            "unfit_model",
            f"The generator in {folder} has a tokenizer of {len(tokenizer):,} tokens, but only "
            f"{model.get_input_embeddings().num_embeddings:,} embeddings: they do not belong "
            "together.",
        )
    return Generator(folder, model.to(device).eval(), tokenizer, laid)


def prompts(generator: Generator, requests: Sequence[Request]) -> list[list[int]]:
    """The prompt tokens of each request. Raises Unusable if the layout does not fit them."""
    tokenizer, laid = generator.tokenizer, generator.layout
    try:
        if not laid.follows_prompts:
            return layout.prompts(tokenizer, laid, [request.prompt for request in requests])
        pieces = [layout.parted(request) for request in requests]
        around = [(before, after) for before, _, after in pieces]
        return layout.prompts(tokenizer, laid, [source for _, source, _ in pieces], around)
    except ValueError as error:
        raise Unusable(
            kind_of(error, "unfit_model"), f"The generator in {generator.folder}: {error}"
        ) from None


def texts(
    generator: Generator,
    prompt_ids: Sequence[Sequence[int]],
    seeds: Sequence[int],
    how: Decoding,
    check: Callable[[], None],
) -> list[Text]:
    """The generator's answers to one batch of prompts.

    check: called before each token; may raise to stop. Raises Unusable if the model gives NaN.
    """
    laid, tokenizer = generator.layout, generator.tokenizer
    end = layout.end_token(tokenizer)
    around = sum(map(len, layout.template(tokenizer, laid)))
    limits = []
    for prompt in prompt_ids:
        left = laid.max_length - (0 if laid.form == "t5" else len(prompt))
        limit = how.max_tokens
        if how.max_new is not None:
            limit = min(limit, math.ceil(how.max_new * (len(prompt) - around)) + _AT_LEAST)
        limits.append(max(1, min(limit, left)))
    try:
        written = decode(generator.model, prompt_ids, seeds, limits, end, how, check)
    except NotFinite:
        raise Unusable(
            "damaged",
            f"The generator in {generator.folder} computes NaN: fit it "
            "again, or use precision: fp32.",
        ) from None
    raws = tokenizer.batch_decode(
        [one.tokens for one in written],
        skip_special_tokens=True,
        clean_up_tokenization_spaces=False,
    )
    return [
        Text(raw, one.ended, len(prompt), len(one.tokens) + one.ended)
        for raw, one, prompt in zip(raws, written, prompt_ids, strict=True)
    ]


def renderer(
    folder: Path, laid: Layout
) -> tuple[Callable[[Sequence[Request]], list[list[int]]], int]:
    """A function from requests to prompts of a causal model, and the most tokens of an answer.

    The prompts are token ids as in fitting. A server that tokenised the text itself would merge
    tokens of template and source, and read the name of a special token as that token. A source that
    is too long is cut, except for a whole prompt (`follows_prompts`), which the server refuses.
    Raises ValueError if the tokenizer is missing or the layout does not fit.
    """
    tokenizer = loaded(AutoTokenizer, folder)
    most = layout.room(tokenizer, laid)
    before, after = layout.template(tokenizer, laid)

    def render(requests: Sequence[Request]) -> list[list[int]]:
        sources = [request.prompt for request in requests]
        if laid.follows_prompts:
            return [[*before, *ids, *after] for ids in layout.tokens(tokenizer, sources)]
        return layout.prompts(tokenizer, laid, sources)

    return render, laid.max_length - len(before) - len(after) - most


# Requests that are sorted by length together before they are split into batches.
_WINDOW = 2048
ENDPOINT = "local"


class Local:
    """Answers requests by a model in this process; threads that share it alternate by batch."""

    def __init__(
        self,
        folder: Path,
        precision: Precision,
        device: str,
        label: str,
        batch_size: int,
        record: Callable[[Request, Answer], None],
    ) -> None:
        """Loads the model. label: the model's name in answers. record: stores each answer.

        Raises Unusable for a directory without a usable generator.
        """
        self._label, self._batch_size, self._record = label, batch_size, record
        self._generator: Generator | None = load(folder, precision, device)
        self._turn = threading.Lock()
        self._closed = threading.Event()

    def ask(self, requests: Iterable[Request]) -> Iterator[Answer]:
        """The answers, batch by batch; each is recorded before it is yielded.

        Raises: Stopped once closed, Unusable if the model gives NaN, and any error of `record`.
        """
        waiting = iter(requests)
        while window := list(islice(waiting, _WINDOW)):
            with self._turn:
                prompt_ids = prompts(self._open(), window)
            order = sorted(range(len(window)), key=lambda place: len(prompt_ids[place]))
            for start in range(0, len(order), self._batch_size):
                batch = order[start : start + self._batch_size]
                yield from self._answers(
                    [window[place] for place in batch], [prompt_ids[place] for place in batch]
                )

    def close(self) -> None:
        """Stops the current batch and frees the model's memory."""
        self._closed.set()
        with self._turn:
            if self._generator is None:
                return
            on_gpu = self._generator.model.device.type == "cuda"
            self._generator = None
        if on_gpu:
            gc.collect()
            torch.cuda.empty_cache()

    def _answers(
        self, requests: Sequence[Request], prompt_ids: Sequence[Sequence[int]]
    ) -> list[Answer]:
        how = requests[0].sampling
        assert isinstance(how, Decoding)
        with self._turn:
            began = time.monotonic()
            seeds = [request.seed for request in requests]
            written = texts(self._open(), prompt_ids, seeds, how, self._check)
            seconds = time.monotonic() - began
        answers = [
            Answer(
                place=request.place,
                digest=request.digest,
                model=self._label,
                raw=text.raw,
                finish_reason="stop" if text.ended else "length",
                prompt_tokens=text.prompt_tokens,
                n_tokens=text.n_tokens,
                attempts=1,
                seconds=seconds,
                endpoint=ENDPOINT,
            )
            for request, text in zip(requests, written, strict=True)
        ]
        reached: CeilingReached | None = None
        for request, answer in zip(requests, answers, strict=True):
            try:
                self._record(request, answer)
            except CeilingReached as error:
                # The remaining answers are recorded first, so that they are not generated again.
                reached = error
        if reached is not None:
            raise reached
        return answers

    def _open(self) -> Generator:
        self._check()
        assert self._generator is not None
        return self._generator

    def _check(self) -> None:
        if self._closed.is_set():
            raise Stopped("lost", "The generator was closed while it wrote.")
