"""Which columns of a table belong together as a pair, and which one holds labels."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tercet.tasks.corpus.sources.looks import ASKED, Column
from tercet.tasks.corpus.sources.tables import Row, label_of, missing

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
# An answer that is found by its values has so many words on average.
_ANSWER_WORDS = 5
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
    """Columns that may be a pair, both filled in most rows. distinct: how many questions.

    sure: whether their names say so, or question marks do; else the values alone look like it.
    """

    query: str
    answer: str
    distinct: int
    rows: int
    sure: bool = True

    @property
    def natural(self) -> bool:
        """Whether hardly any row is left out since its question stands in an earlier one."""
        return self.distinct >= FILLED * self.rows


def pairs_of(
    columns: Sequence[str], sample: Sequence[Row], looks: Sequence[Column] = (), text: str = ""
) -> list[FilledPair]:
    """Columns that may be pairs (question, answer), the likeliest first: by both their names,
    whatever their case, else a question or a title and the text that it may belong to.

    looks: of the columns. text: the column that holds the text.
    """
    there = {column.lower(): column for column in columns}
    named = [
        (there[query], there[answer], True)
        for query, answer in PAIRS
        if query in there and answer in there
    ]
    found: dict[tuple[str, str], FilledPair] = {}
    for query, answer, sure in (*named, *_by_looks(looks, text)):
        questions = [
            row.values[query]
            for row in sample
            if _text(row.values.get(query)) and _text(row.values.get(answer))
        ]
        if questions and len(questions) >= FILLED * len(sample):
            pair = FilledPair(query, answer, len(set(questions)), len(questions), sure)
            found.setdefault((query, answer), pair)
    return sorted(found.values(), key=lambda pair: not (pair.sure and pair.natural))


def _by_looks(looks: Sequence[Column], text: str) -> Iterator[tuple[str, str, bool]]:
    queries = [column for column in looks if column.looks in ("question", "title")]
    queries.sort(key=lambda column: (column.looks != "question", not column.named))
    for query in queries:
        others = [column for column in looks if column.looks is None and column != query]
        others.sort(key=lambda column: (column.name != text, -column.words))
        if others and others[0].words >= max(_ANSWER_WORDS, query.words):
            asked = query.looks == "question" and query.asked >= ASKED
            yield query.name, others[0].name, query.named or asked


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
