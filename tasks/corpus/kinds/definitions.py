"""Definitions with the entries (words, terms) that they define, for training against entries.

A row of the table is a distinct definition (`anchor`); `entries` are all entries that the corpus
gives it, so that synonyms which share a definition are all right answers (DefSent predicts the
entry from the definition's vector). The texts of the entries stand in the table `entries`. A row of
the source may name several entries of its definition, with | between them, as WordNet's synsets do.
"""

from collections.abc import Mapping
from typing import Any

from tercet.tasks.corpus.kinds.kind import Bad, Kind, Labelled, shown

_BETWEEN = "|"


def row(values: Mapping[str, Any]) -> Labelled | Bad:
    """The definition, with its entries as the word."""
    if not values["entry"].replace(_BETWEEN, "").strip():
        return Bad("missing_text", f"the entry {shown(values['entry'])} names nothing")
    return Labelled(values["definition"], word=values["entry"])


_COMBINE = f"""
WITH words AS (
    SELECT number, anchor, trim(unnest(string_split(word, '{_BETWEEN}'))) AS word FROM read
), named AS (SELECT * FROM words WHERE word <> ''),
seen AS (SELECT anchor, word, min(number) AS earliest FROM named GROUP BY ALL),
new AS (SELECT DISTINCT earliest AS number FROM seen),
owners AS (
    SELECT anchor, list_sort(list(word)) AS entries, min(earliest) AS first FROM seen GROUP BY ALL
)
SELECT read.number, read.anchor, NULL::VARCHAR AS positive, NULL::VARCHAR AS negative, read.label,
    CASE WHEN new.number IS NULL THEN 'duplicate' WHEN read.number <> first THEN 'used'
    END AS reason,
    CASE WHEN new.number IS NULL THEN 'the same entry with the same definition' END AS detail,
    owners.entries
FROM read JOIN owners USING (anchor) LEFT JOIN new ON new.number = read.number
"""

KIND = Kind(
    texts=("entry", "definition"),
    layouts=(
        {"entry": "entry", "definition": "definition"},
        {"entry": "lemma", "definition": "definition"},
        {"entry": "word", "definition": "definition"},
        {"entry": "term", "definition": "definition"},
        {"entry": "members", "definition": "definition"},
    ),
    row=row,
    combine=_COMBINE,
)
