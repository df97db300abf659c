"""A frozen teacher that reads the very texts of a batch (GCSE, figure 4).

A teacher's cosine that was stored beforehand is that of the texts as they stand in the rows. Where
training changes them, the student would be compared with a teacher that read something else.
"""

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.training.phase import Teacher


def load_teacher(teacher: Teacher, max_length: int, device: str) -> SentenceTransformer:
    """The teacher on the device; it reads no more of a text than the student, in tokens.

    Raises ValueError with one sentence when no encoder can be loaded from there.
    """
    directory, pooling = teacher.directory, teacher.pooling
    return load_encoder(directory, pooling, max_length, device, prompt=teacher.prompt)


def cosines(model: SentenceTransformer, anchors: list[str], negatives: list[str]) -> Tensor:
    """The cosine of each anchor with its own negative (rows,), in [-1, 1], without dropout.

    Always in fp32: bf16 moves cosines by up to 4e-3, and the decay's half-width may be 0.01.
    """
    vectors = torch.from_numpy(encode(model, [*anchors, *negatives]))
    return (vectors[: len(anchors)] * vectors[len(anchors) :]).sum(-1)
