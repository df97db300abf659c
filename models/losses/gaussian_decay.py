"""The Gaussian-decayed contrastive loss of GCSE (eqs. 12-13).

A hard negative is suppressed as long as the student's cosine agrees with the teacher's. The further
the two differ, the more the negative's logit counts.

Two interpretations make the equations consistent. In eq. 12 the decayed logit is exponentiated like
every logit; as printed, it is at most 1 beside terms of e^17. In eq. 13 s is a cosine over tau in
both places, so tau cancels in the exponent, and sigma is a half-width in cosine.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from tercet.models.losses.heads import headed
from tercet.models.losses.registry import GaussianDecay

Gate: TypeAlias = Literal["symmetric", "one_sided"]
Detach: TypeAlias = Literal["opening", "term", "none"]


def gate_opening(student: Tensor, teacher: Tensor, sigma_cosine: float, gate: Gate) -> Tensor:
    """The share of the hard negative's logit that counts, in [0, 1], elementwise.

    1 - exp(-(student - teacher)^2 / (2 sigma^2)) of the two cosines. With `one_sided` it is 1 where
    the student's cosine is above the teacher's. It is also 1 for sigma 0, and where the teacher's
    cosine is NaN (a row without one).
    """
    scored = ~torch.isnan(teacher)
    if sigma_cosine == 0:
        return torch.ones_like(student)
    apart = student - torch.where(scored, teacher, torch.zeros_like(teacher))
    opening = -torch.expm1(-(apart**2) / (2 * sigma_cosine**2))
    decayed = scored & (apart <= 0) if gate == "one_sided" else scored
    return torch.where(decayed, opening, torch.ones_like(opening))


def gaussian_decay_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    teacher: Tensor,
    tau: float = 0.05,
    sigma_cosine: float = 0.2,
    gate: Gate = "symmetric",
    detach: Detach = "opening",
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean loss of a batch, with the cosines, openings and gradient share of its hard negatives.

    With u = cos / tau, row i has
    L_i = -log( e^{u_ii+} / (sum_j e^{u_ij+} + sum_{j != i} e^{u_ij-} + e^{G_i}) ),
    G_i = u_ii- * opening_i. If the gate is shut, the last term is e^0 = 1. Sigma 0 gives plain
    InfoNCE with hard negatives.

    anchor, positive, negative: vectors (batch, dimension), of any norm and float type.
    teacher: (batch,), the teacher's cosine of each row's hard negative, in [-1, 1]; NaN: no decay
        in that row.
    tau: temperature, > 0. sigma_cosine: half-width of the Gaussian in cosine, >= 0.
    detach: the part that is constant in the gradient; it does not change the loss. With p_i the
        share of e^{G_i} in row i's sum, dL_i / du_ii- is
        `opening`: p_i * opening_i; the opening is the constant;
        `term`: p_i; the constant is the whole reduction, u_ii- * (1 - opening_i), as in the
            authors' code. A negative on which student and teacher agree still gets its small share
            of the gradient;
        `none`: p_i * dG_i / du_ii-, the equation as printed. Below the teacher's cosine its sign
            changes, so negatives are held there.

    Returns the loss, a scalar; the student's cosines and the openings, (batch,) each; and the share
    of the gradient on the rows' own negatives that remains under the decay, a scalar: the sum over
    the batch of dL_i / du_ii-, divided by the same sum without decay. All values but the loss are
    detached.
    """
    anchor, positive, negative = (
        nn.functional.normalize(vectors, dim=-1) for vectors in (anchor, positive, negative)
    )
    to_positives = anchor @ positive.T / tau  # (batch, batch)
    to_negatives = anchor @ negative.T / tau  # (batch, batch)
    student = (anchor * negative).sum(-1)  # (batch,)
    decayed, opening = _decayed_logits(student, teacher, tau, sigma_cosine, gate, detach)
    diagonal = torch.eye(len(anchor), dtype=torch.bool, device=anchor.device)
    to_negatives = torch.where(diagonal, decayed[:, None].to(to_negatives.dtype), to_negatives)
    logits = torch.cat([to_positives, to_negatives], dim=1)  # (batch, 2 batch)
    targets = torch.arange(len(anchor), device=anchor.device)
    loss = nn.functional.cross_entropy(logits, targets)

    student = student.detach().requires_grad_()
    with torch.enable_grad():
        decayed, opening = _decayed_logits(student, teacher, tau, sigma_cosine, gate, detach)
        (slope,) = torch.autograd.grad(decayed.sum() * tau, student)
    ours = nn.functional.pad(diagonal, (len(anchor), 0))
    others = logits.detach().masked_fill(ours, -torch.inf).logsumexp(dim=1)
    let_through = (torch.sigmoid(decayed.detach() - others) * slope).sum()
    share = let_through / torch.sigmoid(student.detach() / tau - others).sum()
    return loss, student.detach(), opening.detach(), share


def _decayed_logits(
    student: Tensor, teacher: Tensor, tau: float, sigma_cosine: float, gate: Gate, detach: Detach
) -> tuple[Tensor, Tensor]:
    """G of each row's own negative, with the gradient according to `detach`, and the openings."""
    gate_input = student if detach == "none" else student.detach()
    opening = gate_opening(gate_input, teacher, sigma_cosine, gate)
    plain = student / tau
    if detach == "term":
        return plain - (plain * (1 - opening)).detach(), opening
    return plain * opening, opening


class GaussianDecayLoss(nn.Module):  # type: ignore[misc]
    """The Gaussian-decayed loss for sentence-transformers' trainer.

    Inputs: (anchor, positive, negative), with the teacher's cosine of the negative as the label.

    After each forward pass `terms` has the batch's means: `gate_opening` in [0, 1], and the
    cosines of the hard negatives, `student_negative` and `teacher_negative` (NaN if no row has a
    teacher's cosine). `gradient_share` is the share of the gradient on the rows' own negatives that
    remains under the decay. It is far below a half-open gate's opening, since the decayed logit is
    exponentiated.

    Reference: GCSE, eqs. 12-13.
    """

    def __init__(
        self, model: SentenceTransformer, params: GaussianDecay, slots: Mapping[str, Path]
    ) -> None:
        super().__init__()
        self.model, self.params = headed(model, params.head), params
        # The terms stay on the device; only the log reads them.
        self.terms: dict[str, Tensor] = {}

    def forward(
        self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None
    ) -> Tensor:
        """The batch's mean loss, from three feature dictionaries. labels: (batch,)."""
        vectors = [self.model(features)["sentence_embedding"] for features in sentence_features]
        if len(vectors) != 3:
            raise ValueError(
                f"The Gaussian-decayed loss got {len(vectors)} columns of text: "
                "pass anchor, positive and negative."
            )
        anchor, positive, negative = (v.float() for v in vectors)
        teacher = torch.full_like(anchor[:, 0], torch.nan) if labels is None else labels.to(anchor)
        # No autocast: logits of cosine / tau need more than bf16's 8 bits.
        with torch.autocast(anchor.device.type, enabled=False):
            loss, student, opening, share = gaussian_decay_loss(
                anchor, positive, negative, teacher, **self.params.model_dump(exclude={"head"})
            )
        self.terms = {
            "gate_opening": opening.mean(),
            "gradient_share": share,
            "student_negative": student.mean(),
            "teacher_negative": teacher.detach().nanmean(),
        }
        return loss
