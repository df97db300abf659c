"""A fitted generator that answers requests as a language model's client does."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tercet.models.generators.settings import Decoding
from tercet.models.llm.errors import CeilingReached, Stopped
from tercet.models.llm.messages import Answer, Request
from tercet.models.precision import Precision

if TYPE_CHECKING:
    from tercet.models.generators.generator import Generator

# Requests among which batches of similar length are formed.
_WINDOW = 2048
ENDPOINT = "local"


class Local:
    """Answers by a model in this process; threads may share it, and take turns batch by batch."""

    def __init__(
        self,
        folder: Path,
        precision: Precision,
        device: str,
        label: str,
        batch_size: int,
        record: Callable[[Request, Answer], None],
    ) -> None:
        """Loads the model. label: what answers call it. record: keeps each answer first.

        Raises Unusable for a directory without a usable generator.
        """
        from tercet.models.generators.generator import load

        self._label, self._batch_size, self._record = label, batch_size, record
        self._generator: Generator | None = load(folder, precision, device)
        self._turn = threading.Lock()
        self._closed = threading.Event()

    def ask(self, requests: Iterable[Request]) -> Iterator[Answer]:
        """The answers, batch by batch, each recorded before it is given.

        Raises Stopped once closed, Unusable for a spoilt model, and what `record` raises.
        """
        from tercet.models.generators import generator

        waiting = iter(requests)
        while window := list(islice(waiting, _WINDOW)):
            with self._turn:
                asked = generator.prompts(self._open(), window)
            order = sorted(range(len(window)), key=lambda place: len(asked[place]))
            for start in range(0, len(order), self._batch_size):
                batch = order[start : start + self._batch_size]
                yield from self._answers(
                    [window[place] for place in batch], [asked[place] for place in batch]
                )

    def close(self) -> None:
        """Ends what is being written, and gives the model's memory back."""
        self._closed.set()
        with self._turn:
            if self._generator is None:
                return
            on_gpu = self._generator.model.device.type == "cuda"
            self._generator = None
        if on_gpu:
            import gc

            import torch

            gc.collect()
            torch.cuda.empty_cache()

    def _answers(self, requests: Sequence[Request], asked: Sequence[Sequence[int]]) -> list[Answer]:
        from tercet.models.generators.generator import texts

        how = requests[0].sampling
        assert isinstance(how, Decoding)
        with self._turn:
            began = time.monotonic()
            seeds = [request.seed for request in requests]
            written = texts(self._open(), asked, seeds, how, self._check)
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
                # What is written already is kept: it is not to be written again.
                reached = error
        if reached is not None:
            raise reached
        return answers

    def _open(self) -> "Generator":
        self._check()
        assert self._generator is not None
        return self._generator

    def _check(self) -> None:
        if self._closed.is_set():
            raise Stopped("The generator was closed while it wrote.")
