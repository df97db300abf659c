"""What a recipe says about its language model."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tercet.models.llm.vllm import options as server_options


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sampling(_Settings):
    """How an answer is drawn."""

    temperature: float = Field(0.6, ge=0, le=2)
    top_p: float = Field(0.95, gt=0, le=1)
    max_tokens: int = Field(128, ge=1, le=32768, description="tokens of an answer, at most")


class LlmSettings(_Settings):
    """Which model answers: all that changes what it says, and so enters fingerprints.

    Either `model`, whose files are here or on a hub and can be served by a vLLM of our own, or
    `name`, which an endpoint knows and whose weights nobody can look at.
    """

    model: str | None = Field(None, description="directory, package:PACKAGE/FOLDER or hub name")
    name: str | None = Field(None, min_length=1, description="what the endpoints call their model")
    api: Literal["chat", "completions"] = Field(
        "chat", description="chat: through the model's own template; completions: a base model"
    )
    template_kwargs: dict[str, Any] = Field(
        default_factory=dict, description="what the chat template takes, e.g. enable_thinking"
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    quantization: str | None = Field(None, description="as vLLM names it, e.g. fp8")
    adapter: str | None = Field(None, description="directory of a LoRA adapter of the model")
    max_model_len: int | None = Field(None, ge=16, description="tokens of prompt and answer")
    temperature: float = Field(0.6, ge=0, le=2)
    top_p: float = Field(0.95, gt=0, le=1)
    max_tokens: int = Field(128, ge=1, le=32768, description="tokens of an answer, at most")

    @model_validator(mode="after")
    def _one(self) -> "LlmSettings":
        if (self.model is None) == (self.name is None):
            raise ValueError("needs either `model` or `name`")
        if self.name is not None:
            for key in ("quantization", "adapter", "max_model_len", "dtype"):
                if getattr(self, key) not in (None, "auto"):
                    raise ValueError(f"`{key}` belongs to `model`: of `name` the endpoint decides")
        if self.api == "completions" and self.template_kwargs:
            raise ValueError(
                "`template_kwargs` belongs to `api: chat`: a base model has no template"
            )
        return self


class EngineSettings(_Settings):
    """The vLLM server that Tercet starts itself. Nothing here changes what the model says."""

    python: str | None = Field(
        None, description="interpreter that has vLLM; else .venv-vllm/bin/python, else this one"
    )
    port: int = Field(0, ge=0, le=65535, description="0: a free one")
    start_seconds: float = Field(900, gt=0, description="until it must answer")
    tensor_parallel: int = Field(1, ge=1, le=64)
    data_parallel: int = Field(1, ge=1, le=64)
    max_num_seqs: int = Field(256, ge=1, le=8192, description="answers written at once")
    gpu_memory: float = Field(0.9, gt=0, le=1, description="share of the GPU's memory")
    prefix_caching: bool = True
    options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="further options of vLLM's server, by their names"
    )

    @field_validator("options")
    @classmethod
    def _harmless(
        cls, options: dict[str, str | int | float | bool]
    ) -> dict[str, str | int | float | bool]:
        for name in options:
            fault = server_options.fault(name)
            if fault is not None:
                raise ValueError(f"the option {name!r} {fault}")
        return options


class AskingSettings(_Settings):
    """How a run asks (`run.llm`). Nothing here enters a fingerprint."""

    endpoints: tuple[str, ...] = Field(
        (), description="OpenAI-compatible, up to /v1; without any, a vLLM of our own is started"
    )
    key_env: str = Field(
        "TERCET_LLM_KEY", description="environment variable that holds the endpoints' key"
    )
    concurrency: int = Field(512, ge=1, le=8192, description="rows open at an endpoint, at most")
    list_size: int = Field(
        32, ge=1, le=256, description="prompts sent in one request where the API takes a list"
    )
    tries: int = Field(5, ge=1, le=50, description="times that one row is asked")
    timeout: float = Field(300, gt=0, description="seconds for one answer")
    patience: float = Field(
        180, gt=0, description="seconds without one answer, nor to a word, after which it stops"
    )
    price_in: float | None = Field(None, ge=0, description="price of a million prompt tokens")
    price_out: float | None = Field(None, ge=0, description="price of a million answer tokens")
    max_tokens_total: int | None = Field(
        None, ge=1, description="tokens, asked and answered, that this recipe may spend in a store"
    )
    max_cost: float | None = Field(None, gt=0, description="the same in money")
    engine: EngineSettings = EngineSettings()

    @model_validator(mode="after")
    def _priced(self) -> "AskingSettings":
        if self.max_cost is not None and self.price_in is None and self.price_out is None:
            raise ValueError("`max_cost` needs `price_in` or `price_out`")
        for url in self.endpoints:
            if not url.startswith(("http://", "https://")):
                raise ValueError(f"the endpoint {url!r} is no http:// or https:// address")
            if "@" in url.split("/")[2]:
                raise ValueError("an endpoint's address holds no password: use `key_env`")
        return self
