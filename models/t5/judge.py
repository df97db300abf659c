"""The T5's judgement of how likely the second of two sentences follows from the first."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoConfig, T5ForConditionalGeneration

from tercet.models import pretrained
from tercet.models.generators.settings import DTYPES
from tercet.models.machine import Precision, computed_in
from tercet.models.t5 import wording
from tercet.models.t5.wording import Question, Words

# Lengths are padded to a multiple of this, since bf16 on a CPU makes a new kernel for every shape.
_MULTIPLE = 8


class Judge(NamedTuple):
    """A loaded model with its tokenizer and its question."""

    model: Any
    tokenizer: Any
    question: Question


def load_t5(folder: Path, precision: Precision = "fp32") -> Any:
    """A T5 with its language-model head. Raises ValueError for another kind of model."""
    kind = pretrained.loaded(AutoConfig, folder).model_type
    if kind != "t5":
        raise ValueError(
            f"a T5 is needed to write and to judge, and {folder} is a {kind}: name another model"
        )
    dtype = getattr(torch, DTYPES[precision])
    model = pretrained.network(T5ForConditionalGeneration, folder, dtype)
    # A config may lack the start token, which is T5's padding token.
    if getattr(model.config, "decoder_start_token_id", None) is None:
        model.config.decoder_start_token_id = model.config.pad_token_id
    return model


def load(folder: Path, precision: Precision, device: str, words: Words | None = None) -> Judge:
    """The judge in this directory. Raises ValueError if it cannot be used.

    words: the wording of the question, for a T5 that brings none.
    """
    question = wording.question_of(folder, words)
    tokenizer = pretrained.load_tokenizer(folder)
    wording.answers(tokenizer, question)
    wording.questions(tokenizer, question, [""], [""])
    return Judge(
        load_t5(folder, computed_in(precision, device)).to(device).eval(), tokenizer, question
    )


def logits(
    judge: Judge, firsts: Sequence[str], seconds: Sequence[str], batch_size: int
) -> npt.NDArray[np.float64]:
    """Uncalibrated log P(true) / P(false) of each pair, (pairs,), by the first differing token.

    The softmax over the two words' logits is the logistic function of their difference. GenSE
    (section 2.1) does not name the tokens of the softmax; its public code uses these two. A damaged
    model gives NaN. Batches have pairs of similar length.
    """
    questions = wording.questions(judge.tokenizer, judge.question, firsts, seconds)
    true, false, place = wording.answers(judge.tokenizer, judge.question)
    model = judge.model
    begun = [int(model.config.decoder_start_token_id), *true[:place]]
    order = sorted(range(len(questions)), key=lambda row: len(questions[row]))
    differences = np.empty(len(questions))
    with torch.inference_mode():
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            batch = judge.tokenizer.pad(
                {"input_ids": [questions[row] for row in rows]},
                pad_to_multiple_of=_MULTIPLE,
                return_tensors="pt",
                verbose=False,
            ).to(model.device)
            answer_logits = model(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                decoder_input_ids=torch.tensor([begun] * len(rows), device=model.device),
                use_cache=False,
            ).logits[:, -1]
            ahead = answer_logits[:, true[place]].double() - answer_logits[:, false[place]].double()
            differences[rows] = ahead.cpu().numpy()
    return differences
