"""How often a drawn positive is a generated text, as the recipe means it to be, and why not more.

A sentence without such a text draws among the other operations, so that a generator whose texts are
refused trains hardly anything, without an error.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import duckdb

# Below this part of what is meant, the reasons are told.
_ENOUGH = 0.9
_REASONS = 4

_SHARE = """
SELECT avg((operation = 'generated')::INTEGER), count(DISTINCT sentence_id),
    count(DISTINCT sentence_id) FILTER (operation = 'generated')
FROM drawn_pairs WHERE phase = $phase AND part = $part
HAVING count(*) > 0
"""
# A generation is known to `parse` by its own id, and to the stages after it by its candidate's.
_TEXTS = """
WITH texts AS (
    SELECT generation_id, any_value(candidate_id) AS candidate_id
    FROM generations LEFT JOIN candidates USING (generation_id)
    WHERE generations.purpose = 'positive' AND generations.relation = 'keeps'
    GROUP BY generation_id
), refused AS (
    SELECT row_id, stage = 'parse' AS parsed, any_value(reason) AS reason
    FROM rejects GROUP BY ALL
)
SELECT coalesce(unparsed.reason, later.reason) AS reason, count(*) AS texts
FROM texts
LEFT JOIN refused unparsed ON unparsed.parsed AND unparsed.row_id = generation_id
LEFT JOIN refused later ON NOT later.parsed AND later.row_id = texts.candidate_id
GROUP BY ALL ORDER BY texts DESC, reason
"""


def describe_draws(
    connection: duckdb.DuckDBPyConnection, recipe: Mapping[str, Any]
) -> Iterator[str]:
    """A sentence for each part that draws generated texts. recipe: as the run has recorded it."""
    for phase, part, meant in _meant(recipe):
        names = {"phase": phase, "part": part}
        row = connection.execute(_SHARE, names).fetchone()
        if row is None:
            continue
        share, sentences, rewritten = row
        said = f"{phase}: {share:.1%} of the drawn positives are generated texts"
        if share >= _ENOUGH * meant:
            yield f"{said}, as the shares of draw mean it."
            continue
        counts = dict(connection.execute(_TEXTS).fetchall())
        written, kept = sum(counts.values()), counts.pop(None, 0)
        said += (
            f", where the shares of draw mean {meant:.1%}: {rewritten:,} of {sentences:,} "
            f"sentences drew one. Of {written:,} texts that should keep the meaning {kept:,} are "
            "accepted"
        )
        if not counts:
            yield f"{said}: raise per_unit or per_sentence, or list more methods under synthesise."
            continue
        listed = ", ".join(f"{why} {count:,}" for why, count in [*counts.items()][:_REASONS])
        yield (
            f"{said} ({listed}): SELECT reason, detail, text FROM rejects WHERE reason = "
            f"'{next(iter(counts))}' shows some."
        )


def _meant(recipe: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Phase, part and meant share of generated texts, where there is one."""
    for phase in (recipe.get("train") or {}).get("phases") or []:
        for part in phase.get("parts") or []:
            draw = (part.get("rows") or {}).get("draw")
            if draw and draw.get("generated"):
                yield phase["name"], part["name"], draw["generated"] / sum(draw.values())
