"""Settings of a fitted generator and of its decoding; all of them affect the texts."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from tercet.errors import InvalidSetting
from tercet.models.config import Config
from tercet.models.llm.settings import Sampling
from tercet.models.machine import Precision

Backend = Literal["transformers", "vllm"]
# Names of the precisions in torch and vLLM.
DTYPES: Mapping[Precision, Literal["float32", "bfloat16"]] = {"fp32": "float32", "bf16": "bfloat16"}

# Decoding of the VAEGPT paper; a server's plain sampling has none of these settings.
_BEAMS, _NO_REPEAT, _TOP_K = 3, 4, 50


class Decoding(Sampling):
    """Decoding of a generator.

    backend: vllm samples plainly with the server's seeds; transformers uses `generators.decode`,
        whose draws depend on the row. top_k: 0 for all tokens. beams: 1 for plain sampling.
        no_repeat: length of the n-grams that must not repeat, including the prompt of a
        decoder-only model; 0: none.
    max_new: most new tokens, as a multiple of the source's tokens (plus 8); None: max_tokens only.
    """

    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    backend: Backend = "transformers"
    top_k: int = Field(_TOP_K, ge=0)
    beams: int = Field(_BEAMS, ge=1)
    no_repeat: int = Field(_NO_REPEAT, ge=0)
    max_new: float | None = Field(1.5, gt=0)

    @property
    def by_seed(self) -> bool:
        """Always True: the seed also draws the noise inside a model."""
        return True


class GeneratorSettings(Config):
    """A fitted model that replaces the language model."""

    model: str = Field(
        description="a name under `models`, or a directory, package:PACKAGE/FOLDER or hub name"
    )
    temperature: float = Field(1.0, ge=0, le=2, description="0: no draws")
    top_p: float = Field(
        1.0, gt=0, le=1, description="The likeliest tokens with this share of the probability"
    )
    top_k: int | None = Field(
        None, ge=0, le=10_000, description="likeliest tokens drawn from, 0: all; default: 50"
    )
    beams: int | None = Field(
        None, ge=1, le=16, description="sampled beams, 1: plain sampling; default: 3"
    )
    no_repeat: int | None = Field(
        None,
        ge=0,
        le=32,
        description="no n-gram of this length comes twice, a causal prompt included, 0: any; "
        "default: 4",
    )
    max_new: float | None = Field(
        None, gt=0, le=20, description="most new tokens per token of the source; default: 1.5"
    )
    max_tokens: int = Field(128, ge=1, le=32768, description="most tokens of an answer")
    backend: Backend = Field(
        "transformers", description="vllm: a server of ours, plain sampling; not for T5"
    )
    precision: Precision = Field("fp32", description="precision of weights and computation")

    @model_validator(mode="after")
    def _drawable(self) -> "GeneratorSettings":
        if self.backend == "vllm":
            for key, plain in (("top_k", 0), ("beams", 1), ("no_repeat", 0), ("max_new", None)):
                if getattr(self, key) not in (None, plain):
                    raise InvalidSetting(
                        "no_effect",
                        f"vLLM samples plainly and knows no `{key}`: leave it out, or use "
                        "backend: transformers",
                    )
            return self
        how = self.decoding()
        if how.beams > 1 and 0 < how.top_k < 2 * how.beams:
            raise InvalidSetting(
                "bad_value",
                f"{how.beams} beams need a top_k of {2 * how.beams} or more (or 0): they draw so "
                "many tokens at once",
            )
        return self

    def decoding(self) -> Decoding:
        """The decoding of this generator, unless a method overrides it."""
        shared = {name: getattr(self, name) for name in ("temperature", "top_p", "max_tokens")}
        if self.backend == "vllm":
            return Decoding(**shared, backend="vllm", top_k=0, beams=1, no_repeat=0, max_new=None)
        overrides = {
            name: getattr(self, name) for name in ("top_k", "beams", "no_repeat", "max_new")
        }
        return Decoding(
            **shared, **{name: value for name, value in overrides.items() if value is not None}
        )
