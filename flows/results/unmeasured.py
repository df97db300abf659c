"""Measures that the recipe asks for and that were not made, each with its reason."""

import duckdb

from tercet.flows.recipe.model import Recipe

# Those of a whole measure concern no row. Of a split, `text` has its name.
_SAID = """
SELECT DISTINCT stage, reason, detail, text FROM rejects
WHERE row_id IS NULL AND stage IN ('halves', 'labels', 'awareness', 'evaluate', 'define')
    AND reason <> 'no_document' -- a warning
ORDER BY ALL
"""
_OF_A_SPLIT = ("no_halves", "no_pairs", "no_texts")


def describe_unmeasured(connection: duckdb.DuckDBPyConnection, recipe: Recipe) -> list[str]:
    """A sentence for each measure; of a split only where the recipe measures on it."""
    found = connection.execute(_SAID).fetchall()
    pairs = connection.execute("SELECT count(*) FROM document_pairs").fetchall()[0][0]
    # A corpus without pairs has none to be found, and nobody asked for them.
    paired = bool(pairs) or any(corpus.query is not None for corpus in recipe.corpora)
    return [
        f"Not measured: {detail}."
        for _, reason, detail, text in found
        if (reason not in _OF_A_SPLIT or text in recipe.evaluate.splits)
        and (reason != "no_pairs" or paired)
    ]
