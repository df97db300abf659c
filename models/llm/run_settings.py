"""How a run asks its language model (`run.llm`). No stage's code imports this, so an edit
here reruns nothing."""

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tercet.models.llm.vllm import options as server_options


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EngineSettings(_Settings):
    """The vLLM server that Tercet starts itself. Nothing here changes what the model says."""

    python: str | None = Field(
        None, description="interpreter that has vLLM; default: .venv-vllm/bin/python, else this one"
    )
    port: int = Field(0, ge=0, le=65535, description="0: a free one")
    start_seconds: float = Field(900, gt=0, description="seconds until it must answer")
    tensor_parallel: int = Field(1, ge=1, le=64, description="GPUs that share the model")
    data_parallel: int = Field(1, ge=1, le=64, description="Copies of the model")
    max_num_seqs: int = Field(256, ge=1, le=8192, description="answers generated at once")
    gpu_memory: float = Field(0.9, gt=0, le=1, description="share of the GPU's memory")
    prefix_caching: bool = Field(True, description="The beginning that prompts share is read once")
    options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="further options of vLLM's server, by name"
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
        (), description="OpenAI-compatible, up to /v1; without any, Tercet starts its own vLLM"
    )
    key_env: str = Field(
        "TERCET_LLM_KEY", description="environment variable that holds the endpoints' key"
    )
    concurrency: int = Field(512, ge=1, le=8192, description="most rows in flight at an endpoint")
    list_size: int = Field(
        32, ge=1, le=256, description="prompts per request where the API takes a list"
    )
    tries: int = Field(5, ge=1, le=50, description="attempts per row")
    timeout: float = Field(300, gt=0, description="seconds to wait for one answer")
    patience: float = Field(
        180, gt=0, description="stop after this long without an answer to any request or probe"
    )
    price_in: float | None = Field(None, ge=0, description="price of a million prompt tokens")
    price_out: float | None = Field(None, ge=0, description="price of a million answer tokens")
    max_tokens_total: int | None = Field(
        None, ge=1, description="tokens, in and out, that this recipe may spend in a store"
    )
    max_cost: float | None = Field(None, gt=0, description="the same in money")
    engine: EngineSettings = Field(
        EngineSettings(), description="The vLLM server that Tercet starts"
    )

    @model_validator(mode="after")
    def _priced(self) -> "AskingSettings":
        if self.max_cost is not None and self.price_in is None and self.price_out is None:
            raise ValueError("`max_cost` needs `price_in` or `price_out`")
        for url in self.endpoints:
            if not url.startswith(("http://", "https://")):
                raise ValueError(f"the endpoint {url!r} is not an http:// or https:// address")
        return self
