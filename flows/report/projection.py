"""The evaluator's space in two dimensions: anchors and their candidates, by t-SNE."""

import time
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tercet.flows.pages import spaces
from tercet.flows.pages.blocks import Block, Chart
from tercet.flows.results.subject import SHIPPED, Row, Subject, of_each_run

MOST_POINTS = 1_500
ANCHORS = 400
FEWEST = 12
STEPS = 600
SEED = 42
_SHAPES = {"positive": "triangle-up", "negative": "square"}

# Sentence ids are digests, so the smallest are a random sample of anchors, the user's own first.
# Each text occurs once.
_POINTS = f"""
WITH {SHIPPED}, chosen AS (
    SELECT sentence_id FROM candidates WHERE method <> 'random' GROUP BY sentence_id
    ORDER BY sentence_id IN (FROM shipped), sentence_id LIMIT {ANCHORS}
), texts AS (
    SELECT s.sentence_id AS text_id, s.sentence_id, 'source' AS method, 'source' AS role, s.text
    FROM sentences s SEMI JOIN chosen USING (sentence_id)
    UNION ALL
    SELECT md5_number_lower(c.text), c.sentence_id, c.method, c.role, c.text
    FROM candidates c SEMI JOIN chosen USING (sentence_id) WHERE c.method <> 'random'
), once AS (
    SELECT text_id, any_value(text) AS text, min((role <> 'source', method)) AS told,
        min(role) FILTER (role <> 'source') AS role, min(sentence_id) AS sentence_id
    FROM texts GROUP BY text_id ORDER BY sentence_id, told LIMIT {MOST_POINTS}
)
SELECT struct_extract_at(told, 2) AS method,
    CASE WHEN struct_extract_at(told, 1) THEN role ELSE 'source' END AS role,
    left(text, 110) AS text, vector
FROM once JOIN embeddings USING (text_id)
ORDER BY text_id
"""


@of_each_run(
    "Sources and candidates",
    "Too few sources and candidates are embedded: the stage `embed` writes the vectors that this "
    "projection needs.",
    "Texts that are close in the evaluator's space are close here. Negatives right next to their "
    "source teach little; those far from every source are easy.",
)
def candidate_map(subject: Subject) -> list[Block]:
    """Sources and candidates by method."""
    rows = [
        row
        for row in subject.rows(_POINTS, {"shipped": subject.shipped})
        if np.isfinite(row["vector"]).all()
    ]
    sources = sum(row["role"] == "source" for row in rows)
    # Queries are left out: their passages have no vectors here.
    if len(rows) < FEWEST or not sources:
        return []
    began = time.monotonic()
    places = _project(np.array([row.pop("vector") for row in rows], dtype=np.float32))
    seconds = time.monotonic() - began
    points: list[Row] = [
        {**row, "x": round(float(x), 2), "y": round(float(y), 2)}
        for row, (x, y) in zip(rows, places, strict=True)
    ]
    names = legend(points)
    counts = ", ".join(f"{name['method']} {name['count']}" for name in names)
    caption = (
        f"{len(points):,} texts of {sources:,} sources, drawn by digest; t-SNE of the evaluator's "
        f"vectors, {seconds:.1f} s. Circles: sources, triangles: positives, squares: negatives. "
        "Point at one to read it."
    )
    return [Chart(spaces.cloud(points, names), caption, f"Texts in the plane by method: {counts}.")]


def legend(points: Sequence[Row]) -> list[Row]:
    """Each method with its own colour and shape, sources first."""
    totals = Counter((point["role"], point["method"]) for point in points)
    names: list[Row] = []
    counts = {"positive": 0, "negative": 0}
    for (role, method), count in sorted(totals.items(), key=lambda e: (e[0][0] != "source", e[0])):
        if role == "source":
            names.append(
                {"method": method, "colour": "var(--c8)", "shape": "circle", "count": count}
            )
            continue
        counts[role] += 1
        # Seven colours; positives and negatives count from opposite ends and differ in shape.
        place = (counts[role] - 1) % 7 if role == "positive" else 6 - (counts[role] - 1) % 7
        colour = f"var(--c{place + 1})"
        names.append({"method": method, "colour": colour, "shape": _SHAPES[role], "count": count})
    return names


def _project(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Two coordinates per text."""
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    places = TSNE(
        perplexity=perplexity,
        init="pca",
        max_iter=STEPS,
        metric="cosine",
        random_state=SEED,
        n_jobs=1,
    ).fit_transform(vectors)
    return np.asarray(places, dtype=np.float32)
