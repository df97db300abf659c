"""How a generator's text is drawn."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from tercet.models.llm.settings import Sampling
from tercet.models.precision import Precision

Backend = Literal["transformers", "vllm"]
# As torch and vLLM call them.
DTYPES: Mapping[Precision, Literal["float32", "bfloat16"]] = {"fp32": "float32", "bf16": "bfloat16"}

# Of the paper's decoding (VAEGPT); plain sampling, as a server has it, knows neither.
_BEAMS, _NO_REPEAT, _TOP_K = 3, 4, 50


class Decoding(Sampling):
    """How a generator's text is drawn.

    backend: vllm draws plainly from the server's own seeds; transformers, our own loop, draws by
        row. top_k: 0 for all tokens. beams: 1 for plain sampling. no_repeat: length of the n-grams
        of which none comes twice, the prompt of a decoder-only model included; 0 for none.
    max_new: most new tokens, as a multiple of the source's (and 8 more); none: max_tokens alone.
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
        """Always: noise inside a model is drawn by it too."""
        return True
