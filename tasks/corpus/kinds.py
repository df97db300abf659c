"""The kinds of labelled rows. A new one is a `Kind` here, and a line in `kind_registry.py`."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tercet.models.text.words import fold
from tercet.tasks.corpus.sources.tables import Row, text_fault


class Labelled(NamedTuple):
    """A row of a source in the kind's form; None for fields that the kind lacks.

    word: further input of the kind's `combine` (a class, an entry).
    """

    anchor: str
    positive: str | None = None
    negative: str | None = None
    label: float | None = None
    word: str | None = None


class Bad(NamedTuple):
    """Why a row cannot be used: a reason and detail of `rejects`."""

    reason: str
    detail: str


@dataclass(frozen=True)
class Kind:
    """One kind of labelled rows.

    texts: columns that must hold a text in every row; `row` gets them folded.
    lists: columns of `texts` that may also hold a list of texts.
    layouts: usual names of the kind's columns in files, by the kind's names; if the recipe names no
        columns, the first layout whose columns all exist is taken.
    row: makes one row or several of the values by the kind's names.
    optional: columns of a layout that a file may lack.
    unread: columns that would change the rows' meaning; an error if the layout does not read them.
    combine: DuckDB SQL over the table `read(number, anchor, positive, negative, label, word)` of
        all rows. It gives the rows to keep (number, anchor, positive, negative, label, entries),
        and the rows to reject, with reason and detail. None: rows are not combined.
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
        """All columns of the kind, by the kind's names."""
        return tuple(dict.fromkeys(name for layout in self.layouts for name in layout))


def number(value: Any) -> float | None:
    """A number or its spelling as a finite float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        result = float(value)
    except (ValueError, OverflowError):
        return None
    return result if math.isfinite(result) else None


def shown(value: Any) -> str:
    """A value as shown in a reject's detail."""
    return repr(value)[:60]


def layout_of(kind: Kind, columns: Collection[str]) -> dict[str, str] | None:
    """The columns of the first layout that fits, by the kind's names; None if none fits."""
    for layout in kind.layouts:
        present = {name: column for name, column in layout.items() if column in columns}
        if all(name in present for name in layout if name not in kind.optional):
            return present
    return None


def labelled_rows(
    kind: Kind, columns: Mapping[str, str], row: Row
) -> list[Labelled] | tuple[Bad, str]:
    """The row in the kind's form, or its fault with a text to show.

    columns: the table's columns, by the kind's names.
    """
    if row.fault:
        reason, detail, text = row.fault
        return Bad(reason, detail), text
    values: dict[str, Any] = {name: row.values.get(column) for name, column in columns.items()}
    for name in kind.texts:
        content, column = values[name], columns[name]
        listed = name in kind.lists and isinstance(content, list) and len(content) > 0
        for value in content if listed else [content]:
            if fault := text_fault({column: value}, column):
                texts = [values[other] for other in kind.texts if isinstance(values[other], str)]
                # Lone surrogates cannot be stored.
                shown = fold(" ".join(texts)).encode("utf-8", "replace").decode("utf-8")
                return Bad(fault[0], fault[1]), fault[2] or shown
        values[name] = list(map(fold, content)) if listed else fold(content)
    rows = kind.row(values)
    if isinstance(rows, Bad):
        return rows, str(values[kind.texts[0]])
    return rows if isinstance(rows, list) else [rows]


def _triplet(values: Mapping[str, Any]) -> Labelled | Bad:
    """The three texts, with the cosine as label if the row has one."""
    if values["positive"] == values["negative"]:
        return Bad("same_text", "the negative is the positive")
    cosine = values.get("label")
    label = number(cosine)
    blank = cosine is None or (isinstance(cosine, str) and not cosine.strip())
    # NaN is a missing value in a table of numbers.
    missing = blank or (isinstance(cosine, float) and cosine != cosine)
    if not missing and (label is None or abs(label) > 1):
        return Bad("bad_label", f"{shown(cosine)} is not a cosine from -1 to 1")
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
    """The pair, with its class as the word if there is a class column."""
    anchor, positive = values["anchor"], values["positive"]
    if "label" not in values:
        return Labelled(anchor, positive)
    label = values["label"]
    word = label.strip().lower() if isinstance(label, str) else ""
    if word in _CLASSES:
        return Labelled(anchor, positive, word=word)
    place = number(label)
    if place in (0, 1, 2):
        return Labelled(anchor, positive, word=_CLASSES[int(place)])
    return Bad("bad_label", f"{shown(label)} is none of {', '.join(_CLASSES)}, nor 0, 1 or 2")


# First, the first row of each pair and class, numbered within premise and class; second, repeated
# rows and pairs of several classes. {positive} and {negative} are a kept row's texts; {reasons} and
# {details} reject contradictions that no entailment took.
_CLASSED = """
WITH pairs AS (
    SELECT *, row_number() OVER (PARTITION BY anchor, positive, word ORDER BY number) AS again,
        coalesce(min(word) OVER (PARTITION BY anchor, positive)
            <> max(word) OVER (PARTITION BY anchor, positive), false) AS unclear
    FROM read
), classed AS (
    SELECT *, row_number() OVER (PARTITION BY anchor, word ORDER BY number) - 1 AS nth,
        count(*) FILTER (word = 'entailment') OVER (PARTITION BY anchor) AS entailed,
        count(*) FILTER (word = 'contradiction') OVER (PARTITION BY anchor) AS denied
    FROM pairs WHERE again = 1 AND NOT unclear
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
FROM pairs WHERE again > 1 OR unclear
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
as in SNLI and MNLI, a premise with an entailed and a contradicting hypothesis gives a triplet, as
in supervised SimCSE; the table `labelled` describes other cases.
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
    """A row for each definition, with their entries as the word."""
    content, definitions = values["entry"], values["definition"]
    listed = content.split(_BETWEEN) if isinstance(content, str) else content
    entries = [entry.strip() for entry in listed if entry.strip()]
    if not entries:
        return Bad("missing_text", f"the entry {shown(content)} names nothing")
    word = _SEPARATOR.join(entries)
    texts = [definitions] if isinstance(definitions, str) else definitions
    return [Labelled(text, word=word) for text in texts]


def _same(column: str) -> str:
    """SQL for a definition without case, hyphens in words, and punctuation around words."""
    text = rf"regexp_replace(lower({column}), '(\p{{L}})-(\p{{L}})', '\1 \2', 'g')"
    opening, closing = r"""(^|\s)["''(\[{“‘«]+""", r"""[.,;:?!"'')\]}”’»…]+(\s|$)"""
    for marks in (opening, closing):
        text = f"regexp_replace({text}, '{marks}', ' ', 'g')"
    return rf"trim(regexp_replace({text}, '\s+', ' ', 'g'))"


_COMBINE = f"""
WITH plain AS (
    SELECT *, coalesce(nullif({_same("anchor")}, ''), anchor) AS text FROM read
), words AS (
    SELECT number, text, unnest(string_split(word, chr({ord(_SEPARATOR)}))) AS word FROM plain
),
seen AS (SELECT text, word, min(number) AS earliest FROM words GROUP BY ALL),
new AS (SELECT DISTINCT earliest AS number FROM seen),
owners AS (
    SELECT text, list_sort(list(word)) AS entries, min(earliest) AS first FROM seen GROUP BY ALL
)
SELECT plain.number, anchor, NULL::VARCHAR AS positive, NULL::VARCHAR AS negative, label,
    CASE WHEN new.number IS NULL THEN 'duplicate' WHEN plain.number <> first THEN 'used'
    END AS reason,
    CASE WHEN new.number IS NULL THEN 'the same entry with the same definition' END AS detail,
    owners.entries
FROM plain JOIN owners USING (text) LEFT JOIN new ON new.number = plain.number
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
gives it, so that all synonyms with that definition are right answers (DefSent predicts the entry
from the definition's vector). Definitions that differ only in case and in punctuation around words
are the same, in the first one's spelling; signs make a difference ("x1 == x2" and "x1 != x2", "-1"
and "1"). The table `entries` has the texts of the entries. A row of the source may hold several
entries and several definitions: as lists, or the entries in one text with | between them.
"""


def _entailment(values: Mapping[str, Any]) -> Labelled | Bad:
    """The pair, with its class as the word."""
    pair = {"anchor": values["premise"], "positive": values["hypothesis"]}
    return _pair({**pair, "label": values["label"]})


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
"""Pairs of natural language inference (NLI) with their class, for discriminators.

Unlike `pairs`, which keeps triplets, this keeps every entailment and every contradiction: a
contradiction that no entailment took becomes a row without a positive.
"""
