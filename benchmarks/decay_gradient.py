"""What GCSE's Gaussian decay lets through of the gradient on a row's own hard negative.

    python benchmarks/decay_gradient.py

One setting, made of vectors that have exactly these cosines with the anchor: the row's positive
0.85, the 254 other texts of a batch of 128 rows 0.2; the teacher's cosine of the hard negative is
0.70, tau 0.05. The student's cosine of it falls below the teacher's by more and more. Prints the
gradient on its logit without decay, and the share that is left with decay, of each sigma (in
cosine) and each constant part (`detach`).
"""

import math

import torch

from tercet.models.losses.gaussian_decay import Detach, gaussian_decay_loss

ROWS, TAU = 128, 0.05
POSITIVE, TEACHER, OTHERS = 0.85, 0.70, 0.2
SIGMAS = (0.0085, 0.01, 0.04, 0.2)
APART = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.4, 0.5)
FORMS: tuple[Detach, ...] = ("opening", "term")


def vectors(cosine: float, place: int) -> torch.Tensor:
    """A text of each row, (ROWS, 1 + 3 ROWS): this cosine with its own anchor, OTHERS with others.

    place: which dimensions of its own take what is left of its length, 1 or 2.
    """
    found = torch.zeros(ROWS, 1 + 3 * ROWS, dtype=torch.float64)
    own = (cosine - OTHERS) / (1 - OTHERS) ** 0.5
    found[:, 0] = OTHERS**0.5
    found[:, 1 : 1 + ROWS] = torch.eye(ROWS) * own
    left = torch.eye(ROWS) * max(1 - OTHERS - own**2, 0.0) ** 0.5
    found[:, 1 + place * ROWS : 1 + (place + 1) * ROWS] += left
    return found


def main() -> None:
    """Prints a table of each form."""
    anchor, positive = vectors(1.0, 1), vectors(POSITIVE, 1)
    teacher = torch.full((ROWS,), TEACHER, dtype=torch.float64)
    for form in FORMS:
        print(f"\n`detach: {form}`\n")
        print(f"| below the teacher | without decay | {' | '.join(f'σ {s}' for s in SIGMAS)} |")
        print("|" + "---|" * (2 + len(SIGMAS)))
        for apart in APART:
            negative = vectors(TEACHER - apart, 2)
            cells = [f"{apart:g}", f"{plain(TEACHER - apart):.2g}"]
            for sigma in SIGMAS:
                found = gaussian_decay_loss(
                    anchor, positive, negative, teacher, TAU, sigma, detach=form
                )
                share = float(found[3])
                cells.append(f"{share:.2g}" if share > 1e-12 else "0")
            print(f"| {' | '.join(cells)} |")


def plain(cosine: float) -> float:
    """The hard negative's share of its row's sum, which is the gradient on its logit."""
    others = (2 * ROWS - 2) * math.exp(OTHERS / TAU)
    own = math.exp(cosine / TAU)
    return own / (own + math.exp(POSITIVE / TAU) + others)


if __name__ == "__main__":
    main()
