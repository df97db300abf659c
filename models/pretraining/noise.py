"""What a language model is asked: which tokens are masked, and what it must answer."""

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]

# A position that no loss is taken at.
IGNORED = -100
# BERT: of the tokens to be found most are masked, some replaced, the others left as they are.
_MASKED, _REPLACED = 0.8, 0.1
# T5: the mean length of a masked span, in tokens.
SPAN = 3.0


@dataclass(frozen=True)
class Vocabulary:
    """What the noise must know of a tokenizer.

    size: its entries. special: ids that are never masked. mask, end: -1 where the form has none.
    sentinels: T5's, the first one first.
    """

    size: int
    special: Ints
    padding: int
    mask: int = -1
    end: int = -1
    sentinels: tuple[int, ...] = ()


def masked(
    ids: Ints, share: float, most: int, vocabulary: Vocabulary, rng: np.random.Generator
) -> tuple[Ints, Ints, Ints]:
    """BERT's noise: the ids as the model sees them, the places to be found, and what was there.

    ids: of shape (rows, width), padded. Each row has `share` of its own tokens masked, at least
    one and at most `most`; places and answers are of shape (rows, most), the rest of them filled
    with place 0 and IGNORED, so that every batch of a width has the same shapes.
    """
    own = ~np.isin(ids, vocabulary.special)
    counts = np.clip(np.rint(share * own.sum(1)).astype(np.int64), 1, most)
    counts = np.minimum(counts, own.sum(1))
    order = np.argsort(np.where(own, rng.random(ids.shape), 2.0), axis=1, kind="stable")
    used = np.arange(most) < counts[:, None]
    places = np.where(used, order[:, :most], 0)
    answers = np.where(used, np.take_along_axis(ids, places, 1), IGNORED)
    fate = rng.random(places.shape)
    others = rng.integers(0, vocabulary.size, places.shape)
    seen = np.where(fate < _MASKED, vocabulary.mask, np.where(fate < _MASKED + _REPLACED, others,
                    np.take_along_axis(ids, places, 1)))  # fmt: skip
    noised = ids.copy()
    rows = np.broadcast_to(np.arange(len(ids))[:, None], places.shape)
    noised[rows[used], places[used]] = seen[used]
    return noised, places, answers


def most_masked(width: int, share: float) -> int:
    """The most tokens that are masked in a row of a width."""
    return max(1, round(share * width))


def shifted(ids: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """GPT-2's task: the ids but each row's last, and for each of them the next one."""
    inside = np.arange(1, ids.shape[1]) < lengths[:, None]
    return ids[:, :-1], np.where(inside, ids[:, 1:], IGNORED)


def spans(
    ids: Ints,
    lengths: Ints,
    share: float,
    whole: bool,
    width: int,
    vocabulary: Vocabulary,
    rng: np.random.Generator,
) -> tuple[Ints, Ints, Ints]:
    """T5's noise: what the encoder reads, its lengths, and what the decoder must write.

    In each row `share` of the tokens lie in masked spans of three on average, at random places.
    For each span the encoder reads a sentinel of its own, and the decoder writes each sentinel with
    what the span held. whole: the decoder writes the whole text instead, so that it must copy what
    was not masked; every span's sentinel is then the last one, which tells the task. Both end
    with the end of a text. The answers are of shape (rows, width).

    ids: of shape (rows, n), padded, and each with room for one more.
    """
    most = len(vocabulary.sentinels) - 1
    end = vocabulary.end
    read = np.full(ids.shape, vocabulary.padding, dtype=np.int64)
    written = np.full((len(ids), width), IGNORED, dtype=np.int64)
    sizes = np.empty(len(ids), dtype=np.int64)
    for row, length in enumerate(lengths.tolist()):
        own, starts = ids[row, :length], _starts(length, share, most, rng)
        sees, writes, before = [], [], 0
        for number, (start, stop) in enumerate(starts):
            sentinel = vocabulary.sentinels[-1 if whole else number]
            sees += [*own[before:start], sentinel]
            writes += [sentinel, *own[start:stop]]
            before = stop
        sees += [*own[before:], end]
        answer = [*(own if whole else writes), end][:width]
        read[row, : len(sees)] = sees
        written[row, : len(answer)] = answer
        sizes[row] = len(sees)
    return read, sizes, written


def longest_answer(width: int, share: float, whole: bool) -> int:
    """The most ids that `spans` has the decoder write for a text of fewer than `width` ids."""
    if whole:
        return width
    hidden = max(1, round(share * width))
    return hidden + max(1, round(hidden / SPAN)) + 1


def _starts(
    length: int, share: float, most: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Spans as (start, stop), in order and never touching, as far as there is room."""
    hidden = min(max(1, round(share * length)), length)
    count = min(max(1, round(hidden / SPAN)), most, max(1, length - hidden))
    sizes = _divided(hidden, count, rng, least=1)
    gaps = _divided(length - hidden - (count - 1), count + 1, rng, least=0)
    found, place = [], 0
    for number, size in enumerate(sizes):
        place += gaps[number] + (1 if number else 0)
        found.append((place, place + size))
        place += size
    return found


def _divided(total: int, parts: int, rng: np.random.Generator, least: int) -> list[int]:
    """The total in so many parts of at least `least`, every division as likely."""
    free = max(0, total - least * parts)
    cuts = np.sort(rng.choice(free + parts - 1, parts - 1, replace=False)).tolist()
    edges = [-1, *cuts, free + parts - 1]
    return [b - a - 1 + least for a, b in pairwise(edges)]
