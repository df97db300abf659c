"""Definitions with the entries (words, terms) that they define, for training against entries.

A row of the table is a distinct definition (`anchor`); `entries` are all entries that the corpus
gives it, so that synonyms which share a definition are all right answers (DefSent predicts the
entry from the definition's vector). The texts of the entries stand in the table `entries`.
"""

from collections.abc import Mapping
from typing import Any

from tercet.tasks.corpus.kinds.kind import Bad, Kind, Labelled


def row(values: Mapping[str, Any]) -> Labelled | Bad:
    """The definition, with its entry as the word."""
    return Labelled(values["definition"], word=values["entry"])


_COMBINE = """
WITH owned AS (
    SELECT *, row_number() OVER (PARTITION BY anchor, word ORDER BY number) AS nth,
        min(number) OVER (PARTITION BY anchor) AS first
    FROM read
), owners AS (SELECT anchor, list_sort(list(DISTINCT word)) AS entries FROM read GROUP BY anchor)
SELECT owned.number, owned.anchor, NULL::VARCHAR AS positive, NULL::VARCHAR AS negative,
    owned.label,
    CASE WHEN nth > 1 THEN 'duplicate' WHEN number <> first THEN 'used' END AS reason,
    CASE WHEN nth > 1 THEN 'the same entry with the same definition' END AS detail,
    owners.entries
FROM owned JOIN owners USING (anchor)
"""

KIND = Kind(
    texts=("entry", "definition"),
    layouts=(
        {"entry": "entry", "definition": "definition"},
        {"entry": "lemma", "definition": "definition"},
        {"entry": "word", "definition": "definition"},
        {"entry": "term", "definition": "definition"},
    ),
    row=row,
    combine=_COMBINE,
)
