"""Guesses from a table's first rows what its columns hold, and which hold pairs and labels."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from tercet.models.text.words import count_words, fold
from tercet.tasks.corpus.sources.tables import Row, label_of, missing

Look: TypeAlias = Literal[
    "question", "title", "category", "number", "key", "list", "list of objects"
]

# Words in the names of columns of questions and titles, in lower case.
_QUESTION = frozenset(("question", "questions", "query", "queries", "q"))
_TITLE = frozenset(("title", "titles", "headline", "heading", "header", "subject", "topic"))
# Words in the names of columns about a question or a title, which do not hold one.
_ABOUT = frozenset(("id", "ids", "type", "kind", "date", "time", "count", "url", "score", "lang"))
# In a column of questions, the least share of values that end in a question mark, and the least
# mean of words.
ASKED, _ASKING = 0.5, 3
# Titles: most words on average, and most in proportion to a text's. If only the values are known:
# least words, and the largest share of values that end a sentence.
_TITLE_WORDS, _OF_TEXT, _LEAST_WORDS, _ENDED = 16, 0.34, 2, 0.2
# Categories: the largest share of distinct values, and most words.
_CATEGORY, _CATEGORY_WORDS = 0.1, 5
# Marks that end a question, also in other scripts, and other ends of a sentence.
_MARKS, _ENDS = ("?", "？", "؟"), (".", "!", ":", "。", "！")
_LETTERS = re.compile(r"[^\W\d_]{2,}")


class Column(NamedTuple):
    """A column and what it looks like.

    filled: rows with a value. distinct: different values. rows: rows looked at. words: of a text,
    on average; 0 if most values are not texts. asked: share of texts that end in a question mark.
    named: whether its name agrees with `looks`.
    """

    name: str
    filled: int
    distinct: int
    rows: int
    words: float
    asked: float
    looks: Look | None
    named: bool


def looks_of(columns: Sequence[str], sample: Sequence[Row], text: str) -> tuple[Column, ...]:
    """The columns in order. text: the column with the text, to which other columns are compared."""
    values = {column: _values(column, sample) for column in columns}
    lengths = {
        column: _mean(count_words(fold(text)) for text in _texts(values[column]))
        for column in columns
    }
    return tuple(_column(c, values[c], len(sample), lengths[c], lengths[text]) for c in columns)


def _column(name: str, values: Sequence[object], rows: int, words: float, of_text: float) -> Column:
    texts = _texts(values)
    distinct = len(set(map(repr, values)))
    questions = _mean(text.rstrip().endswith(_MARKS) for text in texts)
    ended = _mean(text.rstrip().endswith(_ENDS) for text in texts)
    worded = _mean(_LETTERS.search(text) is not None for text in texts) > 0.5
    parts = name_words(name)
    about = bool(parts & _ABOUT)
    by_name: Look | None = None
    if not about and worded:
        by_name = "question" if parts & _QUESTION else "title" if parts & _TITLE else None
    few = bool(values) and distinct <= _CATEGORY * len(values)
    looks: Look | None = None
    if not texts:
        looks = "number" if any(isinstance(v, int | float) for v in values) else None
        members = [one for value in values if isinstance(value, list) for one in value]
        if members:
            looks = "list of objects" if any(isinstance(one, dict) for one in members) else "list"
    elif all(map(is_number, texts)):
        looks = "number"
    elif questions >= ASKED and words >= _ASKING and not few:
        looks = "question"
    elif few and words <= _CATEGORY_WORDS and by_name is None:
        looks = "category"
    elif by_name is None and words < _LEAST_WORDS and distinct == len(values):
        looks = "key"
    elif not worded:
        looks = None
    elif by_name == "question" and words >= _LEAST_WORDS:
        looks = "question"
    elif words <= min(_TITLE_WORDS, _OF_TEXT * of_text):
        by_values = words >= _LEAST_WORDS and ended <= _ENDED and not few
        looks = "title" if by_name == "title" or by_values else None
    return Column(name, len(values), distinct, rows, words, questions, looks, looks == by_name)


def is_number(value: object) -> bool:
    """Whether a cell holds a number, also as a string, as in separated files."""
    try:
        float(value)  # type: ignore[arg-type]
    except OverflowError:
        return True
    except (TypeError, ValueError):
        return False
    return True


def _values(column: str, sample: Sequence[Row]) -> list[object]:
    return [v for row in sample if not missing(v := row.values.get(column))]


def _texts(values: Sequence[object]) -> list[str]:
    """The texts among the values if most are texts, else none."""
    texts = [value for value in values if isinstance(value, str)]
    return texts if 2 * len(texts) > len(values) else []


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / max(len(numbers), 1)


def name_words(name: str) -> set[str]:
    """The words of a column's name: `userQuestion_text` has three."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return set(re.findall(r"[^\W\d_]+", spaced.lower()))


# Usual names of two columns with a natural pair, the question first.
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
# The least share of rows in which both columns of a pair are filled (other rows are rejects), and
# the least share of a pair's questions that are distinct.
FILLED = 0.9
# The least mean of words of an answer that is guessed by its values.
_ANSWER_WORDS = 5
# Usual names of labels, which come before other columns of few values.
LABELS = (
    "label", "labels", "class", "category", "sentiment", "stars", "rating", "score", "topic",
    "type", "intent", "priority",
)  # fmt: skip
# Columns of few values that are not about the text.
_NO_LABELS = ("split", "fold", "lang", "language", "source")
VALUES = range(2, 21)
# The least rows of each label, in number and as a share; and the most characters of a label.
LEAST_ROWS, LEAST_SHARE, LONGEST = 10, 0.01, 40


class FilledPair(NamedTuple):
    """Columns that may be a pair, both filled in most rows. distinct: distinct questions.

    sure: whether names or question marks show it; else only the values suggest it.
    """

    query: str
    answer: str
    distinct: int
    rows: int
    sure: bool = True

    @property
    def natural(self) -> bool:
        """Whether hardly any question repeats: rows with a repeated question are left out."""
        return self.distinct >= FILLED * self.rows


def pairs_of(
    columns: Sequence[str], sample: Sequence[Row], looks: Sequence[Column] = (), text: str = ""
) -> list[FilledPair]:
    """Columns that may be pairs (question, answer), the likeliest first: by both names, ignoring
    case, else a question or a title and the text that it may belong to.

    looks: of the columns. text: the column with the text.
    """
    by_name = {column.lower(): column for column in columns}
    named = [
        (by_name[query], by_name[answer], True)
        for query, answer in PAIRS
        if query in by_name and answer in by_name
    ]
    pairs: dict[tuple[str, str], FilledPair] = {}
    for query, answer, sure in (*named, *_by_looks(looks, text)):
        questions = [
            row.values[query]
            for row in sample
            if _text(row.values.get(query)) and _text(row.values.get(answer))
        ]
        if questions and len(questions) >= FILLED * len(sample):
            pair = FilledPair(query, answer, len(set(questions)), len(questions), sure)
            pairs.setdefault((query, answer), pair)
    return sorted(pairs.values(), key=lambda pair: not (pair.sure and pair.natural))


def _by_looks(looks: Sequence[Column], text: str) -> Iterator[tuple[str, str, bool]]:
    queries = [column for column in looks if column.looks in ("question", "title")]
    queries.sort(key=lambda column: (column.looks != "question", not column.named))
    for query in queries:
        others = [column for column in looks if column.looks is None and column != query]
        others.sort(key=lambda column: (column.name != text, -column.words))
        if others and others[0].words >= max(_ANSWER_WORDS, query.words):
            marked = query.looks == "question" and query.asked >= ASKED
            yield query.name, others[0].name, query.named or marked


def labels_of(
    columns: Sequence[str], sample: Sequence[Row], texts: Sequence[str | None]
) -> dict[str, tuple[str, ...]]:
    """Columns of 2 to 20 frequent values, with their values; the likeliest first.

    texts: columns that are read as text, and so are not labels.
    """
    labels = {}
    for column in columns:
        if column in texts or column.lower() in _NO_LABELS:
            continue
        counts = Counter(label_of(row.values.get(column)) for row in sample)
        counts.pop(None, None)
        least = max(LEAST_ROWS, LEAST_SHARE * counts.total())
        few = len(counts) in VALUES and min(counts.values()) >= least
        if few and max(len(str(value)) for value in counts) <= LONGEST:
            labels[column] = tuple(sorted(map(str, counts)))
    usual = [column for name in LABELS for column in labels if column.lower() == name]
    return {column: labels[column] for column in dict.fromkeys([*usual, *labels])}


def _text(value: object) -> bool:
    return isinstance(value, str) and not missing(value)
