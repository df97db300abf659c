"""What is wrong with a text as a query to the passage that it was written for."""

import re
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from tercet.models.prompted import wording
from tercet.models.text.shingles import GRAM

# The operation of queries that are questions.
_QUESTION = "question"
_WORD = re.compile(r"\w+")
MOST = 40
_AGAIN = 3
# A query of so many words that stands in its passage was copied from there.
_FEW = 4


def query_faults(said: pa.Table) -> Iterator[tuple[int, str, str]]:
    """Row, reason and why, in words, of each query that has a fault; the gravest of several.

    said: text, source (the passage with its context), operation (its kind), checks; rows without
        the check `query` are none. A passage's own words are no excuse here: what it says of
        itself, nobody who searches knows.

    Reasons: several_lines, too_long (over `MOST` words), repetition (of a word), preamble,
    speaks_of_text, copied_words (`GRAM` in a row of the passage, or the whole query), and of a
    question no_question.
    """
    checks = said["checks"].to_pylist()
    rows = [row for row, names in enumerate(checks) if "query" in (names or ())]
    if not rows:
        return
    queries = said.select(["text", "source", "operation"]).take(pa.array(rows))
    for row, query in zip(rows, queries.to_pylist(), strict=True):
        text, source, kind = query["text"], query["source"] or "", query["operation"]
        if "\n" in text or "\r" in text:
            yield row, "several_lines", "there is a line break in it"
        elif len(text.split()) > MOST:
            yield row, "too_long", f"more than {MOST} words, which nobody searches with"
        elif looped := _looped(text):
            yield row, "repetition", f"it says {looped} again and again"
        elif wording.OF_QUERY.search(text):
            yield row, "preamble", "it says what it is"
        elif found := _spoken(text, source):
            yield row, "speaks_of_text", f"it speaks of the text: {found}"
        elif copied := _copied(text, source):
            yield row, "copied_words", f"the passage has it: {copied}"
        elif kind == _QUESTION and not wording.ENDS_AS_QUESTION.search(text):
            yield row, "no_question", "it does not end in a question mark"


def _looped(text: str) -> str | None:
    """A longer word that the query says `_AGAIN` times: small models end in loops."""
    words = Counter(word for word in _WORD.findall(text.lower()) if len(word) > 3)
    return next((word for word, times in words.items() if times >= _AGAIN), None)


def _spoken(text: str, source: str) -> str | None:
    """How the query speaks of the text that it was written for; None if it does not."""
    if found := wording.POINTING.search(text):
        return found[0]
    found = wording.OF_TEXT.search(text)
    return found[0] if found and found[0].lower() not in source.lower() else None


def _copied(text: str, source: str) -> str | None:
    """The first `GRAM` words in a row that the passage has too, or all of fewer; of less than
    `_FEW`, none, since terms are the same everywhere."""
    words, known = _WORD.findall(text.lower()), f" {' '.join(_WORD.findall(source.lower()))} "
    size = min(GRAM, max(len(words), _FEW))
    runs = (" ".join(words[at : at + size]) for at in range(len(words) - size + 1))
    return next((run for run in runs if f" {run} " in known), None)
