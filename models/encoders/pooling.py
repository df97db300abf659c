"""How token states become one vector: the modes of sentence-transformers' module `Pooling`."""

from typing import Literal, TypeAlias, get_args

# Apart from the encoder, so that a config can name them without torch.
PoolingMode: TypeAlias = Literal[
    "mean", "cls", "max", "lasttoken", "weightedmean", "mean_sqrt_len_tokens"
]
POOLING_MODES: tuple[PoolingMode, ...] = get_args(PoolingMode)
