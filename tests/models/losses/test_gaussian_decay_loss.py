"""The Gaussian-decayed loss against a literal reference, row by row, in float64."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tercet.models.losses.gaussian_decay_loss import GaussianDecayLoss, gaussian_decay_loss

TAU, WIDTH, ROWS, DIMENSION = 0.05, 0.04, 5, 8


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b) / (a.norm() * b.norm())


def literal(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    teacher: Tensor,
    width: float,
    gate: str,
    detach: bool,
    tau: float = TAU,
) -> Tensor:
    """The formula as it is written, one row and one term at a time."""
    losses = []
    for i in range(len(anchor)):
        student = cosine(anchor[i], negative[i])
        u_own = student / tau
        moved = (student.detach() if detach else student) - teacher[i]
        factor = 1 - torch.exp(-(moved**2) / (2 * width**2)) if width else torch.tensor(1.0)
        if gate == "one_sided" and float(student.detach()) > float(teacher[i]):
            factor = torch.tensor(1.0, dtype=anchor.dtype)
        total = torch.exp(u_own * factor)
        for j in range(len(anchor)):
            total = total + torch.exp(cosine(anchor[i], positive[j]) / tau)
            if j != i:
                total = total + torch.exp(cosine(anchor[i], negative[j]) / tau)
        losses.append(-torch.log(torch.exp(cosine(anchor[i], positive[i]) / tau) / total))
    return torch.stack(losses).mean()


def batch(seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    anchor = torch.randn(ROWS, DIMENSION, generator=generator, dtype=torch.float64)
    near = [anchor + 0.6 * torch.randn(anchor.shape, generator=generator) for _ in range(2)]
    return [anchor, *near]


def student_cosines(vectors: list[Tensor]) -> Tensor:
    return torch.nn.functional.cosine_similarity(vectors[0], vectors[2])


def with_gradients(function: object, vectors: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    leaves = [v.clone().requires_grad_() for v in vectors]
    loss = function(*leaves)  # type: ignore[operator]
    loss.backward()
    return loss.detach(), [leaf.grad for leaf in leaves]  # type: ignore[misc]


@pytest.mark.parametrize("delta", [0.01, -0.01, 0.06, -0.06])
@pytest.mark.parametrize("gate", ["symmetric", "one_sided"])
@pytest.mark.parametrize("detach", [True, False])
def test_equals_the_literal_reference_with_gradients(delta: float, gate: str, detach: bool) -> None:
    vectors = batch()
    # student - teacher = delta in every row
    teacher = student_cosines(vectors) - delta
    ours = with_gradients(
        lambda a, p, n: gaussian_decay_loss(a, p, n, teacher, TAU, WIDTH, gate, detach)[0],  # type: ignore[arg-type]
        vectors,
    )
    reference = with_gradients(
        lambda a, p, n: literal(a, p, n, teacher, WIDTH, gate, detach), vectors
    )
    torch.testing.assert_close(ours[0], reference[0], rtol=1e-12, atol=1e-12)
    for mine, theirs in zip(ours[1], reference[1], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def test_the_gates_differ_only_above_the_teacher() -> None:
    vectors = batch()
    for delta, same in ((-0.06, True), (0.06, False)):
        teacher = student_cosines(vectors) - delta
        both = [
            gaussian_decay_loss(*vectors, teacher, TAU, WIDTH, gate)[0]
            for gate in ("symmetric", "one_sided")
        ]
        assert torch.equal(both[0], both[1]) == same


@pytest.mark.parametrize("detach", [True, False])
def test_at_the_teacher_the_own_negative_counts_one(detach: bool) -> None:
    """G = 0: e^0 = 1 stands in the sum, and the own negative gets no gradient of its own."""
    vectors = [v[:1] for v in batch()]
    teacher = student_cosines(vectors)
    (loss, gradients) = with_gradients(
        lambda a, p, n: gaussian_decay_loss(a, p, n, teacher, TAU, WIDTH, detach=detach)[0],
        vectors,
    )
    positive = math.exp(float(cosine(vectors[0][0], vectors[1][0])) / TAU)
    assert float(loss) == pytest.approx(-math.log(positive / (positive + 1.0)), rel=1e-12)
    assert float(gradients[2].abs().max()) < 1e-9


@pytest.mark.parametrize("gate", ["symmetric", "one_sided"])
def test_width_to_zero_is_the_plain_triplet_loss(gate: str) -> None:
    vectors = batch()
    teacher = student_cosines(vectors) + 0.01
    a, p, n = (torch.nn.functional.normalize(v, dim=-1) for v in vectors)
    logits = torch.cat([a @ p.T, a @ n.T], dim=1) / TAU
    plain = torch.nn.functional.cross_entropy(logits, torch.arange(ROWS))
    for width in (0.0, 1e-4):
        loss, _, opening = gaussian_decay_loss(*vectors, teacher, TAU, width, gate)  # type: ignore[arg-type]
        torch.testing.assert_close(loss, plain, rtol=1e-12, atol=1e-12)
        assert float(opening.min()) == 1.0


def test_undetached_turns_the_gradient_near_the_teacher() -> None:
    """Teacher 0.75, student 0.73: pushed towards the teacher instead of away from the anchor."""

    def slope(detach: bool) -> float:
        c = torch.tensor(0.73, dtype=torch.float64, requires_grad=True)
        anchor = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
        positive = torch.tensor([[0.8, 0.6]], dtype=torch.float64)
        negative = torch.stack([c, torch.sqrt(1 - c**2)])[None]
        teacher = torch.tensor([0.75], dtype=torch.float64)
        gaussian_decay_loss(anchor, positive, negative, teacher, 0.05, 0.01, detach=detach)[
            0
        ].backward()
        return float(c.grad)  # type: ignore[arg-type]

    assert slope(detach=True) > 0 > slope(detach=False)


@pytest.mark.parametrize(("widths_away", "opening"), [(1, 0.393469), (2, 0.864665), (3, 0.988891)])
def test_opening_at_one_two_three_widths(widths_away: int, opening: float) -> None:
    vectors = batch()
    teacher = student_cosines(vectors) + widths_away * WIDTH
    opened = gaussian_decay_loss(*vectors, teacher, TAU, WIDTH)[2]
    assert opened.tolist() == pytest.approx([opening] * ROWS, abs=1e-6)


def test_a_row_without_a_teacher_has_no_decay() -> None:
    vectors = batch()
    teacher = student_cosines(vectors)
    teacher[2] = torch.nan
    loss, gradients = with_gradients(
        lambda a, p, n: gaussian_decay_loss(a, p, n, teacher, TAU, WIDTH, detach=False)[0], vectors
    )
    opening = gaussian_decay_loss(*vectors, teacher, TAU, WIDTH)[2]
    assert opening[2] == 1.0
    assert float(opening[[0, 1, 3, 4]].max()) < 1e-9
    assert torch.isfinite(loss)
    assert all(bool(torch.isfinite(g).all()) for g in gradients)


@given(
    seed=st.integers(0, 1000),
    width=st.floats(0.005, 0.5),
    delta=st.floats(-0.5, 0.5),
    scale=st.floats(0.1, 30.0),
)
@settings(max_examples=40, deadline=None)
def test_vector_lengths_do_not_matter_and_decay_never_adds(
    seed: int, width: float, delta: float, scale: float
) -> None:
    vectors = batch(seed)
    teacher = student_cosines(vectors) + delta
    decayed = gaussian_decay_loss(*vectors, teacher, TAU, width)
    scaled = gaussian_decay_loss(*(v * scale for v in vectors), teacher, TAU, width)
    torch.testing.assert_close(decayed[0], scaled[0], rtol=1e-9, atol=1e-9)
    plain = gaussian_decay_loss(*vectors, teacher, TAU, 0.0)
    if bool((decayed[1] > 0).all()):  # a negative cosine is raised towards e^0 instead
        assert float(decayed[0]) <= float(plain[0]) + 1e-12


class Lookup(torch.nn.Module):
    """Stands for an encoder: the features are the vectors."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"sentence_embedding": features["vectors"]}


def test_the_module_reports_the_batchs_means() -> None:
    vectors = batch()
    student = student_cosines(vectors)
    loss = GaussianDecayLoss(Lookup(), TAU, WIDTH)
    features = [{"vectors": v} for v in vectors]
    value = loss(features, student + WIDTH)
    assert float(value) == pytest.approx(
        float(gaussian_decay_loss(*vectors, student + WIDTH, TAU, WIDTH)[0]), rel=1e-5
    )
    assert loss.terms["gate_opening"] == pytest.approx(0.393469, abs=1e-4)
    assert loss.terms["student_negative"] == pytest.approx(float(student.mean()), abs=1e-5)
    assert loss.terms["teacher_negative"] == pytest.approx(float(student.mean()) + WIDTH, abs=1e-5)
    assert not any(term.requires_grad for term in loss.terms.values())
    # Of rows with a teacher's cosine alone, and nan where there is none.
    teacher = student + WIDTH
    teacher[1:] = torch.nan
    loss(features, teacher)
    assert loss.terms["teacher_negative"] == pytest.approx(float(teacher[0]), abs=1e-5)
    loss(features, None)
    assert torch.isnan(loss.terms["teacher_negative"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({"tau": 0.0}, "tau"), ({"width": -0.1}, "width"), ({"gate": "open"}, "one_sided")],
)
def test_arguments_out_of_range(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        GaussianDecayLoss(Lookup(), **arguments)  # type: ignore[arg-type]


def test_two_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="anchor, positive and negative"):
        GaussianDecayLoss(Lookup())([{"vectors": v} for v in batch()[:2]], None)
