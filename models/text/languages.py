"""Languages of texts: another than that of the texts they stand for, and English or not.

Works on whole columns, one pass per regular expression. Doubtful cases count as no difference.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Flags: TypeAlias = npt.NDArray[np.bool_]
Counts: TypeAlias = npt.NDArray[np.int64]

# As RE2 names them; the last stands for all other letters.
_SCRIPTS = (
    *(r"\p{Latin}", r"\p{Cyrillic}", r"\p{Greek}", r"\p{Arabic}", r"\p{Hebrew}", r"\p{Hangul}"),
    *(r"\p{Devanagari}", r"\p{Thai}", r"[\p{Han}\p{Hiragana}\p{Katakana}]"),
)
# Words that few sentences of the language lack, and that are not words of the others,
# nor names or abbreviations there.
_FUNCTION_WORDS = {
    "en": "the of and to that with are this from which have has been by for it its not is they",
    "de": "der das und nicht ist mit auf ein eine einen einem dem sich auch von wird sind zum zur",
    "fr": "le les une dans qui avec sont cette aux elle ils nous vous mais leur ses ces du",
    "es": "el los las una del pero para esta como muy fue sus hay donde cuando desde hasta",
    "it": "gli della che una sono del nel alla degli delle anche questo questa nella dei",
    "pt": "uma que para mais foi pelo pela seu sua muito quando ele ela eles nas nos ao",
    "nl": "het een niet wordt naar ook zijn voor aan werd deze hij heeft bij",
}
# How many of another language's words, and what share of all, make a text be of it.
_AT_LEAST, _SHARE = 3, 0.2


def foreign_script(texts: pa.ChunkedArray, sources: pa.ChunkedArray) -> Flags:
    """Whether most letters of a text are of another script than most of its source's."""
    foreign = np.zeros(len(texts), dtype=np.bool_)
    plain = pc.and_(pc.string_is_ascii(texts), pc.string_is_ascii(sources))
    rows = np.flatnonzero(~_array(plain))
    if not len(rows):
        return foreign
    said, source = _scripts(texts.take(pa.array(rows))), _scripts(sources.take(pa.array(rows)))
    own = said[source.argmax(axis=0), np.arange(len(rows))]
    foreign[rows] = source.any(axis=0) & (2 * own < said.sum(axis=0))
    return foreign


def foreign_language(texts: pa.ChunkedArray, sources: pa.ChunkedArray) -> Flags:
    """Whether a text has words of another language's grammar and none of its source's.

    Told of English, German, French, Spanish, Italian, Portuguese and Dutch, and only where both
    texts are long enough to show what they are.
    """
    said, source = _words(texts), _words(sources)
    rows = np.arange(len(texts))
    own = source.argmax(axis=0)
    sure = (source[own, rows] >= 2) & (np.sort(source, axis=0)[-2] < source[own, rows])
    none_left = said[own, rows] == 0
    length = _array(pc.count_substring(texts, " ")) + 1
    most = said.max(axis=0)
    return np.asarray(sure & none_left & (most >= _AT_LEAST) & (most >= _SHARE * length))


def _scripts(texts: pa.ChunkedArray) -> Counts:
    """Letters of each script. Shape (scripts + 1, rows)."""
    counts = [_array(pc.count_substring_regex(texts, script)) for script in _SCRIPTS]
    letters = _array(pc.count_substring_regex(texts, r"\p{L}"))
    # Marks and syllable signs can count for a script and for no letter.
    return np.array([*counts, np.maximum(letters - np.sum(counts, axis=0), 0)], dtype=np.int64)


def _words(texts: pa.ChunkedArray) -> Counts:
    """Function words of each language. Shape (languages, rows)."""
    lists = [rf"\b(?:{'|'.join(words.split())})\b" for words in _FUNCTION_WORDS.values()]
    counts = [_array(pc.count_substring_regex(texts, one, ignore_case=True)) for one in lists]
    return np.array(counts, dtype=np.int64)


def _array(column: Any) -> npt.NDArray[Any]:
    return np.asarray(column.to_numpy(zero_copy_only=False))


# Of English, abstracts have a share of common words of .23 to .30, code with its docstrings of .14;
# German, French, Dutch and Danish have .00 to .09.
LEAST_ENGLISH = 0.1
# Words of English that hardly another language has.
_COMMON = """
    the of and to that it with his this but from have you they which she their been has would
    there when who more if out said what its your into than them can only other our could these
    some we i be not are for by"""
_FEWEST = 100  # fewer of them show no language


def share_of_english(texts: Sequence[str]) -> float | None:
    """The share of words that are among the commonest of English; None of few words."""
    common = frozenset(_COMMON.split())
    words = [word.strip(",.;:!?()\"'").lower() for text in texts for word in text.split()]
    return sum(word in common for word in words) / len(words) if len(words) >= _FEWEST else None


def is_english(texts: Sequence[str]) -> bool:
    """Whether the share is that of English; not where there are too few words to tell."""
    share = share_of_english(texts)
    return share is not None and share >= LEAST_ENGLISH
