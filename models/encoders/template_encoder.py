"""An encoder that reads a text inside a template and takes one state as its embedding.

Every saved encoder that needs this file has a copy of it, so that plain sentence-transformers can
load the directory with trust_remote_code=True. Therefore it imports nothing of Tercet.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from sentence_transformers.base.modules import InputModule, Module
from torch import nn
from transformers import AutoModel, AutoTokenizer

SENTENCE, MASK = "{sentence}", "{mask}"
# Names of tables of positions: in BERT and most models, in BART, and in GPT-2.
_TABLES = ("position_embeddings", "embed_positions", "wpe")
ENDLESS = 1 << 30


class TemplateEncoder(InputModule):  # type: ignore[misc]
    """A transformer that reads every text inside a template and marks one state of it.

    template: has {sentence} once. Its pieces are tokenised without the sentence, so that truncation
        shortens the sentence and never the template.
    state: "mask" marks the last layer's state at {mask} (PromptBERT; DefSent+'s prompt pooling);
        "first_decoder" marks the decoder's last state of its start token, its only input (GenSE,
        figure 1 (c)).
    Raises: ValueError with one sentence if the model has no such state.
    """

    config_file_name = "template_encoder.json"
    config_keys: ClassVar[list[str]] = ["template", "state"]

    def __init__(self, model: Any, tokenizer: Any, template: str, state: str) -> None:
        super().__init__()
        self.model, self.tokenizer = model, tokenizer
        self.template, self.state = template, state
        decodes = bool(model.config.is_encoder_decoder)
        if state not in ("mask", "first_decoder"):
            raise ValueError(f"there is no state {state!r}, only mask and first_decoder")
        if state == "mask" and tokenizer.mask_token_id is None:
            raise ValueError("its tokenizer has no mask token, which pooling: mask needs")
        if state == "mask" and decodes:
            raise ValueError("it has a decoder, and pooling: mask reads an encoder: use another")
        if state == "first_decoder" and not decodes:
            raise ValueError("it has no decoder, which pooling: first_decoder needs")
        if template.count(SENTENCE) != 1 or template.count(MASK) != (state == "mask"):
            raise ValueError(f"its template {template!r} does not fit its state {state!r}")
        self._start = _start_token(model.config) if decodes else None
        before, after = template.split(SENTENCE)
        # A byte-level tokenizer makes the space before a word part of its token.
        self._lead = " " if before.endswith(" ") else ""
        first, last = _special_ids(tokenizer)
        self._before = first + self._piece(before.removesuffix(" "))
        self._after = self._piece(after) + last
        self._marked = self._place_of_mask() if state == "mask" else None
        self.max_seq_length = min(tokenizer.model_max_length, longest_input(model))

    @property
    def config(self) -> Any:
        """The transformer's own configuration."""
        return self.model.config

    @property
    def max_seq_length(self) -> int:
        """Longest input in tokens: template, sentence and special tokens."""
        return int(self.tokenizer.model_max_length)

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> None:
        self.tokenizer.model_max_length = value

    def get_embedding_dimension(self) -> int:
        """Width of the states."""
        return int(self.model.config.hidden_size)

    def preprocess(
        self,
        inputs: Sequence[str],
        prompt: str | None = None,
        max_length: int | None = None,
        **kwargs: Any,
    ) -> dict[str, torch.Tensor]:
        """Texts to input_ids, attention_mask and state_mask, each of shape (texts, tokens).

        state_mask is 1 at the mask's place, once a row; with a decoder, `forward` adds it.
        Raises: ValueError with one sentence if the template leaves no token for the sentence.
        """
        longest = self.max_seq_length
        if max_length is not None:
            longest = min(max_length, longest_input(self.model))
        fixed = len(self._before) + len(self._after)
        if fixed >= longest:
            raise ValueError(
                f"The template {self.template!r} takes {fixed} of {longest} tokens and leaves none "
                "for the sentence: shorten it, or raise max_length."
            )
        texts = [f"{self._lead}{prompt or ''}{text}" for text in inputs]
        sentences = self.tokenizer(
            texts, add_special_tokens=False, truncation=True, max_length=longest - fixed
        )["input_ids"]
        rows = [self._before + ids + self._after for ids in sentences]
        width = max(map(len, rows), default=0)
        input_ids = torch.full((len(rows), width), self.tokenizer.pad_token_id or 0)
        features = {"input_ids": input_ids, "attention_mask": torch.zeros_like(input_ids)}
        for number, row in enumerate(rows):
            input_ids[number, : len(row)] = torch.tensor(row)
            features["attention_mask"][number, : len(row)] = 1
        if self._marked is not None:
            features["state_mask"] = torch.zeros_like(input_ids)
            for number, row in enumerate(rows):
                features["state_mask"][number, self._marked % len(row)] = 1
        return features

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Adds token_embeddings (texts, tokens, width); with a decoder (texts, 1, width)."""
        inputs = {name: features[name] for name in ("input_ids", "attention_mask")}
        if self._start is not None:
            start = torch.full_like(features["input_ids"][:, :1], self._start)
            inputs |= {"decoder_input_ids": start}
            features["state_mask"] = torch.ones_like(start)
        features["token_embeddings"] = self.model(**inputs).last_hidden_state
        return features

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Writes transformer, tokenizer and template."""
        self.model.save_pretrained(output_path)
        self.tokenizer.save_pretrained(output_path)
        self.save_config(output_path)

    @classmethod
    def load(
        cls,
        model_name_or_path: str,
        subfolder: str = "",
        token: bool | str | None = None,
        cache_folder: str | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        trust_remote_code: bool = False,
        model_kwargs: dict[str, Any] | None = None,
        processor_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> "TemplateEncoder":
        """Reads what `save` wrote."""
        place = {
            "subfolder": subfolder,
            "token": token,
            "revision": revision,
            "local_files_only": local_files_only,
        }
        config = cls.load_config(model_name_or_path, cache_folder=cache_folder, **place)
        place |= {"cache_dir": cache_folder, "trust_remote_code": trust_remote_code}
        return cls.from_checkpoint(
            model_name_or_path,
            **config,
            model_kwargs={**place, **(model_kwargs or {})},
            processor_kwargs={**place, **(processor_kwargs or {})},
        )

    @classmethod
    def from_checkpoint(
        cls,
        path: str,
        template: str,
        state: str,
        model_kwargs: dict[str, Any],
        processor_kwargs: dict[str, Any],
    ) -> "TemplateEncoder":
        """The module around a plain checkpoint."""
        tokenizer = AutoTokenizer.from_pretrained(path, **processor_kwargs)
        model = AutoModel.from_pretrained(path, **model_kwargs)
        if getattr(model.config, "use_cache", False):
            model.config.use_cache = False
        return cls(model, tokenizer, template, state)

    def _piece(self, text: str) -> list[int]:
        if self.tokenizer.mask_token is not None:
            text = text.replace(MASK, self.tokenizer.mask_token)
        return _ids(self.tokenizer, text) if text else []

    def _place_of_mask(self) -> int:
        """The mask's index in a row; negative, from the end, if it follows the sentence."""
        mask = self.tokenizer.mask_token_id
        if self._before.count(mask) + self._after.count(mask) != 1:
            raise ValueError(f"its tokenizer does not leave one mask of {self.template!r}")
        if mask in self._before:
            return self._before.index(mask)
        return self._after.index(mask) - len(self._after)


class MarkedState(Module):  # type: ignore[misc]
    """Takes the state that `state_mask` marks as the embedding.

    pooling_mode: "mask" or "first_decoder".
    """

    config_keys: ClassVar[list[str]] = ["embedding_dimension", "pooling_mode"]

    def __init__(self, embedding_dimension: int, pooling_mode: str) -> None:
        super().__init__()
        self.embedding_dimension, self.pooling_mode = embedding_dimension, pooling_mode

    def get_embedding_dimension(self) -> int:
        """Width of the embedding."""
        return self.embedding_dimension

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """token_embeddings (texts, tokens, width) to sentence_embedding (texts, width).

        Raises: ValueError for a row with no marked state or several.
        """
        states, marks = features["token_embeddings"], features.get("state_mask")
        if marks is None or marks.shape != states.shape[:2] or bool((marks.sum(1) != 1).any()):
            raise ValueError(
                "A text has lost the token whose state is its embedding: make the features with "
                "the model's own preprocess."
            )
        rows = torch.arange(len(states), device=states.device)
        features["sentence_embedding"] = states[rows, marks.argmax(1)]
        return features

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Writes the configuration; the module has no weights."""
        self.save_config(output_path)


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _special_ids(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The tokens that the tokenizer puts before and after a text."""
    bare, whole = _ids(tokenizer, "a"), list(tokenizer("a")["input_ids"])
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            return whole[:start], whole[start + len(bare) :]
    raise ValueError("its tokenizer changes a text's tokens when it adds special ones")


def _start_token(config: Any) -> int:
    """The decoder's first token; a T5's is its padding token."""
    for token in (getattr(config, "decoder_start_token_id", None), config.pad_token_id):
        if token is not None:
            return int(token)
    raise ValueError("its configuration names no token that the decoder starts with")


def longest_input(network: Any) -> int:
    """The longest input in tokens for which a transformer's table of positions has rows; `ENDLESS`
    for relative and rotary positions, which have no table.
    """
    configured = getattr(network.config, "max_position_embeddings", None) or 0
    longest = ENDLESS
    for name, module in network.named_modules():
        if isinstance(module, nn.Embedding) and name.endswith(_TABLES):
            rows = min(module.num_embeddings, configured if configured > 0 else ENDLESS)
            # In RoBERTa and MPNet, positions start after the padding index.
            offset = 0 if module.padding_idx is None else module.padding_idx + 1
            longest = min(longest, rows - offset)
    return longest
