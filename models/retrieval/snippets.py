"""Where a query's words stand in a text, and the piece of it that has most of them."""

import re
from collections.abc import Iterator, Set

from tercet.models.retrieval.bm25 import words_of

_RUNS = re.compile(r"\w+")
# Characters before the first word of a snippet that was found.
_LEAD = 40


def word_places(text: str, sought: Set[str], english: bool) -> Iterator[tuple[int, int, str]]:
    """Begin, end and word of each of the `sought` in the text, in order.

    sought: as `bm25.words_of` gives them. english: as the index has it.
    """
    runs = list(_RUNS.finditer(text))
    for run, words in zip(runs, words_of([run[0] for run in runs], english), strict=True):
        if len(words) == 1 and words[0] in sought:
            yield run.start(), run.end(), words[0]
        elif len(words) > 1:
            # Letters of a script without spaces.
            for place in range(len(run[0])):
                if (pair := run[0][place : place + 2].lower()) in sought:
                    yield run.start() + place, run.start() + place + len(pair), pair


def snippet(text: str, sought: Set[str], english: bool, most: int) -> str:
    """At most so many characters of the text, from a little before where most words are found."""
    places = list(word_places(text, sought, english)) if len(text) > most else []

    def words_from(begin: int) -> int:
        return len({word for start, end, word in places if begin <= start and end <= begin + most})

    begins = [max(start - _LEAD, 0) for start, _, _ in places]
    begin = max(begins, key=words_from, default=0)
    begin = text.find(" ", begin, begin + _LEAD) + 1 or begin if begin else 0
    piece = f"{'…' if begin else ''}{text[begin:]}"
    return piece if len(piece) <= most else piece[: most - 1].rstrip() + "…"
