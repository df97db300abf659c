"""Language models of transformers' classes, and their training loss."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.utils import logging as transformers_logging

from tercet.models.pretrained import network
from tercet.models.pretraining.batches import IGNORED
from tercet.models.pretraining.forms import Form

_CLASSES: dict[Form, Any] = {
    "masked": AutoModelForMaskedLM,
    "causal": AutoModelForCausalLM,
    "t5": AutoModelForSeq2SeqLM,
}
_INNER = 4
_DROPOUT = 0.1


@dataclass(frozen=True)
class Shape:
    """Size of a new model. layers: for t5, of encoder and decoder each."""

    layers: int
    width: int
    heads: int
    max_length: int


def new_model(form: Form, shape: Shape, tokenizer: Any) -> Any:
    """A new model with random weights and the tokenizer's vocabulary.

    Its config has the usual dropout, for later training; see `set_dropout`.
    """
    ids = {"pad_token_id": tokenizer.pad_token_id, "vocab_size": len(tokenizer)}
    drop, inner = _DROPOUT, _INNER * shape.width
    if form == "masked":
        bert = BertConfig(
            **ids,
            hidden_size=shape.width,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            intermediate_size=inner,
            max_position_embeddings=shape.max_length,
            hidden_dropout_prob=drop,
            attention_probs_dropout_prob=drop,
        )
        return BertForMaskedLM(bert)
    if form == "causal":
        gpt2 = GPT2Config(
            **ids,
            n_embd=shape.width,
            n_layer=shape.layers,
            n_head=shape.heads,
            n_positions=shape.max_length,
            resid_pdrop=drop,
            embd_pdrop=drop,
            attn_pdrop=drop,
            # Equal to the default `gelu_new`, but computed in one kernel.
            activation_function="gelu_pytorch_tanh",
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
        return GPT2LMHeadModel(gpt2)
    t5 = T5Config(
        **ids,
        d_model=shape.width,
        d_kv=shape.width // shape.heads,
        d_ff=inner,
        num_layers=shape.layers,
        num_decoder_layers=shape.layers,
        num_heads=shape.heads,
        dropout_rate=drop,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    return T5ForConditionalGeneration(t5)


def loaded(folder: Path, form: Form) -> Any:
    """The model of a checkpoint in fp32; a masked model without a head gets a new one.

    Raises ValueError if it cannot be loaded.
    """
    with _quiet():
        return network(_CLASSES[form], folder, torch.float32, new_head=form == "masked")


def set_dropout(model: Any, share: float) -> None:
    """Sets the dropout for this training; the config, which is saved, keeps its own."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = share
        elif isinstance(getattr(module, "dropout", None), float):
            # T5's attention has a float instead of a module.
            module.dropout = share


class LanguageModel(nn.Module):  # type: ignore[misc]
    """A model with its loss: takes the inputs of `TextBatches`, returns a scalar."""

    def __init__(self, model: Any, form: Form) -> None:
        super().__init__()
        self.model, self.form = model, form
        self._places: Tensor | None = None
        if form == "masked":
            model.base_model.register_forward_hook(self._at_places)

    def forward(
        self, ids: Tensor, lengths: Tensor, answers: Tensor, places: Tensor | None = None
    ) -> Tensor:
        """The mean cross-entropy of the answers, in nats; 0 if there is none.

        ids: (rows, width). lengths: (rows,). answers: ids to predict, or IGNORED: (rows, n) at the
        places of a masked model, (rows, width) for a causal model, (rows, m) for T5's decoder.
        places: (rows, n), for a masked model.
        """
        attended = (torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]).long()
        more: dict[str, Tensor] = {}
        if self.form == "t5":
            more["decoder_input_ids"] = self._started(answers)
        self._places = places
        with _attention(ids.device):
            logits = self.model(input_ids=ids, attention_mask=attended, **more).logits
        total = nn.functional.cross_entropy(
            logits.flatten(0, 1).float(),
            answers.flatten(),
            ignore_index=IGNORED,
            reduction="sum",
        )
        # A batch may have no answer, if its texts have unknown characters only. Divide by at least
        # 1, since NaN would destroy the weights.
        return total / (answers != IGNORED).sum().clamp(min=1)

    def _started(self, answers: Tensor) -> Tensor:
        """The decoder's input: the labels shifted to the right."""
        config = self.model.config
        before = torch.full_like(answers[:, :1], config.decoder_start_token_id)
        shifted = torch.cat([before, answers[:, :-1]], dim=1)
        return shifted.masked_fill(shifted == IGNORED, config.pad_token_id)

    def _at_places(self, encoder: nn.Module, arguments: Any, output: Any) -> Any:
        """A forward hook that passes only the states at the places to the head, since logits of all
        positions would take most of the time."""
        if self._places is not None:
            states = output.last_hidden_state
            index = self._places[:, :, None].expand(-1, -1, states.shape[-1])
            output.last_hidden_state = states.gather(1, index)
        return output


def save(model: Any, tokenizer: Any, folder: Path) -> Path:
    """Writes model and tokenizer as a transformers directory, weights in safetensors."""
    with _quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


@contextlib.contextmanager
def _attention(device: torch.device) -> Iterator[None]:
    """Plain attention on a CPU, where the fused one's backward pass is slower for short texts."""
    plain = sdpa_kernel(SDPBackend.MATH) if device.type == "cpu" else contextlib.nullcontext()
    with plain:
        yield


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses transformers' reports of new heads."""
    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
