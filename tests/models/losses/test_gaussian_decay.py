"""The Gaussian-decayed loss against a literal reference, row by row, in float64."""

import math

import pytest
import torch
from torch import Tensor

from tercet.models.losses.gaussian_decay import GaussianDecayLoss, gaussian_decay_loss
from tercet.models.losses.registry import GaussianDecay

TAU, SIGMA, ROWS, DIMENSION = 0.05, 0.04, 5, 8
FORMS = ("opening", "term", "none")


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b) / (a.norm() * b.norm())


def literal(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    teacher: Tensor,
    sigma: float,
    gate: str,
    detach: str,
    students: Tensor | None = None,
    tau: float = TAU,
) -> Tensor:
    """The formula as it is written, one row and one term at a time.

    students: the own negatives' cosines; None: as the vectors have them.
    """
    losses = []
    for i in range(len(anchor)):
        student = cosine(anchor[i], negative[i]) if students is None else students[i]
        u_own = student / tau
        # Eq. 13 with cosines over tau in both places: tau cancels in the exponent.
        moved = (student if detach == "none" else student.detach()) - teacher[i]
        bell = torch.exp(-((moved / tau) ** 2) * tau**2 / (2 * sigma**2)) if sigma else 0 * moved
        above = gate == "one_sided" and float(student.detach()) > float(teacher[i])
        if above or math.isnan(float(teacher[i])):
            bell = torch.zeros_like(student)
        taken = u_own * bell
        total = torch.exp(u_own - (taken.detach() if detach == "term" else taken))
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


def negative_slope(anchor: Tensor, negative: Tensor) -> Tensor:
    """The gradient of their cosines' sum at the negative."""
    leaf = negative.clone().requires_grad_()
    torch.nn.functional.cosine_similarity(anchor, leaf).sum().backward()
    return leaf.grad  # type: ignore[return-value]


def with_gradients(function: object, vectors: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    leaves = [v.clone().requires_grad_() for v in vectors]
    loss = function(*leaves)  # type: ignore[operator]
    loss.backward()
    return loss.detach(), [leaf.grad for leaf in leaves]  # type: ignore[misc]


@pytest.mark.parametrize("delta", [0.01, -0.01, 0.06, -0.06])
@pytest.mark.parametrize("gate", ["symmetric", "one_sided"])
@pytest.mark.parametrize("detach", FORMS)
@pytest.mark.parametrize("sigma", [SIGMA, 0.01, 0.0])
def test_equals_the_literal_reference_with_gradients(
    delta: float, gate: str, detach: str, sigma: float
) -> None:
    vectors = batch()
    # student - teacher = delta in every row
    teacher = student_cosines(vectors) - delta
    ours = with_gradients(
        lambda a, p, n: gaussian_decay_loss(a, p, n, teacher, TAU, sigma, gate, detach)[0],  # type: ignore[arg-type]
        vectors,
    )
    reference = with_gradients(
        lambda a, p, n: literal(a, p, n, teacher, sigma, gate, detach), vectors
    )
    torch.testing.assert_close(ours[0], reference[0], rtol=1e-12, atol=1e-12)
    for mine, theirs in zip(ours[1], reference[1], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("detach", FORMS)
def test_at_the_teacher_the_own_negative_counts_one(detach: str) -> None:
    """G = 0: e^0 = 1 stands in the sum, whose share is the own negative's gradient with `term`."""
    vectors = [v[:1] for v in batch()]
    teacher = student_cosines(vectors)
    (loss, gradients) = with_gradients(
        lambda a, p, n: gaussian_decay_loss(a, p, n, teacher, TAU, SIGMA, detach=detach)[0],  # type: ignore[arg-type]
        vectors,
    )
    positive = math.exp(float(cosine(vectors[0][0], vectors[1][0])) / TAU)
    assert float(loss) == pytest.approx(-math.log(positive / (positive + 1.0)), rel=1e-12)
    pushed = negative_slope(vectors[0], vectors[2]) / TAU / (positive + 1.0)
    expected = pushed if detach == "term" else torch.zeros_like(pushed)
    torch.testing.assert_close(gradients[2], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("detach", FORMS)
@pytest.mark.parametrize("gate", ["symmetric", "one_sided"])
def test_the_share_of_gradient_is_that_of_the_loss_itself(detach: str, gate: str) -> None:
    """Against the slope of the literal loss as each own negative's cosine alone is moved."""
    vectors = batch()
    teacher = student_cosines(vectors) - torch.tensor([0.005, -0.02, 0.06, -0.1, torch.nan])

    def slopes(sigma: float) -> Tensor:
        students = student_cosines(vectors).requires_grad_()
        literal(*vectors, teacher, sigma, gate, detach, students).backward()
        assert students.grad is not None
        return students.grad

    expected = slopes(SIGMA).sum() / slopes(0.0).sum()
    share = gaussian_decay_loss(*vectors, teacher, TAU, SIGMA, gate, detach)[3]  # type: ignore[arg-type]
    assert float(share) == pytest.approx(float(expected), rel=1e-9)


def test_the_authors_form_by_numbers_written_out() -> None:
    """Eqs. 12-13 of two rows, with the gate open above the teacher and a constant taken off below.

    Row 0 is 0.01 below its teacher's 0.71: 1 - exp(-0.01^2 / (2 * 0.0085^2)) = 0.499447 of its
    logit, 14, counts. Row 1 is above its teacher's 0.55, and all of its logit, 12, counts.
    """
    to_positives, to_negatives = [[0.9, 0.1], [0.2, 0.8]], [[0.70, 0.25], [0.30, 0.60]]
    anchor = torch.eye(6, dtype=torch.float64)[:2]

    def beside(cosines: list[list[float]], place: int) -> Tensor:
        """Unit vectors with these cosines to the anchors."""
        vectors = torch.zeros(2, 6, dtype=torch.float64)
        for row, (first, second) in enumerate(zip(*cosines, strict=True)):
            vectors[row, 0], vectors[row, 1] = first, second
            vectors[row, place + row] = math.sqrt(1 - first**2 - second**2)
        return vectors

    positive, negative = beside(to_positives, 2), beside(to_negatives, 4)
    teacher = torch.tensor([0.71, 0.55], dtype=torch.float64)
    loss, gradients = with_gradients(
        lambda a, p, n: gaussian_decay_loss(a, p, n, teacher, 0.05, 0.0085, "one_sided", "term")[0],
        [anchor, positive, negative],
    )
    # Mean of log(1 + (e^2 + e^5 + e^6.992256) / e^18) and log(1 + (e^4 + e^6 + e^12) / e^16).
    assert float(loss) == pytest.approx(0.009109744622239782, rel=1e-9)
    # By the cosine of each negative to both anchors: half its share of the anchor's sum, over 0.05.
    slopes = [
        [0.00016572550223780687, 0.00044581100529345595],
        [2.2602865842044544e-05, 0.17985299599132212],
    ]
    for row, vector in enumerate(negative):
        parts = [slopes[row][k] * (anchor[k] - to_negatives[k][row] * vector) for k in range(2)]
        torch.testing.assert_close(gradients[2][row], parts[0] + parts[1], rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize(("sigmas_away", "opening"), [(1, 0.393469), (2, 0.864665), (3, 0.988891)])
def test_opening_at_one_two_three_sigmas(sigmas_away: int, opening: float) -> None:
    vectors = batch()
    teacher = student_cosines(vectors) + sigmas_away * SIGMA
    opened = gaussian_decay_loss(*vectors, teacher, TAU, SIGMA)[2]
    assert opened.tolist() == pytest.approx([opening] * ROWS, abs=1e-6)


def test_a_row_without_a_teacher_has_no_decay() -> None:
    vectors = batch()
    teacher = student_cosines(vectors)
    teacher[2] = torch.nan
    loss, gradients = with_gradients(
        lambda a, p, n: gaussian_decay_loss(a, p, n, teacher, TAU, SIGMA, detach="none")[0], vectors
    )
    opening = gaussian_decay_loss(*vectors, teacher, TAU, SIGMA)[2]
    assert opening[2] == 1.0
    assert float(opening[[0, 1, 3, 4]].max()) < 1e-9
    assert torch.isfinite(loss)
    assert all(bool(torch.isfinite(g).all()) for g in gradients)


class Lookup(torch.nn.Module):
    """Stands for an encoder: the features are the vectors."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"sentence_embedding": features["vectors"]}


def test_the_module_reports_the_batchs_means() -> None:
    vectors = batch()
    student = student_cosines(vectors)
    params = GaussianDecay(tau=TAU, sigma_cosine=SIGMA)
    loss = GaussianDecayLoss(Lookup(), params, {})
    features = [{"vectors": v} for v in vectors]
    value = loss(features, student + SIGMA)
    assert float(value) == pytest.approx(
        float(gaussian_decay_loss(*vectors, student + SIGMA, TAU, SIGMA)[0]), rel=1e-5
    )
    assert loss.terms["gate_opening"] == pytest.approx(0.393469, abs=1e-4)
    share = gaussian_decay_loss(*vectors, student + SIGMA, TAU, SIGMA)[3]
    assert loss.terms["gradient_share"] == pytest.approx(float(share), rel=1e-4)
    assert loss.terms["student_negative"] == pytest.approx(float(student.mean()), abs=1e-5)
    assert loss.terms["teacher_negative"] == pytest.approx(float(student.mean()) + SIGMA, abs=1e-5)
    assert not any(term.requires_grad for term in loss.terms.values())
    # Of rows with a teacher's cosine alone, and nan where there is none.
    teacher = student + SIGMA
    teacher[1:] = torch.nan
    loss(features, teacher)
    assert loss.terms["teacher_negative"] == pytest.approx(float(teacher[0]), abs=1e-5)
    loss(features, None)
    assert torch.isnan(loss.terms["teacher_negative"])


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"tau": 0.0}, "tau"),
        ({"sigma_cosine": -0.1}, "sigma_cosine"),
        ({"gate": "open"}, "one_sided"),
        ({"detach": True}, "opening"),
    ],
)
def test_arguments_out_of_range(arguments: dict[str, object], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        GaussianDecay(**arguments)  # type: ignore[arg-type]


def test_two_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        GaussianDecayLoss(Lookup(), GaussianDecay(), {})(
            [{"vectors": v} for v in batch()[:2]], None
        )
