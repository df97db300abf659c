"""Settings of the language model and its sampling; all of them affect the answers."""

from typing import Any, Literal, TypeAlias

from pydantic import Field, model_validator

from tercet.errors import InvalidSetting
from tercet.models.config import Config

# Parameters of a request that an endpoint may reject or name differently. If it rejects two that
# are sent together, the first in this list is left out.
Parameter: TypeAlias = Literal[
    "top_p", "temperature", "max_tokens", "stop", "response_format", "chat_template_kwargs"
]


class Sampling(Config):
    """Sampling of an answer."""

    temperature: float = Field(
        0.6, ge=0, le=2, description="sampling temperature; 0: the likeliest token"
    )
    top_p: float = Field(
        0.95, gt=0, le=1, description="Share of the probability that tokens are drawn from"
    )
    max_tokens: int = Field(128, ge=1, le=32768, description="most tokens of an answer")

    @property
    def by_seed(self) -> bool:
        """Whether an answer depends on its row's seed."""
        return self.temperature > 0


class LlmSettings(Sampling):
    """The language model, with all settings that affect its answers and so enter fingerprints.

    Either `model`, whose files are local or on the hub and can be served by Tercet's own vLLM, or
    `name`, a model of an endpoint whose weights cannot be inspected.
    """

    model: str | None = Field(
        None, description="directory, GGUF file, package:PACKAGE/PATH or hub name"
    )
    name: str | None = Field(None, min_length=1, description="what the endpoints call the model")
    api: Literal["chat", "completions"] = Field(
        "chat", description="chat: through the model's own template; completions: a base model"
    )
    template_kwargs: dict[str, Any] = Field(
        default_factory=dict, description="variables of the chat template, e.g. enable_thinking"
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="Precision in which the model is served"
    )
    quantization: str | None = Field(None, description="as vLLM names it, e.g. fp8")
    adapter: str | None = Field(None, description="directory of a LoRA adapter of the model")
    max_model_len: int | None = Field(None, ge=16, description="tokens of prompt and answer")
    send: dict[Parameter, str | None] = Field(
        default_factory=dict,
        description="parameters of a request that the endpoint calls otherwise, or, null, does "
        "not take: `{max_tokens: max_completion_tokens, top_p: null}`",
    )

    @model_validator(mode="after")
    def _one(self) -> "LlmSettings":
        if (self.model is None) == (self.name is None):
            raise InvalidSetting("conflict", "give either `model` or `name`")
        if self.name is not None:
            for key in ("quantization", "adapter", "max_model_len", "dtype"):
                if getattr(self, key) not in (None, "auto"):
                    raise InvalidSetting(
                        "no_effect", f"`{key}` belongs to `model`: with `name` the endpoint decides"
                    )
        if self.api == "completions" and self.template_kwargs:
            raise InvalidSetting(
                "no_effect",
                "`template_kwargs` belongs to `api: chat`: a base model has no template",
            )
        return self
