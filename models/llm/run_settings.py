"""Settings of a run's requests to its language model (`run.llm`). No stage imports this module, so
a change here reruns nothing.

A recipe may set options of vLLM's server that affect speed and place, but not the answers: the
server's options do not enter fingerprints. Options for the server's address and access are set by
Tercet only.
"""

import re

from pydantic import Field, field_validator, model_validator

from tercet.errors import InvalidSetting
from tercet.models.config import Config


class EngineSettings(Config):
    """Settings of the vLLM server that Tercet starts. None of them changes the answers."""

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
            fault = option_fault(name)
            if fault is not None:
                raise InvalidSetting("bad_value", f"the option {name!r} {fault}")
        return options


class AskingSettings(Config):
    """Settings of a run's requests (`run.llm`). None of them enters a fingerprint."""

    endpoints: tuple[str, ...] = Field(
        (), description="OpenAI-compatible, up to /v1; without any, Tercet starts its own vLLM"
    )
    key_env: str = Field(
        "TERCET_LLM_KEY", description="environment variable that holds the endpoints' key"
    )
    concurrency: int = Field(512, ge=1, le=8192, description="most rows in flight at an endpoint")
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
            raise InvalidSetting("missing_key", "`max_cost` needs `price_in` or `price_out`")
        for url in self.endpoints:
            if not url.startswith(("http://", "https://")):
                raise InvalidSetting(
                    "bad_value", f"the endpoint {url!r} is not an http:// or https:// address"
                )
        return self


_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
# From a reason to the beginnings of refused names. vLLM accepts any prefix of an option's name, so
# prefixes of these names are refused as well.
_REFUSED = {
    "is Tercet's own to say, leave it out": """
        model served-model-name host port uds root-path api-key ssl- enable-ssl-refresh config
        headless grpc help version middleware tokens-only structured-outputs-config""",
    "belongs under `llm`, as `llm.dtype`": "dtype",
    "belongs under `llm`, as `llm.quantization`": "quantization",
    "belongs under `llm`, as `llm.max_model_len`": "max-model-len",
    "belongs under `llm`, as `llm.adapter`": "lora- enable-lora max-lora-rank default-mm-loras",
    "belongs under `llm`, as `llm.template_kwargs`": "default-chat-template-kwargs",
    "belongs under `llm`, as `llm.temperature` and the like": "generation-config",
    "would change answers without changing their fingerprints, leave it out": """
        override- chat-template trust-request-chat-template tokenizer skip-tokenizer-init revision
        code-revision hf- rope- seed kv-cache-dtype calculate-kv-scales mamba-cache-dtype
        mamba-ssm-cache-dtype allow-deprecated-quantization disable-sliding-window logits-processor
        load-format ignore-patterns runner convert task pooler-config diffusion-config
        guided-decoding reasoning- enable-reasoning enable-auto-tool-choice tool-""",
}


def plain_option(name: str) -> str:
    """An option's name in vLLM's spelling, without the leading dashes."""
    return name.removeprefix("--").replace("_", "-")


def option_fault(name: str) -> str | None:
    """The fault of this option's name, in words that follow the name; None if it is right."""
    option = plain_option(name)
    if not _NAME.fullmatch(option):
        return "is not an option's name: lower-case letters, digits and hyphens"
    if option.startswith("no-"):
        return f"is written as {option.removeprefix('no-')}: false"
    for reason, names in _REFUSED.items():
        if any(option.startswith(begin) or begin.startswith(option) for begin in names.split()):
            return reason
    return None
