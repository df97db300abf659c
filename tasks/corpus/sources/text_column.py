"""Which column of a table holds its text: by its name, else by how its values read."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from tercet.models.text.lengths import UNSPACED, count_words
from tercet.models.text.unicode import fold
from tercet.tasks.corpus.sources.hypertext import text_of
from tercet.tasks.corpus.sources.tables import NO_ROWS, Row, joined, missing
from tercet.tasks.stage import BadInput

# Names of columns that hold texts, the likelier first.
NAMES = (
    "text", "content", "body", "sentence", "abstract", "article", "passage", "document", "review",
    "comment", "description", "message", "post", "tweet", "utterance", "paragraph", "caption",
    "summary", "answer", "response", "question", "query", "statement", "headline", "title",
)  # fmt: skip
# How much like prose the values of a column with such a name must read: a name of two words does.
_LEAST = 1.0
# The value of markup or code against that of prose.
_MARKUP = 0.1
# And that of prose in HTML.
_HTML = 0.24
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
# A word: letters, with marks around them, or with an apostrophe or a hyphen within.
_WORD = re.compile(
    r"""[\W\d_]*[^\W\d_]+(?:['’.-][^\W\d_]+)*["'“”‘’.,;:!?…()\[\]，。、！？；：)]*"""
)
_LONGEST = 4000  # characters of a value that are looked at


def text_column(where: str, columns: Sequence[str], sample: Iterable[Row]) -> str:
    """The column with a usual name for texts, whatever its case, else the one most like prose.

    A name of several words, such as `review_text`, counts by each of them. A column that is called
    `text` needs no look at its values, unless it is empty and another reads like prose; others must
    read a little like prose.

    columns: those that may be it.

    Raises:
        BadInput: no column holds strings, or there is no row.
    """
    looked_at = list(sample)
    whole = [row for row in looked_at if row.fault is None]
    found = {c: v for c in columns if (v := _strings(c, whole))}
    prose = {column: _likeness(values, len(whole)) for column, values in found.items()}
    plain = [column for column in columns if column.strip().lower() == NAMES[0]]
    filled = [column for column in plain if column in found]
    if filled or (plain and max(prose.values(), default=0.0) < _LEAST):
        return NAMES[0] if NAMES[0] in (filled or plain) else (filled or plain)[0]
    if not looked_at:
        raise BadInput(f"{where} {NO_ROWS}; name a table with rows")
    if not found:
        hint = f"its columns are {', '.join(map(repr, columns))}"
        faults = [row.fault for row in looked_at if row.fault is not None]
        if len(faults) == len(looked_at):
            hint = f"none of its first rows can be read ({faults[0][1]})"
        raise BadInput(f"{where}: no column holds text; {hint}")
    named = [column for column in _by_name(found) if prose[column] >= _LEAST]
    if named:
        return named[0]
    return max(found, key=lambda column: (prose[column], sum(map(len, found[column]))))


def _strings(column: str, rows: Sequence[Row]) -> list[str]:
    values = (joined(row.values.get(column)) for row in rows)
    texts = (value for value in values if isinstance(value, str) and not missing(value))
    return [value[:_LONGEST] for value in texts if fold(value)]


def _by_name(columns: Mapping[str, object]) -> list[str]:
    """The columns that have a usual name, or one within theirs, the likeliest first."""
    ranks = {}
    for column in columns:
        spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column)
        words = re.findall(r"[^\W_]+", spaced.lower())
        known = [NAMES.index(one) for w in words for one in {w, w.removesuffix("s")} & {*NAMES}]
        if known:
            ranks[column] = (len(words) > 1, min(known))
    return sorted(ranks, key=lambda column: ranks[column])


def _likeness(values: Sequence[str], rows: int) -> float:
    """How much a column reads like prose: log2(1 + words) times the squared share of words among
    what spaces part, on average over the rows; less where values are the same again.
    """
    total = sum(map(_like_prose, values)) / max(rows, 1)
    return total * (0.1 + 0.9 * len(set(values)) / len(values))


def _like_prose(value: str) -> float:
    plain = text_of(value)
    said = plain.strip()
    if not said:
        return 0.0
    pieces = UNSPACED.sub(" a ", said).split()
    share = sum(_WORD.fullmatch(piece) is not None for piece in pieces) / len(pieces)
    code = said[0] in "{[<" and said[-1] in "}]>"
    weight = _MARKUP if code or _TAG.search(said) else 1.0 if plain == value else _HTML
    return weight * share**2 * math.log2(1 + count_words(" ".join(said.split())))
