"""Sentence encoders: how one is loaded, and a fast way to encode many sentences."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from tercet.models.encoders.pooling import PoolingMode

Precision: TypeAlias = Literal["fp32", "bf16"]
Vectors: TypeAlias = npt.NDArray[np.float32]

# A batch holds about this many tokens a text of `batch_size`: short texts come in larger batches.
_TOKENS_PER_TEXT = 16
# Texts are tokenised in blocks of this many, so that memory does not grow with the whole list.
_BLOCK = 32_768


def load_encoder(
    path: Path | str,
    pooling: PoolingMode | None = None,
    max_length: int | None = None,
    device: str = "cpu",
    trust_remote_code: bool = False,
) -> SentenceTransformer:
    """The encoder at `path`, in fp32 and in eval mode.

    pooling: how token states become one vector; None keeps what the directory says of itself. A
        plain checkpoint says nothing: it gets "mean", the library's own default.
    max_length: longest input in tokens, special ones included; None keeps the model's own.
    Raises ValueError with one sentence when no encoder can be loaded from there.
    """
    own = (Path(path) / "modules.json").is_file()
    remote = {"trust_remote_code": trust_remote_code}
    # safetensors alone: a checkpoint that is a pickle is refused.
    weights = {"dtype": "float32", "use_safetensors": True}
    transformers_logging.disable_progress_bar()
    try:
        if own:
            model = SentenceTransformer(str(path), device=device, model_kwargs=weights, **remote)
        else:
            body = Transformer(
                str(path),
                model_kwargs={**weights, **remote},
                processor_kwargs=remote,
                config_kwargs=remote,
            )
            modules = [body, Pooling(body.get_embedding_dimension(), pooling or "mean")]
            model = SentenceTransformer(modules=modules, device=device)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if "custom code" in reason:
            reason = (
                "it comes with Python code of its own, which runs only where the recipe says "
                "trust_remote_code: true"
            )
        raise ValueError(f"No sentence encoder can be loaded from {path}: {reason}") from error
    _check_tokenizer(model, path)
    if pooling is not None:
        _set_pooling(model, pooling, path)
    # Static embeddings have no longest input, and none can be set.
    if max_length is not None and model.max_seq_length != math.inf:
        model.max_seq_length = min(max_length, _longest(model))
    return model.eval()


def _check_tokenizer(model: SentenceTransformer, path: Path | str) -> None:
    """Where its files are missing, transformers makes one that knows nothing but special tokens."""
    tokenizer: Any = getattr(model, "tokenizer", None)
    special = getattr(tokenizer, "all_special_tokens", None)
    if special is not None and len(tokenizer) <= len(special):
        raise ValueError(
            f"No sentence encoder can be loaded from {path}: its tokenizer is missing "
            "(tokenizer.json, or the files it is made from)"
        )


def _set_pooling(model: SentenceTransformer, pooling: PoolingMode, path: Path | str) -> None:
    """Replaces the pooling module by one of the asked mode."""
    for index, module in enumerate(model):
        if isinstance(module, Pooling):
            if module.pooling_mode != pooling:
                model[index] = Pooling(module.embedding_dimension, pooling)
            return
    raise ValueError(
        f"The encoder at {path} has no pooling module, so pooling: {pooling} cannot be set: "
        "leave pooling out."
    )


def _longest(model: SentenceTransformer) -> int:
    """The most tokens that the positions of the model allow."""
    config = getattr(model[0], "config", None)
    positions = getattr(config, "max_position_embeddings", None)
    if config is None or not positions:
        return 1 << 30
    # RoBERTa's positions start after the padding index.
    offset = (config.pad_token_id or 0) + 1 if "roberta" in str(config.model_type) else 0
    return int(positions) - offset


def dimension(model: SentenceTransformer) -> int:
    """Width of the sentence vectors."""
    return int(model.get_embedding_dimension())


def encode(
    model: SentenceTransformer,
    texts: Sequence[str],
    batch_size: int = 64,
    precision: Precision = "fp32",
    progress: Callable[[int], None] = lambda done: None,
    normalise: bool = True,
) -> Vectors:
    """Vectors of shape (texts, dimension), in the order of the texts.

    Texts are tokenised in one go, sorted by length in tokens, and put into batches of about
    `batch_size` * 16 tokens, so that little is padded. `progress` gets the number of texts done.
    precision: "bf16" computes under autocast, which moves cosines by up to 4e-3.
    normalise: to length one; else as the model gives them, which is what classifiers are fitted on.
    """
    vectors = np.zeros((len(texts), dimension(model)), dtype=np.float32)
    was_training = model.training
    model.eval()
    done = 0
    try:
        with (
            torch.inference_mode(),
            torch.autocast(model.device.type, torch.bfloat16, enabled=precision == "bf16"),
        ):
            for start in range(0, len(texts), _BLOCK):
                block = list(texts[start : start + _BLOCK])
                for rows, features in _batches(model, block, batch_size * _TOKENS_PER_TEXT):
                    features = {key: value.to(model.device) for key, value in features.items()}
                    output = model(features)["sentence_embedding"].float()
                    if normalise:
                        output = torch.nn.functional.normalize(output, dim=-1)
                    vectors[start + rows] = output.cpu().numpy()
                    done += len(rows)
                    progress(done)
    finally:
        model.train(was_training)
    return vectors


def _batches(
    model: SentenceTransformer, texts: list[str], budget: int
) -> Iterator[tuple[npt.NDArray[np.int64], dict[str, torch.Tensor]]]:
    """Row numbers and padded features, longest texts first."""
    tokenizer = model.tokenizer
    prompt = model.prompts.get(model.default_prompt_name or "", "") or ""
    if prompt:
        texts = [prompt + text for text in texts]
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        # Static embeddings, bags of words: what is no transformer has its own way.
        step = max(budget // _TOKENS_PER_TEXT, 1)
        for start in range(0, len(texts), step):
            rows = np.arange(start, min(start + step, len(texts)))
            yield rows, model.preprocess(texts[start : start + step])
        return
    tokens = tokenizer(texts, truncation=True, max_length=model.max_seq_length, padding=False)
    lengths = np.fromiter(map(len, tokens["input_ids"]), dtype=np.int64, count=len(texts))
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        # The first is the longest of its batch, hence the width of it.
        width = max(int(lengths[order[start]]), 1)
        rows = order[start : start + max(budget // width, 1)]
        columns = {key: [tokens[key][row] for row in rows] for key in tokens}
        yield rows, dict(tokenizer.pad(columns, padding=True, return_tensors="pt"))
        start += len(rows)
