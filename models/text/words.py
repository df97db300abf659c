"""Normalises Unicode text and counts its words, also in scripts without spaces."""

import re
import unicodedata

# Scripts without spaces (Han, kana and bopomofo; Thai, Lao, Burmese, Khmer, Tibetan and Tai of
# China), and their letters per word.
_HAN = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af"
)
_THAI = "\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaa7f"
_LETTERS_A_WORD = ((re.compile(f"[{_HAN}]"), 2), (re.compile(f"[{_THAI}]"), 4))
UNSPACED_LETTERS = _HAN + _THAI
"""Content of a character class of a regular expression."""
UNSPACED = re.compile(f"[{UNSPACED_LETTERS}]")


def count_words(text: str) -> int:
    """The number of words of a text after `fold`, at least 1: the pieces between spaces.

    In scripts without spaces, a word is two letters of Chinese or Japanese, or four signs of Thai,
    Lao, Tibetan, Burmese or Khmer; in such a text, pieces of other scripts count if they have
    letters or digits.
    """
    if text.isascii() or not UNSPACED.search(text):
        return text.count(" ") + 1
    unspaced = sum(len(letter.findall(text)) / size for letter, size in _LETTERS_A_WORD)
    others = UNSPACED.sub(" ", text).split()
    return max(round(unspaced) + sum(any(map(str.isalnum, piece)) for piece in others), 1)


def words_sql(column: str) -> str:
    """`count_words` as a DuckDB expression."""

    def count(pattern: str, text: str = column) -> str:
        return f"len(regexp_extract_all({text}, '{pattern}'))"

    unspaced = " + ".join(f"{count(one.pattern)} / {size}" for one, size in _LETTERS_A_WORD)
    rest = f"regexp_replace({column}, '{UNSPACED.pattern}', ' ', 'g')"
    others = count(r"\S*[\p{L}\p{N}]\S*", rest)
    spaced = f"length({column}) - length(replace({column}, ' ', '')) + 1"
    return f"""CASE WHEN regexp_matches({column}, '{UNSPACED.pattern}')
        THEN greatest(round_even({unspaced}, 0)::BIGINT + {others}, 1) ELSE {spaced} END"""


def is_unspaced(text: str) -> bool:
    """Whether most letters of a text are of a script without spaces."""
    return 2 * len(UNSPACED.findall(text)) > sum(map(str.isalpha, text))


# Control characters except white space, and invisible marks: texts that look equal would differ.
_CONTROL = (*range(0x00, 0x09), *range(0x0E, 0x1C), *range(0x7F, 0x85), *range(0x86, 0xA0))
_INVISIBLE = dict.fromkeys((*_CONTROL, 0xAD, 0x200B, 0x2060, 0xFEFF))


def fold(text: str) -> str:
    """The text in NFC, without control characters; each run of white space becomes one space."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    if not text.isprintable():
        text = text.translate(_INVISIBLE)
    return " ".join(text.split())


def encodable(text: str) -> bool:
    """Whether the text can be encoded as UTF-8: it has no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


# Scripts from this character on are written without spaces, or join words.
_WITHOUT_WORDS = "\u0590"


def inside(text: str, place: int) -> bool:
    """Whether this offset is inside a word; False in scripts without spaces."""
    if not 0 < place < len(text):
        return False
    around = text[place - 1 : place + 1]
    return max(around) < _WITHOUT_WORDS and all(c.isalnum() or c == "_" for c in around)
