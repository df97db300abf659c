"""Whether texts are in English, by the share of its commonest words."""

from collections.abc import Sequence

from tercet.models.english.words import word_set

# Of English, abstracts have a share of common words of .23 to .30, code with its docstrings of .14;
# German, French, Dutch and Danish have .00 to .09.
LEAST = 0.1
# Words of English that hardly another language has.
_COMMON = word_set(
    """the of and to that it with his this but from have you they which she their been has would
    there when who more if out said what its your into than them can only other our could these
    some we i be not are for by"""
)
_WORDS = 100  # fewer of them show no language


def share_of_english(texts: Sequence[str]) -> float | None:
    """The share of words that are among the commonest of English; None of few words."""
    words = [word.strip(",.;:!?()\"'").lower() for text in texts for word in text.split()]
    return sum(word in _COMMON for word in words) / len(words) if len(words) >= _WORDS else None


def is_english(texts: Sequence[str]) -> bool:
    """Whether the share is that of English; not where there are too few words to tell."""
    share = share_of_english(texts)
    return share is not None and share >= LEAST
