"""Which columns of a table belong together as a pair, and which one holds labels."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tercet.tasks.corpus.sources.cells import label_of, missing
from tercet.tasks.corpus.sources.tables import Row

# Columns that hold a natural pair, the question first.
PAIRS = (
    ("query", "answer"),
    ("question", "answer"),
    ("query", "positive"),
    ("query", "passage"),
    ("query", "document"),
    ("question", "context"),
    ("question", "response"),
    ("prompt", "response"),
    ("title", "abstract"),
    ("title", "body"),
    ("title", "text"),
    ("title", "description"),
    ("headline", "article"),
    ("subject", "body"),
    ("summary", "description"),
    ("anchor", "positive"),
)
# A pair's columns are filled in at least this share of the rows (a row without one is a reject),
# and its questions differ as often.
FILLED = 0.9
# Labels by these names come before other columns of few values.
LABELS = (
    "label", "labels", "class", "category", "sentiment", "stars", "rating", "score", "topic",
    "type", "intent", "priority",
)  # fmt: skip
# Columns of few values that say nothing of a text.
_NO_LABELS = ("split", "fold", "lang", "language", "source")
VALUES = range(2, 21)
# Each label in so many rows, and in this share of them; in shorter characters than a text.
LEAST_ROWS, LEAST_SHARE, LONGEST = 10, 0.01, 40


class FilledPair(NamedTuple):
    """Columns with the names of a pair, both filled in most rows. distinct: how many questions."""

    query: str
    answer: str
    distinct: int
    rows: int


def pair_of(columns: Sequence[str], sample: Sequence[Row]) -> tuple[str, str] | None:
    """The columns of a natural pair (question, answer) by their names, whatever their case."""
    for pair in _filled(columns, sample):
        if pair.distinct >= FILLED * len(sample):
            return pair.query, pair.answer
    return None


def repeated_pair(columns: Sequence[str], sample: Sequence[Row]) -> FilledPair | None:
    """The columns that are no natural pair only since their questions are often the same."""
    filled = _filled(columns, sample)
    return next((pair for pair in filled if pair.distinct < FILLED * len(sample)), None)


def _filled(columns: Sequence[str], sample: Sequence[Row]) -> Iterator[FilledPair]:
    there = {column.lower(): column for column in columns}
    for names in PAIRS:
        if all(name in there for name in names):
            query, answer = (there[name] for name in names)
            questions = [
                row.values[query]
                for row in sample
                if _text(row.values.get(query)) and _text(row.values.get(answer))
            ]
            if questions and len(questions) >= FILLED * len(sample):
                yield FilledPair(query, answer, len(set(questions)), len(questions))


def labels_of(
    columns: Sequence[str], sample: Sequence[Row], texts: Sequence[str | None]
) -> dict[str, tuple[str, ...]]:
    """Columns of 2 to 20 values, each frequent enough, with their values; the likeliest first.

    texts: columns that are read as text, which no label may come from.
    """
    found = {}
    for column in columns:
        if column in texts or column.lower() in _NO_LABELS:
            continue
        counts = Counter(label_of(row.values.get(column)) for row in sample)
        counts.pop(None, None)
        least = max(LEAST_ROWS, LEAST_SHARE * counts.total())
        few = len(counts) in VALUES and min(counts.values()) >= least
        if few and max(len(str(value)) for value in counts) <= LONGEST:
            found[column] = tuple(sorted(map(str, counts)))
    known = [column for name in LABELS for column in found if column.lower() == name]
    return {column: found[column] for column in dict.fromkeys([*known, *found])}


def _text(value: object) -> bool:
    return isinstance(value, str) and not missing(value)
