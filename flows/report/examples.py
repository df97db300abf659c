"""A few candidates of each method: some in a triplet, and some that are not, with the reason."""

from collections.abc import Sequence
from typing import Any

from tercet.flows.formatting import shorten
from tercet.flows.pages.blocks import Grid, Item, Items, Note, Panel, Section, Tabs
from tercet.flows.results.subject import SHIPPED, Row, Subject
from tercet.tasks.reasons import SPARE, reason_of

USED = 4
REFUSED = 6

# Ids are digests, so the smallest ids are a random sample that never changes. Shipped texts only
# fill places that the user's texts leave.
_USED = f"""
WITH {SHIPPED}, used AS (
    SELECT positive_id AS candidate_id FROM triplets WHERE positive_id IS NOT NULL
    UNION SELECT negative_id FROM triplets WHERE negative_id IS NOT NULL
), chosen AS (
    SELECT unnest(min_by(
        candidate_id, (sentence_id IN (FROM shipped), candidate_id), {USED}
    )) AS candidate_id
    FROM candidates SEMI JOIN used USING (candidate_id) GROUP BY method
)
SELECT c.method, c.role, c.text, coalesce(c.anchor, s.text) AS anchor, v.value AS similarity,
    c.detail, 'in a triplet' AS reason, NULL AS more
FROM candidates c
SEMI JOIN chosen USING (candidate_id)
LEFT JOIN sentences s USING (sentence_id)
LEFT JOIN scores v ON v.candidate_id = c.candidate_id AND v.measure = 'similarity'
ORDER BY c.method, c.sentence_id IN (FROM shipped), c.candidate_id
"""
_REFUSED = f"""
WITH {SHIPPED}, faults AS (
    SELECT c.method, r.reason,
        min_by(r.row_id, (c.sentence_id IN (FROM shipped), r.row_id), 2) AS ids
    FROM rejects r JOIN candidates c ON c.candidate_id = r.row_id
    WHERE r.stage IN ('score', 'select', 'guard') GROUP BY c.method, r.reason
), chosen AS (SELECT method, reason, unnest(ids) AS candidate_id FROM faults)
SELECT c.method, c.role, c.text, coalesce(c.anchor, s.text) AS anchor, v.value AS similarity,
    c.detail, any_value(r.stage) AS stage,
    any_value(chosen.reason) AS reason, any_value(r.detail) AS more
FROM chosen
JOIN candidates c USING (candidate_id)
JOIN rejects r ON r.row_id = chosen.candidate_id AND r.reason = chosen.reason
LEFT JOIN sentences s USING (sentence_id)
LEFT JOIN scores v ON v.candidate_id = c.candidate_id AND v.measure = 'similarity'
GROUP BY c.candidate_id, c.sentence_id, c.method, c.role, c.text, c.anchor, s.text, v.value,
    c.detail
ORDER BY c.method, c.sentence_id IN (FROM shipped), c.candidate_id
"""
_UNUSABLE = f"""
WITH {SHIPPED}, faults AS (
    SELECT g.method, r.reason,
        min_by(r.row_id, (g.sentence_id IN (FROM shipped), r.row_id), 2) AS ids
    FROM rejects r JOIN generations g ON g.generation_id = r.row_id
    WHERE r.stage = 'parse' GROUP BY g.method, r.reason
), chosen AS (SELECT method, reason, unnest(ids) AS generation_id FROM faults)
SELECT g.method, g.purpose AS role, g.raw AS text, coalesce(g.passage, s.text) AS anchor,
    NULL AS similarity, g.detail,
    any_value(r.stage) AS stage,
    any_value(chosen.reason) AS reason, any_value(r.detail) AS more
FROM chosen
JOIN generations g USING (generation_id)
JOIN rejects r ON r.row_id = chosen.generation_id AND r.reason = chosen.reason
LEFT JOIN sentences s USING (sentence_id)
GROUP BY g.generation_id, g.sentence_id, g.method, g.purpose, g.raw, g.passage, s.text, g.detail
ORDER BY g.method, g.sentence_id IN (FROM shipped), g.generation_id
"""


def examples(subjects: Sequence[Subject]) -> Section:
    """Used and unused candidates by method."""
    title = "Examples"
    if len(subjects) > 1:
        told_ids = " or ".join(f"`tercet report {subject.run_id}`" for subject in subjects)
        return Section(title, [Note(f"The report of one run shows examples: {told_ids}.")])
    (subject,) = subjects
    parameters = {"shipped": subject.shipped}
    used, refused, unusable = (
        subject.rows(query, parameters) for query in (_USED, _REFUSED, _UNUSABLE)
    )
    left = [*refused, *unusable]
    methods = sorted({(row["role"] != "positive", row["method"]) for row in [*used, *left]})
    if not methods:
        return Section(title, [Note(_NOTHING, "missing")])
    panels = []
    for method in dict.fromkeys(method for _, method in methods):
        used_items = [_item(row, "good") for row in used if row["method"] == method][:USED]
        refused = [row for row in left if row["method"] == method]
        # Rejected candidates come before candidates that were merely not needed.
        refused.sort(key=lambda row: row["reason"] in SPARE)
        sides = [
            Items(used_items, "In a triplet")
            if used_items
            else Note("None of its candidates is in a triplet.", "missing"),
            Items([_item(row, "bad") for row in refused[:REFUSED]], "Left out")
            if refused
            else Note("None of its candidates was left out.", "missing"),
        ]
        panels.append(Panel(method, [Grid(sides, least=20)]))
    lead = (
        "Choose a method. Each candidate has its anchor above and its outcome below. The examples "
        "are drawn by digest: always the same rows, and not picked by hand."
        + (" Your own texts come first." if subject.shipped else "")
    )
    return Section(title, [Tabs("Method", panels)], lead)


_NOTHING = "There are no candidates: this run has no synthesis, or it has not reached `parse` yet."


def _item(row: Row, tone: str) -> Item:
    notes = []
    more = str(row["more"] or "") if tone == "bad" else ""
    if row["similarity"] is not None and not more.startswith("similarity"):
        notes.append(f"cosine {row['similarity']:.3f}")
    if more:
        notes.append(shorten(more, 160))
    notes += _change(row["detail"])
    tag = "In a triplet"
    if tone == "bad":
        meaning = reason_of(row["reason"], row["stage"]).text
        tag = meaning[:1].upper() + meaning[1:]
    below = " · ".join(notes)
    return Item(
        shorten(row["text"]),
        f"{shorten(row['anchor'])}" if row["anchor"] else "",
        f"· {below}" if below else "",
        tone if row["reason"] not in SPARE else "spare",
        tag,
    )


def _change(detail: dict[str, Any] | None) -> list[str]:
    if not detail or not detail.get("old"):
        return []
    new = detail.get("new") or "nothing"
    pool = f" ({detail['pool']})" if detail.get("pool") else ""
    return [f"“{shorten(detail['old'], 60)}” became “{shorten(new, 60)}”{pool}"]
