"""The kinds of labelled rows: what each is, and what becomes of a row.

A new one is a `Kind` here, and a line in `kind_registry.py`.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tercet.models.text.words import fold
from tercet.tasks.corpus.sources.tables import Row, text_fault


class Labelled(NamedTuple):
    """What one row of a source says. None: nothing of the kind.

    word: whatever else the kind's `combine` needs to know of the row (a class, an entry).
    """

    anchor: str
    positive: str | None = None
    negative: str | None = None
    label: float | None = None
    word: str | None = None


class Bad(NamedTuple):
    """Why a row cannot be used: a reason of `rejects`, and the particulars."""

    reason: str
    detail: str


@dataclass(frozen=True)
class Kind:
    """One kind of labelled rows.

    texts: columns that must hold a text in every row; they come folded.
    lists: those of them that may also hold a list of texts.
    layouts: how files usually call the kind's columns (ours → theirs); the first one whose columns
        are all there is taken where the recipe names none.
    row: makes the row of the values by our names, or several.
    optional: columns that a layout may name and a file may lack.
    unread: columns that would change the rows' meaning if a layout left them unread; finding one is
        an error.
    combine: SQL over the table `read(number, anchor, positive, negative, label, word)` of all rows,
        in DuckDB: the rows to keep as (number, anchor, positive, negative, label, entries) and, as
        (number, …, reason, detail), those to reject. None: each row by itself.
    """

    texts: tuple[str, ...]
    layouts: Sequence[Mapping[str, str]]
    row: Callable[[Mapping[str, Any]], Labelled | list[Labelled] | Bad]
    lists: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    combine: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column of the kind, by our names."""
        return tuple(dict.fromkeys(name for layout in self.layouts for name in layout))


def number(value: Any) -> float | None:
    """The value as a finite number, from a number or its spelling; None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def shown(value: Any) -> str:
    """A value as shown in a reject's detail."""
    return repr(value)[:60]


def layout_of(kind: Kind, columns: Collection[str]) -> dict[str, str] | None:
    """The first of the kind's layouts whose columns are all there, ours to theirs."""
    for layout in kind.layouts:
        found = {ours: theirs for ours, theirs in layout.items() if theirs in columns}
        if all(ours in found for ours in layout if ours not in kind.optional):
            return found
    return None


def made_of(kind: Kind, columns: Mapping[str, str], row: Row) -> list[Labelled] | tuple[Bad, str]:
    """The row as its kind has it, or its fault with a text to show; columns: ours to theirs."""
    if row.fault:
        reason, detail, text = row.fault
        return Bad(reason, detail), text
    values: dict[str, Any] = {ours: row.values.get(theirs) for ours, theirs in columns.items()}
    for ours in kind.texts:
        given, column = values[ours], columns[ours]
        listed = ours in kind.lists and isinstance(given, list) and len(given) > 0
        for value in given if listed else [given]:
            if fault := text_fault({column: value}, column):
                texts = [values[name] for name in kind.texts if isinstance(values[name], str)]
                # A lone surrogate cannot be written down.
                shown = fold(" ".join(texts)).encode("utf-8", "replace").decode("utf-8")
                return Bad(fault[0], fault[1]), fault[2] or shown
        values[ours] = list(map(fold, given)) if listed else fold(given)
    made = kind.row(values)
    if isinstance(made, Bad):
        return made, str(values[kind.texts[0]])
    return made if isinstance(made, list) else [made]


def _triplet(values: Mapping[str, Any]) -> Labelled | Bad:
    """The three texts; the label is the cosine, or None if the row has none."""
    if values["positive"] == values["negative"]:
        return Bad("same_text", "the negative is the positive")
    given = values.get("label")
    label = number(given)
    blank = given is None or (isinstance(given, str) and not given.strip())
    # In a table of numbers NaN means a missing value.
    missing = blank or (isinstance(given, float) and given != given)
    if not missing and (label is None or abs(label) > 1):
        return Bad("bad_label", f"{shown(given)} is not a cosine from -1 to 1")
    return Labelled(values["anchor"], values["positive"], values["negative"], label)


TRIPLETS = Kind(
    texts=("anchor", "positive", "negative"),
    layouts=(
        {
            "anchor": "anchor",
            "positive": "positive",
            "negative": "negative",
            "label": "negative_similarity",
        },
        {
            "anchor": "sent0",
            "positive": "sent1",
            "negative": "hard_neg",
            "label": "negative_similarity",
        },
    ),
    row=_triplet,
    optional=("label",),
)
"""Anchor, positive and negative, with the teacher's cosine of the negative if the file has it."""


_CLASSES = ("entailment", "neutral", "contradiction")


def _pair(values: Mapping[str, Any]) -> Labelled | Bad:
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
_CLASSED = """
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

PAIRS = Kind(
    texts=("anchor", "positive"),
    layouts=(
        {"anchor": "premise", "positive": "hypothesis", "label": "label"},
        {"anchor": "sentence1", "positive": "sentence2", "label": "gold_label"},
        {"anchor": "anchor", "positive": "positive"},
        {"anchor": "query", "positive": "answer"},
        {"anchor": "question", "positive": "answer"},
        {"anchor": "query", "positive": "positive"},
    ),
    row=_pair,
    optional=("label",),
    unread=("label", "gold_label", "score", "similarity"),
    combine=_CLASSED.format(
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
"""Two texts that belong together, or pairs of natural language inference (NLI) with their class.

Without a class column every row is a positive pair (questions and answers, duplicates). With one,
as SNLI and MNLI have it, a premise with a hypothesis of each class gives one triplet, which is how
supervised SimCSE uses NLI; the table `labelled` tells what becomes of others.
"""


def _scored(values: Mapping[str, Any]) -> Labelled | Bad:
    """The pair; the label is the number as given."""
    label = number(values["label"])
    if label is None:
        return Bad("bad_label", f"{shown(values['label'])} is not a finite number")
    return Labelled(values["anchor"], values["positive"], label=label)


_TEXTS = (("sentence1", "sentence2"), ("text1", "text2"), ("anchor", "positive"))

SCORED = Kind(
    texts=("anchor", "positive"),
    layouts=(
        *(
            {"anchor": anchor, "positive": positive, "label": label}
            for anchor, positive in _TEXTS
            for label in ("score", "label")
        ),
        {"anchor": "sentence_A", "positive": "sentence_B", "label": "relatedness_score"},
    ),
    row=_scored,
)
"""Pairs with a similarity score on any scale (STS: 0 to 5)."""


_BETWEEN = "|"
# Folded texts hold no control characters.
_SEPARATOR = "\x1f"


def _definitions(values: Mapping[str, Any]) -> list[Labelled] | Bad:
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

DEFINITIONS = Kind(
    texts=("entry", "definition"),
    layouts=(
        {"entry": "entry", "definition": "definition"},
        {"entry": "lemma", "definition": "definition"},
        {"entry": "word", "definition": "definition"},
        {"entry": "term", "definition": "definition"},
        {"entry": "members", "definition": "definition"},
    ),
    row=_definitions,
    lists=("entry", "definition"),
    combine=_COMBINE,
)
"""Definitions with the entries (words, terms) that they define, for training against entries.

A row of the table is a distinct definition (`anchor`); `entries` are all entries that the corpus
gives it, so that synonyms which share a definition are all right answers (DefSent predicts the
entry from the definition's vector). Definitions that differ in case and in the punctuation around
their words alone are the same, in the first one's spelling; signs tell them apart ("x1 == x2" and
"x1 != x2", "-1" and "1"). The texts of the entries stand in the table `entries`. A row of
the source may name several entries of its definition, and several definitions of its entries: as
lists, or the entries in one text with | between them.
"""


def _entailment(values: Mapping[str, Any]) -> Labelled | Bad:
    """The pair, with its class as the word."""
    given = {"anchor": values["premise"], "positive": values["hypothesis"]}
    return _pair({**given, "label": values["label"]})


ENTAILMENT = Kind(
    texts=("premise", "hypothesis"),
    layouts=(
        {"premise": "premise", "hypothesis": "hypothesis", "label": "label"},
        {"premise": "premise", "hypothesis": "hypothesis", "label": "gold_label"},
        {"premise": "sentence1", "hypothesis": "sentence2", "label": "gold_label"},
        {"premise": "sentence1", "hypothesis": "sentence2", "label": "label"},
        {
            "premise": "sentence_A",
            "hypothesis": "sentence_B",
            "label": "entailment_judgment",
        },
    ),
    row=_entailment,
    combine=_CLASSED.format(
        positive="CASE WHEN one.word <> 'contradiction' THEN one.positive END",
        negative="CASE WHEN one.word = 'contradiction' THEN one.positive ELSE denial.positive END",
        reasons="",
        details="",
    ),
)
"""Pairs of natural language inference (NLI) with their class, none of them left over.

Unlike `pairs`, which keeps what makes triplets, this keeps every entailment and every
contradiction, as a discriminator needs them: a contradiction that no entailment took makes a row of
its own, without a positive.
"""
