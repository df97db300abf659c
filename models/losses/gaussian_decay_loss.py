"""The Gaussian-decayed contrastive loss of GCSE (eqs. 11-12; eq. 12 mended by an exponential).

A hard negative is suppressed while the student's cosine of it agrees with the teacher's; the
further the two move apart, the more of the negative's logit counts.
"""

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

Gate: TypeAlias = Literal["symmetric", "one_sided"]


def gate_opening(student: Tensor, teacher: Tensor, width: float, gate: Gate) -> Tensor:
    """How much of the hard negative's logit counts, in [0, 1], elementwise.

    1 - exp(-(student - teacher)^2 / (2 width^2)) of the two cosines. `one_sided`: 1 where the
    student's is above the teacher's. Width 0, and a teacher's cosine that is not a number (a row
    without one), open the gate fully.
    """
    known = ~torch.isnan(teacher)
    if width == 0:
        return torch.ones_like(student)
    apart = student - torch.where(known, teacher, torch.zeros_like(teacher))
    opening = -torch.expm1(-(apart**2) / (2 * width**2))
    decayed = known & (apart <= 0) if gate == "one_sided" else known
    return torch.where(decayed, opening, torch.ones_like(opening))


def gaussian_decay_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    teacher: Tensor,
    tau: float = 0.05,
    width: float = 0.1,
    gate: Gate = "symmetric",
    detach: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean loss of a batch, the student's cosines of the hard negatives, the gate's openings.

    With u = cos / tau, row i has
    L_i = -log( e^{u_ii+} / (sum_j e^{u_ij+} + sum_{j != i} e^{u_ij-} + e^{G_i}) ),
    G_i = u_ii- * opening_i: where the gate is shut the term is e^0 = 1. Width 0 gives the plain
    InfoNCE with hard negatives.

    anchor, positive, negative: vectors (batch, dimension), of any length and float type.
    teacher: its cosine of each row's hard negative (batch,), in [-1, 1]; nan: no decay in the row.
    tau > 0, the temperature; width >= 0, the gate's half-width in cosine.
    detach: no gradient through the opening. Without it the gradient's sign turns near the
        teacher, and negatives are pinned there.
    """
    anchor, positive, negative = (
        nn.functional.normalize(vectors, dim=-1) for vectors in (anchor, positive, negative)
    )
    to_positives = anchor @ positive.T / tau  # (batch, batch)
    to_negatives = anchor @ negative.T / tau  # (batch, batch)
    student = (anchor * negative).sum(-1)  # (batch,)
    opening = gate_opening(student.detach() if detach else student, teacher, width, gate)
    own = torch.eye(len(anchor), dtype=torch.bool, device=anchor.device)
    decayed = (student / tau * opening).to(to_negatives.dtype)
    to_negatives = torch.where(own, decayed[:, None], to_negatives)
    logits = torch.cat([to_positives, to_negatives], dim=1)  # (batch, 2 batch)
    targets = torch.arange(len(anchor), device=anchor.device)
    loss = nn.functional.cross_entropy(logits, targets)
    return loss, student.detach(), opening.detach()


class GaussianDecayLoss(nn.Module):  # type: ignore[misc]
    """The loss in the form that sentence-transformers' trainer takes.

    Args:
        model: the encoder to train.
        tau: temperature, > 0.
        width: half-width of the gate in cosine, >= 0; 0 switches the decay off.
        gate: "symmetric" (the paper) or "one_sided" (its code: decay only where the student's
            cosine is at most the teacher's).
        detach: keep the gate out of the gradient (the paper's prose and code).
        head: projection in training only. The teacher's cosine must come from the space that the
            loss uses: with a head the teacher's similarity has to pass through the same kind.

    Inputs: (anchor, positive, negative) with the teacher's cosine of the negative as the label.

    After each forward pass `terms` has the batch's means: `gate_opening` in [0, 1], and the
    cosines of the hard negatives, `student_negative` and `teacher_negative` (nan where no row has
    a teacher's cosine).

    Reference: GCSE, eqs. 11-12.

    Example::

        loss = GaussianDecayLoss(model, width=0.1)
        trainer = SentenceTransformerTrainer(model=model, train_dataset=dataset, loss=loss)
    """

    def __init__(
        self,
        model: SentenceTransformer,
        tau: float = 0.05,
        width: float = 0.1,
        gate: Gate = "symmetric",
        detach: bool = True,
        head: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if tau <= 0:
            raise ValueError(f"tau is {tau}: the temperature must be above 0, 0.05 is usual.")
        if width < 0:
            raise ValueError(f"width is {width}: pass a half-width in cosine >= 0, 0 for no decay.")
        if gate not in ("symmetric", "one_sided"):
            raise ValueError(f'gate is {gate!r}: pass "symmetric" or "one_sided".')
        self.model = model
        self.head = head
        self.tau, self.width, self.gate, self.detach = tau, width, gate, detach
        # They stay on the device: only the log reads the numbers.
        self.terms: dict[str, Tensor] = {}

    def forward(
        self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None
    ) -> Tensor:
        """The batch's mean loss; three feature dictionaries and labels of shape (batch,)."""
        vectors = [self.model(features)["sentence_embedding"] for features in sentence_features]
        if len(vectors) != 3:
            raise ValueError(
                f"The Gaussian-decayed loss got {len(vectors)} columns of text: "
                "pass anchor, positive and negative."
            )
        if self.head is not None:
            vectors = [self.head(v) for v in vectors]
        anchor, positive, negative = (v.float() for v in vectors)
        teacher = torch.full_like(anchor[:, 0], torch.nan) if labels is None else labels.to(anchor)
        # Logits of cosine / tau need more than bf16's 8 bits: no autocast here.
        with torch.autocast(anchor.device.type, enabled=False):
            loss, student, opening = gaussian_decay_loss(
                anchor, positive, negative, teacher, self.tau, self.width, self.gate, self.detach
            )
        self.terms = {
            "gate_opening": opening.mean(),
            "student_negative": student.mean(),
            "teacher_negative": teacher.detach().nanmean(),
        }
        return loss

    def get_config_dict(self) -> dict[str, Any]:
        """The loss's numbers, as the library's losses report theirs."""
        return {"tau": self.tau, "width": self.width, "gate": self.gate, "detach": self.detach}

    @property
    def citation(self) -> str:
        """The paper, for the library's model cards."""
        return """
@inproceedings{lai2025enhancing,
    title={Enhancing Unsupervised Sentence Embeddings via Knowledge-Driven Data Augmentation and
        Gaussian-Decayed Contrastive Learning},
    author={Lai, Peichao and Zhang, Zhengfeng and Zhang, Wentao and Fu, Fangcheng and Cui, Bin},
    booktitle={Proceedings of the 63rd Annual Meeting of the Association for Computational
        Linguistics},
    year={2025},
    eprint={2409.12887},
    archivePrefix={arXiv},
}
"""
