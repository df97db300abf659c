"""An encoder's settings in a recipe: its pooling, and its prompts for queries and documents.

No torch here, so that configs can use them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.dataclasses import dataclass

from tercet.models.config import Config

# The modes of sentence-transformers' module `Pooling`. Several are concatenated.
TokenPooling: TypeAlias = Literal[
    "mean", "cls", "max", "lasttoken", "weightedmean", "mean_sqrt_len_tokens"
]
# The mean over all tokens of the first and the last layer's states.
LayerPooling: TypeAlias = Literal["first_last_mean"]
# One state of a text inside a template: that of the mask (PromptBERT) or the decoder's first
# (GenSE).
StatePooling: TypeAlias = Literal["mask", "first_decoder"]
# Two convolutions over the tokens (SARCSE), with the paper's numbers.
CnnPooling: TypeAlias = Literal["token_cnn"]
CNN: CnnPooling = "token_cnn"


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class TokenCnnForm:
    """SARCSE's two convolutions over the tokens, whose first weights are random.

    channels: of each TextCNN. filters: of the CNN after them; the vector has filters × (channels
    − 1) numbers. activation: between the two, which the paper leaves open. seed: draws the first
    weights; null: that of the training.
    """

    name: CnnPooling
    channels: Annotated[int, Field(ge=2, le=10_000)] = 500
    filters: Annotated[int, Field(ge=1, le=100)] = 3
    activation: Literal["none", "relu", "tanh"] = "none"
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None


def _filled_in(pooling: Any) -> Any:
    """Reads a mapping as settings of token_cnn, so that a fault in it is reported as theirs."""
    if pooling == CNN:
        return TokenCnnForm(CNN)
    if not isinstance(pooling, dict):
        return pooling
    try:
        return TypeAdapter(TokenCnnForm).validate_python(pooling)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise ValueError(f"{place} of pooling: token_cnn: {fault['msg']}") from None


PoolingMode: TypeAlias = Annotated[
    TokenPooling
    | LayerPooling
    | StatePooling
    | CnnPooling
    | TokenCnnForm
    | Annotated[tuple[TokenPooling, ...], Field(min_length=2)],
    BeforeValidator(_filled_in),
]

TOKEN_POOLINGS: tuple[TokenPooling, ...] = get_args(TokenPooling)
FIRST_LAST: LayerPooling = "first_last_mean"
STATE_POOLINGS: tuple[StatePooling, ...] = get_args(StatePooling)
_MODES: TypeAdapter[PoolingMode] = TypeAdapter(PoolingMode)

SENTENCE, MASK = "{sentence}", "{mask}"
DEFAULT_PROMPTS: dict[StatePooling, str] = {
    "mask": f'"{SENTENCE}" is a way of saying {MASK}.',
    "first_decoder": " What does this sentence say?",
}


class FormSettings(Config):
    """The form of an encoder, wherever a recipe names a pooling."""

    pooling: PoolingMode | None = Field(
        default=None, description="How token states become a vector; null: as the model does it."
    )
    prompt: str | None = Field(
        default=None,
        max_length=1_000,
        description="pooling: mask: a template with {sentence} and {mask}; "
        "pooling: first_decoder: what follows the sentence; null: a default, or the model's own.",
    )

    @field_validator("prompt")
    @classmethod
    def _prompt_fits(cls, prompt: str | None, info: ValidationInfo) -> str | None:
        if prompt is not None and "pooling" in info.data:
            check_prompt(info.data["pooling"], prompt)
        return prompt


def check_prompt(pooling: PoolingMode | None, prompt: str) -> None:
    """Raises ValueError with one sentence if this pooling cannot use the prompt."""
    if pooling == "mask":
        for piece in (SENTENCE, MASK):
            if prompt.count(piece) != 1:
                raise ValueError(
                    f"the template of pooling: mask has {prompt.count(piece)} {piece}, and needs "
                    f"exactly one, as in {DEFAULT_PROMPTS['mask']!r}"
                )
    elif pooling == "first_decoder":
        for piece in (SENTENCE, MASK):
            if piece in prompt:
                raise ValueError(
                    f"the prompt of pooling: first_decoder follows the sentence as it is: leave "
                    f"{piece} out"
                )
    else:
        raise ValueError("a prompt needs pooling: mask or pooling: first_decoder beside it")


def template_of(pooling: StatePooling, prompt: str | None) -> str:
    """The template that a text is put into, with {sentence} and, for `mask`, {mask}.

    Raises ValueError with one sentence where the prompt does not fit.
    """
    if prompt is None:
        prompt = DEFAULT_PROMPTS[pooling]
    check_prompt(pooling, prompt)
    return prompt if pooling == "mask" else SENTENCE + prompt


def pooling_name(pooling: PoolingMode) -> str:
    """The pooling as tables and cards write it: `mean`, `cls+mean`, `mask`, `token_cnn`."""
    if isinstance(pooling, TokenCnnForm):
        return pooling.name
    return pooling if isinstance(pooling, str) else "+".join(pooling)


def cnn_form(pooling: PoolingMode) -> TokenCnnForm | None:
    """The form of pooling token_cnn; None for any other pooling."""
    filled = _filled_in(pooling)
    return filled if isinstance(filled, TokenCnnForm) else None


def read_pooling(name: str) -> PoolingMode:
    """The inverse of `pooling_name`. Raises ValueError with one sentence."""
    parts = tuple(name.split("+"))
    try:
        return _MODES.validate_python(parts if len(parts) > 1 else name)
    except ValidationError:
        names = ", ".join((*TOKEN_POOLINGS, FIRST_LAST, *STATE_POOLINGS, CNN))
        raise ValueError(
            f"there is no pooling {name!r}: choose {names}; the first six may be joined by +"
        ) from None


Side: TypeAlias = Literal["query", "document"]
# A text and its side; None: neither.
Sided: TypeAlias = tuple[str, Side | None]
SIDES: tuple[Side, ...] = get_args(Side)

# A side's prompt is the first of these that a model has: as in sentence-transformers'
# `encode_query` and `encode_document`.
_NAMES: Mapping[Side, tuple[str, ...]] = {
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
}


class Prompts(Config):
    """Prompts before queries and documents, in place of the model's own."""

    query: str | None = Field(
        default=None,
        max_length=1_000,
        description="Before each query; null: the model's own, an empty text: none.",
    )
    document: str | None = Field(
        default=None,
        max_length=1_000,
        description="Before each document; null: the model's own, an empty text: none.",
    )

    def given(self) -> dict[str, str]:
        """The prompts that are set, by their names in the model."""
        return self.model_dump(exclude_none=True)


def prompt_of(prompts: Mapping[str, str], default: str | None, side: Side | None) -> str:
    """The prompt before a text on this side; "" if there is none.

    prompts: a model's, by name. default: the name of the prompt for texts on neither side.
    """
    name = default
    if side is not None:
        name = next((name for name in _NAMES[side] if name in prompts), default)
    return prompts.get(name or "") or ""


def has_sides(directory: Path, overrides: Prompts) -> bool:
    """Whether the encoder in a directory has a prompt for queries or documents that differs from
    its default. overrides: replace the encoder's own.
    """
    try:
        path = directory / "config_sentence_transformers.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        of_model, default = dict(config.get("prompts") or {}), config.get("default_prompt_name")
    except (OSError, ValueError, AttributeError):
        of_model, default = {}, None  # loading the model reports the fault
    # sentence-transformers gives every model these two.
    prompts = {"query": "", "document": "", **of_model, **overrides.given()}
    plain = prompt_of(prompts, default, None)
    return any(prompt_of(prompts, default, side) != plain for side in SIDES)
