"""Tokenises many texts at once: one pass of a regular expression, then numpy columns."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models.english import words
from tercet.models.english.inflection import may_be_plural, openers, singulars
from tercet.models.runs import begins

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LOWER, CAPITALISED, CAPITALS, IDENTIFIER, ROMAN, OTHER = range(6)
SEPARATOR = "\n"

# A link, a command line flag, or a word. A word may contain dots and underscores and end in "()",
# as in code; it includes an elided "not" and the prefix of names like O'Neill.
TOKEN = re.compile(
    r"https?://[^\s]+|www\.[^\s]+"
    r"|(?<![\w-])--[A-Za-z][\w-]*"
    r"|(?:[OD]['’](?=[A-Z]))?_*[^\W\d_][\w\u0300-\u036f]*(?:\.[^\W\d]\w*)*(?:\(\)|['’]t(?!\w))?"
)
_SNAKE = re.compile(r"\w*[^\W_]_+\w*|_+\w+")
_CAMEL = re.compile(r"[a-z]+\d*[A-Z]\w*|[A-Z]+[a-z0-9]+[A-Z]\w*|[A-Z]{2,}[a-z]{3,}\w*")
_SIZED = re.compile(r"[a-z]{2,}\d+[a-z]?")
_NAME_PREFIX = re.compile(r"(?:Mc|Mac|De|Di|Du|La|Le|Fitz|Van|Von|O['’]|D['’])[A-Z][a-z]+")
_CAPITALS = re.compile(r"[A-Z][A-Z0-9]*[A-Z0-9]s?|(?:[A-Z]\.)+[A-Z]")
_CONSTANTS = frozenset(("True", "False", "None", "NaN", "NULL"))
_ROMAN = re.compile(r"[IVXLC]+")


@dataclass(frozen=True)
class Tokens:
    """The tokens of texts as columns, one value per token.

    buffer: the texts, each followed by `SEPARATOR`. chars: code points of the buffer, uint32.
    offsets: start of each text in the buffer, and the end of the buffer.
    starts, ends: code-point spans in the buffer. text: number of the text. first: whether the token
        is the first of its text. joined: whether exactly one space or hyphen separates it from the
        next token of the text. tied: whether the joining character is a hyphen. dotted: whether a
        full stop and a space separate the two tokens, as after an initial.
    code: number of the distinct word. folded: casefolded text, one per *distinct* word.
    kind: LOWER … OTHER. surface, lemma: number of the word and of its singular in the vocabulary,
        -1 if unknown. All further flags are classes of words (`models/english/words.py`).
    """

    buffer: str
    chars: npt.NDArray[np.uint32]
    offsets: Ints
    starts: Ints
    ends: Ints
    text: Ints
    first: Flags
    joined: Flags
    tied: Flags
    dotted: Flags
    code: Ints
    folded: list[str]
    kind: Ints
    surface: Ints
    lemma: Ints
    stop: Flags
    weak: Flags
    plural: Flags
    link: Flags
    title: Flags
    before_verb: Flags
    inflected: Flags
    opener: Flags


def tokenise(texts: Sequence[str], vocabulary: Mapping[str, int], *, identifiers: bool) -> Tokens:
    """The tokens of the texts.

    vocabulary: from a word of the lexicon's phrases to its number. identifiers: whether names from
    code are recognised.
    """
    buffer = SEPARATOR.join([text.replace(SEPARATOR, " ") for text in texts]) + SEPARATOR
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    offsets = np.concatenate([[0], np.cumsum(lengths + 1)]).astype(np.int64)
    chars = np.frombuffer(buffer.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    spans = [match.span() for match in TOKEN.finditer(buffer)]
    flat = np.fromiter(chain.from_iterable(spans), dtype=np.int64, count=2 * len(spans))
    starts, ends = flat[0::2].copy(), flat[1::2].copy()
    text = np.searchsorted(offsets, starts, side="right") - 1
    coded = pa.array([buffer[start:end] for start, end in spans], pa.string()).dictionary_encode()
    code = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    distinct = coded.dictionary.to_pylist()
    kinds, surfaces, lemmas = [], [], []
    folded = [word.casefold() for word in distinct]
    for word, fold in zip(distinct, folded, strict=True):
        kinds.append(kind_of(word, identifiers=identifiers))
        surfaces.append(vocabulary.get(fold, -1))
        lemma = -1
        for singular in singulars(fold):
            lemma = vocabulary.get(singular, -1)
            if lemma >= 0:
                break
        lemmas.append(lemma)

    def column(flags: list[bool]) -> Flags:
        return np.array(flags, dtype=np.bool_)[code] if flags else np.zeros(0, dtype=np.bool_)

    def numbers(values: list[int]) -> Ints:
        return np.array(values, dtype=np.int64)[code] if values else np.zeros(0, dtype=np.int64)

    space, hyphen = ord(" "), ord("-")
    nearest = np.zeros(len(starts), dtype=np.bool_)
    gap = chars[np.minimum(ends, len(chars) - 1)]
    nearest[:-1] = (starts[1:] - ends[:-1] == 1) & (text[1:] == text[:-1])
    joined = nearest & ((gap == space) | (gap == hyphen))
    tied = nearest & (gap == hyphen)
    dotted = np.zeros(len(starts), dtype=np.bool_)
    after = chars[np.minimum(ends + 1, len(chars) - 1)]
    dotted[:-1] = (starts[1:] - ends[:-1] == 2) & (text[1:] == text[:-1])
    dotted &= (gap == ord(".")) & (after == space)
    return Tokens(
        buffer=buffer,
        chars=chars,
        offsets=offsets,
        starts=starts,
        ends=ends,
        text=text,
        first=begins(text),
        joined=joined,
        tied=tied,
        dotted=dotted,
        code=code,
        folded=folded,
        kind=numbers(kinds),
        surface=numbers(surfaces),
        lemma=numbers(lemmas),
        stop=column([fold in words.STOP_WORDS or len(fold) == 1 for fold in folded]),
        weak=column([fold in words.WEAK_WORDS for fold in folded]),
        plural=column([may_be_plural(fold) for fold in folded]),
        link=column([word in words.NAME_LINKS for word in distinct]),
        title=column([fold in words.TITLES for fold in folded]),
        inflected=column([fold.endswith(("ing", "ed", "ly")) for fold in folded]),
        opener=column([fold in openers() for fold in folded]),
        before_verb=column([fold in words.BEFORE_VERBS for fold in folded]),
    )


def kind_of(word: str, *, identifiers: bool = True) -> int:
    """The shape of a token: LOWER, CAPITALISED, CAPITALS, IDENTIFIER, ROMAN or OTHER.

    OTHER is never an entity: a link, "e.g", an elided "not", a constant of code.
    """
    if word in _CONSTANTS:
        return OTHER
    if word.isalpha() and (word.islower() or word.istitle()):
        return LOWER if word.islower() else CAPITALISED
    if word.startswith(("http://", "https://", "www.")):
        return OTHER
    if word.startswith("--") or word.endswith("()"):
        return IDENTIFIER if identifiers else OTHER
    if "." in word:
        if _CAPITALS.fullmatch(word):
            return CAPITALS
        return IDENTIFIER if identifiers and _is_dotted_name(word) else OTHER
    if word.endswith(("'t", "’t")):
        return OTHER
    if _CAPITALS.fullmatch(word):
        return ROMAN if _ROMAN.fullmatch(word) else CAPITALS
    if _NAME_PREFIX.fullmatch(word):
        return CAPITALISED
    if _SNAKE.fullmatch(word) or _CAMEL.fullmatch(word) or _SIZED.fullmatch(word):
        return IDENTIFIER if identifiers else OTHER
    return CAPITALISED if word[0].isupper() else LOWER


def words_of(phrase: str) -> list[str]:
    """The casefolded words of one phrase, split as by `tokenise`."""
    plain = phrase.split(" ")
    if all(map(str.isalpha, plain)):
        return [word.casefold() for word in plain]
    return [match.group().casefold() for match in TOKEN.finditer(phrase)]


def _is_dotted_name(word: str) -> bool:
    """Whether "a.b" is a name from code: not an abbreviation, nor two sentences run together."""
    parts = word.split(".")
    if max(map(len, parts)) == 1 or word in ("Ph.D", "vs.", "B.Sc", "M.Sc"):
        return False
    return not any(part.istitle() and part.casefold() in words.STOP_WORDS for part in parts[1:])
