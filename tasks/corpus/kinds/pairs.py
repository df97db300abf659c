"""Two texts that belong together, or pairs of natural language inference (NLI) with their class.

Without a class column every row is a positive pair (questions and answers, duplicates). With one,
as SNLI and MNLI have it, a premise with a hypothesis of each class gives one triplet, which is how
supervised SimCSE uses NLI; the table `labelled` tells what becomes of others.
"""

from collections.abc import Mapping
from typing import Any

from tercet.tasks.corpus.kinds.kind import Bad, Kind, Labelled, number, shown

_CLASSES = ("entailment", "neutral", "contradiction")


def row(values: Mapping[str, Any]) -> Labelled | Bad:
    """The pair, with its class as the word where there is a class column."""
    anchor, positive = values["anchor"], values["positive"]
    if "label" not in values:
        return Labelled(anchor, positive)
    given = values["label"]
    word = given.strip().lower() if isinstance(given, str) else ""
    if word in _CLASSES:
        return Labelled(anchor, positive, word=word)
    place = number(given)
    if place in (0, 1, 2):
        return Labelled(anchor, positive, word=_CLASSES[int(place)])
    return Bad("bad_label", f"{shown(given)} is none of {', '.join(_CLASSES)}, nor 0, 1 or 2")


# Each pair's first row among those of its class, numbered within premise and class; then the other
# rows, and pairs of several classes. Of a kept row {positive} and {negative}; {reasons} and
# {details} why contradictions go that no entailment took.
COMBINE = """
WITH said AS (
    SELECT *, row_number() OVER (PARTITION BY anchor, positive, word ORDER BY number) AS again,
        coalesce(min(word) OVER (PARTITION BY anchor, positive)
            <> max(word) OVER (PARTITION BY anchor, positive), false) AS unclear
    FROM read
), classed AS (
    SELECT *, row_number() OVER (PARTITION BY anchor, word ORDER BY number) - 1 AS nth,
        count(*) FILTER (word = 'entailment') OVER (PARTITION BY anchor) AS entailed,
        count(*) FILTER (word = 'contradiction') OVER (PARTITION BY anchor) AS denied
    FROM said WHERE again = 1 AND NOT unclear
), denial AS (
    SELECT anchor, nth, positive FROM classed WHERE word = 'contradiction'
)
SELECT one.number, one.anchor, {positive} AS positive, {negative} AS negative, one.label,
    CASE
        WHEN one.word = 'neutral' THEN 'neutral'
        WHEN one.word = 'contradiction' AND one.nth < one.entailed THEN 'used'
        {reasons}
    END AS reason,
    CASE WHEN one.word = 'neutral' THEN 'the hypothesis neither follows nor contradicts' {details}
    END AS detail,
    NULL::VARCHAR[] AS entries
FROM classed one LEFT JOIN denial
    ON one.word = 'entailment' AND denial.anchor = one.anchor
        AND denial.nth = one.nth % nullif(one.denied, 0)
UNION ALL
SELECT number, anchor, positive, NULL, label,
    CASE WHEN unclear THEN 'ambiguous' ELSE 'duplicate' END,
    CASE WHEN unclear THEN 'the pair stands under another class too'
        ELSE 'the same pair stands further up' END,
    NULL::VARCHAR[]
FROM said WHERE again > 1 OR unclear
"""

KIND = Kind(
    texts=("anchor", "positive"),
    layouts=(
        {"anchor": "premise", "positive": "hypothesis", "label": "label"},
        {"anchor": "sentence1", "positive": "sentence2", "label": "gold_label"},
        {"anchor": "anchor", "positive": "positive"},
        {"anchor": "query", "positive": "answer"},
        {"anchor": "question", "positive": "answer"},
        {"anchor": "query", "positive": "positive"},
    ),
    row=row,
    optional=("label",),
    unread=("label", "gold_label", "score", "similarity"),
    combine=COMBINE.format(
        positive="one.positive",
        negative="denial.positive",
        reasons="""WHEN one.word = 'contradiction' AND one.entailed = 0 THEN 'no_positive'
            WHEN one.word = 'contradiction' THEN 'surplus'""",
        details="""WHEN one.word = 'contradiction' AND one.entailed = 0
                THEN 'a contradiction of a premise that has no entailment'
            WHEN one.word = 'contradiction'
                THEN 'a contradiction more than its premise has entailments'""",
    ),
)
