"""Definitions with the entries (words, terms) that they define, for training against entries.

A row of the table is a distinct definition (`anchor`); `entries` are all entries that the corpus
gives it, so that synonyms which share a definition are all right answers (DefSent predicts the
entry from the definition's vector). Definitions that differ in case and in the punctuation around
their words alone are the same, in the first one's spelling; signs tell them apart ("x1 == x2" and
"x1 != x2", "-1" and "1"). The texts of the entries stand in the table `entries`. A row of
the source may name several entries of its definition, and several definitions of its entries: as
lists, or the entries in one text with | between them.
"""

from collections.abc import Mapping
from typing import Any

from tercet.tasks.corpus.kinds.kind import Bad, Kind, Labelled, shown

_BETWEEN = "|"
# Folded texts hold no control characters.
_SEPARATOR = "\x1f"


def row(values: Mapping[str, Any]) -> list[Labelled] | Bad:
    """Each of the definitions, with their entries as the word."""
    given, definitions = values["entry"], values["definition"]
    entries = given.split(_BETWEEN) if isinstance(given, str) else given
    named = [entry.strip() for entry in entries if entry.strip()]
    if not named:
        return Bad("missing_text", f"the entry {shown(given)} names nothing")
    word = _SEPARATOR.join(named)
    texts = [definitions] if isinstance(definitions, str) else definitions
    return [Labelled(text, word=word) for text in texts]


def _same(column: str) -> str:
    """SQL for a definition without case, hyphens in words and punctuation around them."""
    said = rf"regexp_replace(lower({column}), '(\p{{L}})-(\p{{L}})', '\1 \2', 'g')"
    opening, closing = r"""(^|\s)["''(\[{“‘«]+""", r"""[.,;:?!"'')\]}”’»…]+(\s|$)"""
    for marks in (opening, closing):
        said = f"regexp_replace({said}, '{marks}', ' ', 'g')"
    return rf"trim(regexp_replace({said}, '\s+', ' ', 'g'))"


_COMBINE = f"""
WITH told AS (
    SELECT *, coalesce(nullif({_same("anchor")}, ''), anchor) AS said FROM read
), words AS (
    SELECT number, said, unnest(string_split(word, chr({ord(_SEPARATOR)}))) AS word FROM told
),
seen AS (SELECT said, word, min(number) AS earliest FROM words GROUP BY ALL),
new AS (SELECT DISTINCT earliest AS number FROM seen),
owners AS (
    SELECT said, list_sort(list(word)) AS entries, min(earliest) AS first FROM seen GROUP BY ALL
)
SELECT told.number, anchor, NULL::VARCHAR AS positive, NULL::VARCHAR AS negative, label,
    CASE WHEN new.number IS NULL THEN 'duplicate' WHEN told.number <> first THEN 'used'
    END AS reason,
    CASE WHEN new.number IS NULL THEN 'the same entry with the same definition' END AS detail,
    owners.entries
FROM told JOIN owners USING (said) LEFT JOIN new ON new.number = told.number
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
    lists=("entry", "definition"),
    combine=_COMBINE,
)
