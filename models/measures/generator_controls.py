"""Controls that a generator must beat: texts that anyone could make, on the same pairs.

Every draw is a function of (seed, row id, copy), so that a row's controls are the same whatever
other rows there are; but replaced words and other sentences come from all rows' sources.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from tercet.models import seeding
from tercet.models.generation import MethodInput
from tercet.models.rules.synonym import Synonyms, synonym
from tercet.models.seeding import Ids

# Shares of the words that are replaced or deleted.
SHARES = {"10": 0.1, "20": 0.2, "33": 1 / 3, "50": 0.5}
REPLACED = tuple(f"replaced_{name}" for name in SHARES)
DELETED = tuple(f"deleted_{name}" for name in SHARES)
_COPY = 1 << 32


def controls(
    ids: Ids, sources: Sequence[str], targets: Sequence[str], copies: int, seed: int
) -> Mapping[str, list[list[str]]]:
    """Texts of each control, (rows, copies) of it; of human and copy there is one a row.

    human: the target. copy: the source. replaced_N, deleted_N: N in a hundred of the source's
    words, at least one, replaced by words of all sources or left out. random_sentence: another
    row's source. shuffle: the source's words in random order.
    """
    split = [text.split() for text in sources]
    pool = [word for words in split for word in words]
    found: dict[str, list[list[str]]] = {
        "human": [[text] for text in targets],
        "copy": [[text] for text in sources],
    }
    drawn = {
        **{f"replaced_{name}": (_replaced, share) for name, share in SHARES.items()},
        **{f"deleted_{name}": (_deleted, share) for name, share in SHARES.items()},
        "shuffle": (_shuffled, 1.0),
    }
    for name, (change, share) in drawn.items():
        found[name] = [
            [
                " ".join(change(words, share, pool, _Draws(seed, name, row, c)))
                for c in range(copies)
            ]
            for row, words in zip(ids.tolist(), split, strict=True)
        ]
    found["random_sentence"] = [
        [sources[place] for place in _others(row, number, len(sources), copies, seed)]
        for number, row in enumerate(ids.tolist())
    ]
    return found


class _Draws:
    """Draws about one copy of one row."""

    def __init__(self, seed: int, name: str, row: int, copy: int) -> None:
        self._seed, self._name, self._row, self._copy = seed, f"control {name}", row, copy

    def order(self, count: int) -> list[int]:
        """The places 0 to count - 1 in random order."""
        drawn = seeding.draws(self._seed, self._name, self._rows(count), self._counter(count))
        return [int(place) for place in np.argsort(drawn, kind="stable")]

    def below(self, limit: int, count: int) -> list[int]:
        purpose = f"{self._name} word"
        counter = self._counter(count)
        drawn = seeding.below(self._seed, purpose, self._rows(count), limit, counter)
        return [int(value) for value in drawn]

    def _rows(self, count: int) -> Ids:
        return np.full(count, self._row, dtype=np.uint64)

    def _counter(self, count: int) -> Ids:
        return np.arange(count, dtype=np.uint64) + np.uint64(self._copy * _COPY)


def _count(words: Sequence[str], share: float) -> int:
    return min(len(words), max(1, round(share * len(words))))


def _replaced(words: list[str], share: float, pool: list[str], draws: _Draws) -> list[str]:
    places = draws.order(len(words))[: _count(words, share)]
    new = draws.below(len(pool), len(places))
    changed = dict(zip(places, (pool[place] for place in new), strict=True))
    return [changed.get(place, word) for place, word in enumerate(words)]


def _deleted(words: list[str], share: float, pool: list[str], draws: _Draws) -> list[str]:
    # A text of one word stays.
    gone = set(draws.order(len(words))[: min(_count(words, share), len(words) - 1)])
    return [word for place, word in enumerate(words) if place not in gone]


def _shuffled(words: list[str], share: float, pool: list[str], draws: _Draws) -> list[str]:
    return [words[place] for place in draws.order(len(words))]


def _others(row: int, number: int, count: int, copies: int, seed: int) -> list[int]:
    """Other rows' numbers; the row's own if it is alone."""
    if count == 1:
        return [number] * copies
    drawn = _Draws(seed, "random_sentence", row, 0).below(count - 1, copies)
    return [place + (place >= number) for place in drawn]


# The rule `synonym` as a control: what exchanging words by a lexicon alone gives.
# How many words of a sentence are exchanged, at most.
WORDS = {"synonym_1": 1, "synonym_2": 2, "synonym_4": 4}
SYNONYMS = tuple(WORDS)
# The rule makes no more of one sentence.
_MOST = 16

_NO_MENTIONS = pa.schema(
    [
        ("sentence_id", pa.uint64()),
        ("kind", pa.string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
    ]
)


def synonyms(
    ids: Ids, sources: Sequence[str], copies: int, seed: int
) -> Mapping[str, list[list[str]]]:
    """Texts by arm, (rows, copies): the rule's, in turn where it makes fewer than copies.

    A source without a word that has a synonym stays as it is. Nothing is spared as a field's term.
    """
    given = MethodInput(
        pa.table({"sentence_id": pa.array(ids, pa.uint64()), "text": pa.array(sources)}),
        np.arange(len(sources)),
        _NO_MENTIONS.empty_table(),
    )
    found: dict[str, list[list[str]]] = {}
    for name, words in WORDS.items():
        params = Synonyms(per_sentence=min(copies, _MOST), words=words)
        made: dict[int, list[str]] = {}
        table = synonym(given, params, seed).select(["sentence_id", "raw"])
        for row_id, text in zip(*(column.to_pylist() for column in table.columns), strict=True):
            made.setdefault(row_id, []).append(text)
        several = [made.get(row, [text]) for row, text in zip(ids.tolist(), sources, strict=True)]
        found[name] = [[texts[copy % len(texts)] for copy in range(copies)] for texts in several]
    return found
