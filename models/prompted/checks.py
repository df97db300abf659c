"""Unwraps a language model's answers and checks that they are usable as sentences.

All checks are conservative: doubtful cases pass, and an answer may repeat what its source has.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models.english.inflection import plural, singulars
from tercet.models.english.numbers import SCALES, Number, numbers_in
from tercet.models.prompted import wording
from tercet.models.prompted.wording import OPEN_THOUGHT, THOUGHTS
from tercet.models.text.languages import foreign_language, foreign_script
from tercet.models.text.shingles import GRAM
from tercet.models.text.words import fold, inside

Flags: TypeAlias = npt.NDArray[np.bool_]
# The checks of each answer, by name.
Checks: TypeAlias = Sequence[frozenset[str]]

# Minimum length in characters of a repeated piece of the prompt, and of a repeated source or a
# piece that occurs twice in the answer.
_ECHO, _REPEATED = 30, 20

_FENCE = r"(?s)^```(?:[A-Za-z]*[ \t]*\n)?(.*?)```$"
# LaTeX around the whole answer; `mended` would read its \text as a tab and "ext".
_BOX = r"(?s)^\$*\\boxed\{(?:\\text\{([^{}]*)\}|([^{}]*))\}\$*$"
# Emoji and bold around the answer.
_EMOJI = r"[\x{1F000}-\x{1FAFF}\x{2600}-\x{27BF}\x{2B50}\x{FE0F}\x{200D}]"
_AROUND = (
    (rf"^{_EMOJI}+\s*|\s*{_EMOJI}+$", ""),
    (r"(?s)^\*\*([^*]*)\*\*$", r"\1"),
)
_QUOTES = ('""', "''", "``", "“”", "‘’", "«»", "„“", "「」")
_QUOTED = "|".join(f"{pair[0]}([^{pair}]*){pair[1]}" for pair in _QUOTES)
_UNQUOTED = "".join(f"\\{number}" for number in range(1, len(_QUOTES) + 1))

_MARKS = r"\"'“”«»„.,:;!?…。！？"
_PARTS = re.compile(r"\n+|[.:;!?][\"”’]?\s+")
# Words that state a number, but are too common to prove that an old number is still there.
_OTHERWISE = [
    (re.compile(rf"\b(?:{words})\b", re.IGNORECASE), Fraction(value))
    for words, value in (
        *(("no|none", 0), ("an?|single|once", 1), ("pair|couple|both|twice", 2), ("dozen", 12)),
        *((f"an? {scale}", value) for scale, value in {"hundred": 100, **SCALES}.items()),
    )
]


def without_thoughts(raws: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The trimmed answers without closed thoughts (`wording.THOUGHTS`), and whether each has a
    thought that was never closed."""
    texts = pc.utf8_trim_whitespace(pc.fill_null(raws, ""))
    texts = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, THOUGHTS, ""))
    return texts, pc.match_substring_regex(texts, OPEN_THOUGHT)


def unwrapped(
    raws: pa.ChunkedArray, sources: pa.ChunkedArray
) -> tuple[pa.ChunkedArray, pa.ChunkedArray, Flags]:
    """Unwraps answers: removes thoughts (`without_thoughts`), control tokens at the end, and a box,
    a code fence, emoji, bold and quotation marks around the whole answer; applies `mended`.

    sources: the sentences that the answers rewrite. Returns the texts, whether each has an unclosed
    thought, and whether each is damaged.
    """
    texts, unclosed = without_thoughts(raws)
    texts = pc.replace_substring_regex(texts, _BOX, r"\1\2")
    answers = zip(texts.to_pylist(), pc.fill_null(sources, "").to_pylist(), strict=True)
    pairs = [mended(text, source) for text, source in answers]
    texts = pa.chunked_array([[text for text, _ in pairs]], pa.string())
    texts = pc.replace_substring_regex(texts, f"(?i){wording.END_TOKENS}", "")
    texts = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, _FENCE, r"\1"))
    for pattern, replacement in _AROUND:
        texts = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, pattern, replacement))
    texts = pc.replace_substring_regex(texts, f"(?s)^(?:{_QUOTED})$", _UNQUOTED)
    damaged = np.array([damage for _, damage in pairs], dtype=np.bool_)
    return pc.utf8_trim_whitespace(texts), unclosed, damaged


def faults(
    answers: pa.Table, unclosed: pa.ChunkedArray, damaged: Flags
) -> list[tuple[str, str] | None]:
    """For each answer, (reason, explanation) of its most serious fault, or None.

    answers: text (unwrapped), source (the sentence or passage), prompt (rendered), shots (the
        answers of worked examples), checks (`generation.Check`, of the method), and operation, old,
        new, pool of `DETAIL`, or null.
    unclosed, damaged: as returned by `unwrapped`.

    Reasons: cut_off, damaged, empty (no letter and no digit, or a word for nothing), refusal,
    preamble (or a remark after the answer), echo (of the prompt, or of the whole source), markup
    (a control token, a tag, a list's marker, JSON), several_lines, repetition, same_as_source
    (except for case and punctuation), wrong_script, wrong_language, no_question,
    unchanged_entity, missing_entity, unchanged_number, missing_number; and the reasons of
    `query_faults`.
    """
    texts, sources = answers["text"], pc.fill_null(answers["source"], "")
    bare, bare_sources = _bare(texts), _bare(sources)
    same = pc.and_(pc.equal(bare, bare_sources), pc.not_equal(bare, ""))
    spoken = _fits(texts, wording.SPOKEN)
    remarks = (_new(texts, sources, wording.PREAMBLE) & ~spoken) | _new(
        texts, sources, wording.AFTERWORD
    )
    remarks |= _new(texts, sources, wording.LABEL) & ~_fits(sources, wording.THINGS)
    checks = [frozenset(names or ()) for names in answers["checks"].to_pylist()]
    outcomes: list[tuple[str, str] | None] = _changes(answers, checks)
    for row, reason, because in query_faults(answers):
        outcomes[row] = (reason, because)
    # From the least to the most serious fault: a later one replaces an earlier one.
    flagged: list[tuple[Flags, str, str]] = [
        (_asks_nothing(texts, checks), "no_question", "it does not end in a question mark"),
        (foreign_language(texts, sources), "wrong_language", "the sentence is of another language"),
        (foreign_script(texts, sources), "wrong_script", "the sentence is of another script"),
        (same.to_numpy(), "same_as_source", "only its punctuation is another"),
        (_repeats(texts, sources), "repetition", "it says the same twice"),
        (_new(texts, sources, r"[\n\r]"), "several_lines", "there is a line break in it"),
        (
            _new(texts, sources, wording.MARKUP),
            "markup",
            "it has a tag, a list's marker or JSON",
        ),
        (remarks, "preamble", "it speaks of the answer"),
        (_echoes(answers, sources), "echo", "it repeats the prompt"),
        (_new(texts, sources, wording.RECORD), "echo", "it repeats the record"),
        (_contains(bare, bare_sources, checks), "echo", "it repeats the whole sentence"),
        (_new(texts, sources, wording.REFUSAL) & ~spoken, "refusal", "the model declined"),
        (damaged, "damaged", "characters of it are lost or garbled"),
        (_new(texts, sources, wording.NOTHING), "empty", "it says nothing"),
        (unclosed.to_numpy(), "cut_off", "its thought was never closed"),
    ]
    for flags, reason, because in flagged:
        for row in np.flatnonzero(flags).tolist():
            outcomes[row] = (reason, because)
    return outcomes


def _fits(texts: pa.ChunkedArray, pattern: str) -> Flags:
    return np.asarray(pc.match_substring_regex(texts, pattern, ignore_case=True).to_numpy())


def _new(texts: pa.ChunkedArray, sources: pa.ChunkedArray, pattern: str) -> Flags:
    """Whether the pattern matches a text but not its source."""
    return _fits(texts, pattern) & ~_fits(sources, pattern)


def _bare(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """The texts in lower case, without punctuation around words; it stays inside ("1.5", "C++")."""
    texts = pc.replace_substring_regex(pc.utf8_lower(texts), "[’‘]", "'")
    for pattern, with_ in (
        (rf"[{_MARKS})]+(\s|$)", r"\1"),
        (rf"(\s|^)[{_MARKS}(]+", r"\1"),
        (r"\s+", " "),
    ):
        texts = pc.replace_substring_regex(texts, pattern, with_)
    return pc.utf8_trim_whitespace(texts)


def _contains(bare: pa.ChunkedArray, bare_sources: pa.ChunkedArray, checks: Checks) -> Flags:
    """Whether an answer that should be another sentence contains the whole source and more."""
    flags = np.array(["whole_source" in names for names in checks], dtype=np.bool_)
    pairs = zip(bare.to_pylist(), bare_sources.to_pylist(), strict=True)
    for row, (text, source) in enumerate(pairs):
        flags[row] &= len(text) > len(source) >= _REPEATED and _whole(text, source)
    return flags


def _asks_nothing(texts: pa.ChunkedArray, checks: Checks) -> Flags:
    """Whether an answer that should be a question does not end like one."""
    checked = np.array(["question" in names for names in checks], dtype=np.bool_)
    return checked & ~_fits(texts, wording.ENDS_AS_QUESTION.pattern)


def _repeats(texts: pa.ChunkedArray, sources: pa.ChunkedArray) -> Flags:
    """Whether a text repeats a longer piece, and its source repeats none."""
    flags = np.zeros(len(texts), dtype=np.bool_)
    rows = np.flatnonzero(_fits(texts, r"[.!?;:]\s"))
    some = zip(*(one.take(pa.array(rows)).to_pylist() for one in (texts, sources)), strict=True)
    for row, (text, source) in zip(rows.tolist(), some, strict=True):
        flags[row] = _twice(text) and not _twice(source)
    return flags


def _twice(text: str) -> bool:
    pieces = [piece.strip(' .!?"”’') for piece in _PARTS.split(text.lower())]
    longer = [piece for piece in pieces if len(piece) >= _REPEATED]
    return len(set(longer)) < len(longer)


def _echoes(answers: pa.Table, sources: pa.ChunkedArray) -> Flags:
    """Whether an answer repeats a longer piece of the prompt, or the answer of a worked example,
    that its source does not have."""
    flags = np.zeros(answers.num_rows, dtype=np.bool_)
    columns = [pc.utf8_lower(column).to_pylist() for column in (answers["text"], sources)]
    prompts, shots = answers["prompt"].to_pylist(), answers["shots"].to_pylist()
    for row, (prompt, shown, text, source) in enumerate(zip(prompts, shots, *columns, strict=True)):
        if len(text) < _REPEATED:
            continue
        pieces = [one for one in _PARTS.split((prompt or "").lower()) if len(one) >= _ECHO]
        pieces += [one.lower().rstrip(".") for one in shown or () if len(one) > _REPEATED]
        flags[row] = any(piece in text and piece not in source for piece in pieces)
    return flags


def _changes(answers: pa.Table, checks: Checks) -> list[tuple[str, str] | None]:
    """For each answer, (reason, explanation) if its entity or number was not changed as requested,
    else None."""
    outcomes: list[tuple[str, str] | None] = [None] * answers.num_rows
    changes = {"new_entity", "new_number", "new_record"}
    rows = [row for row, names in enumerate(checks) if names & changes]
    names = ("text", "source", "old", "new", "pool")
    columns = [answers[name].take(pa.array(rows, pa.int64())).to_pylist() for name in names]
    for row, text, source, old, new, pool in zip(rows, *columns, strict=True):
        if new is None:
            continue
        # An answer to a record may use the old entity or number elsewhere.
        keeps_old = "new_record" in checks[row]
        # In a changed record, an entity has a pool, and a number has none.
        if "new_number" in checks[row] or (keeps_old and pool is None):
            if not _is_stated(text, source or "", old, new):
                outcomes[row] = ("missing_number", f"{new} is not there")
            elif not keeps_old and _is_left(text, source or "", old, new):
                outcomes[row] = ("unchanged_number", f"{old} is still there beside {new}")
            continue
        has_new, has_old = stands(text, new), old is not None and stands(text, old)
        if not has_new:
            outcomes[row] = (
                ("unchanged_entity", f"{old} is not changed for {new}")
                if has_old
                else ("missing_entity", f"{new} is not there")
            )
        elif has_old and not keeps_old and not stands(new, old):
            outcomes[row] = ("unchanged_entity", f"{old} is still there beside {new}")
    return outcomes


def stands(text: str, name: str) -> bool:
    """Whether the text has the name as whole words, ignoring case and grammatical number."""
    lower = text.lower()
    return any(_whole(lower, form) for form in _forms(name))


@lru_cache(maxsize=1 << 14)
def _forms(name: str) -> Sequence[str]:
    """The name, its singular and its plural, in lower case."""
    head, space, last = name.lower().rpartition(" ")
    ones = [last, plural(last), *singulars(last)]
    return tuple(dict.fromkeys(head + space + one for one in ones if one))


def _whole(text: str, name: str) -> bool:
    at = text.find(name)
    while at >= 0:
        if not inside(text, at) and not inside(text, at + len(name)):
            return True
        at = text.find(name, at + 1)
    return False


def _is_stated(text: str, source: str, old: str | None, new: str) -> bool:
    """Whether the text has the new number, in digits or words, more often than the source.

    If the old number is the integer part of another one ("2" in "2 and a half"), the new number may
    be an integer part too.
    """
    renewed = _values(new)
    if not renewed:
        return _whole(text.lower(), new.lower())
    joined = not _values(old or "") - _values(source)
    after = _values(text, joined) + _otherwise(text)
    before = _values(source, joined) + _otherwise(source)
    return all(after[value] > before[value] for value in renewed)


def _is_left(text: str, source: str, old: str | None, new: str) -> bool:
    """Whether the text has the old number as often as the source."""
    if old is not None and not _values(old):
        return _whole(text.lower(), old.lower())
    after, before, renewed = _values(text), _values(source), _values(new)
    return any(
        after[value] >= before[value] > 0 and not renewed[value] for value in _values(old or "")
    )


def _values(text: str, joined: bool = True) -> Counter[Fraction]:
    """Counts of numbers. joined: "three and a half" is one number, else two."""
    if not joined:
        return Counter(one.value for one in numbers_in(text))
    values: Counter[Fraction] = Counter()
    whole: Number | None = None
    for one in numbers_in(text):
        linked = whole is not None and text[whole.end : one.start] in (" ", " and ", "-and-")
        if whole is not None and linked and one.form.startswith("fraction") and one.value < 1:
            values[whole.value] -= 1
            values[whole.value + one.value] += 1
            whole = None
        else:
            values[one.value] += 1
            whole = one if one.value.denominator == 1 else None
    return +values


def _otherwise(text: str) -> Counter[Fraction]:
    """Counts of numbers in words that are not numerals."""
    return +Counter({value: len(words.findall(text)) for words, value in _OTHERWISE})


# Damage: escapes, HTML entities and wrong encodings in an answer.
_LINES = re.compile(r"\r\n|\r|\n")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
_ESCAPE = re.compile(
    r"""(?:\\+u[0-9a-fA-F]{4})+|\\U[0-9a-fA-F]{8}|\\x[0-9a-fA-F]{2}|\\[nrt"'/\\]"""
)
_UNIT = re.compile(r"\\u([0-9a-fA-F]{4})")
_LETTERS = {"n": "\n", "r": "\n", "t": " "}
_LOST = "\ufffd"
# UTF-8 decoded as Windows-1252: each byte became a non-ASCII character.
_RUN = re.compile(r"[^\x00-\x7f]{2,}")
# Characters that follow an accented letter in correct texts too: `“café”…`.
_CLOSING = frozenset("“”‘’„‚…–—•™»«›‹·°²³¹\u00a0")


def mended(text: str, source: str) -> tuple[str, bool]:
    """The answer with HTML entities and JSON escapes resolved and `fold` applied to each line, and
    whether characters are lost or garbled."""
    if "&" in text and not _ENTITY.search(source):
        # Repeatedly, since double escapes are common; each pass shortens the text.
        while _ENTITY.search(text) and (unescaped := html.unescape(text)) != text:
            text = unescaped
    if "\\" in text and "\\" not in source:
        text = _ESCAPE.sub(_unescaped, text)
    damaged = (_LOST in text and _LOST not in source) or (_garbled(text) and not _garbled(source))
    return "\n".join(fold(line) for line in _LINES.split(text)).strip(), damaged


def _unescaped(match: re.Match[str]) -> str:
    escape = match[0]
    if units := _UNIT.findall(escape):
        # Two escapes are a character outside the BMP; a single half becomes U+FFFD.
        return bytes.fromhex("".join(units)).decode("utf-16-be", "replace")
    if escape[1] in "Ux":
        code = int(escape[2:], 16)
        return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else _LOST
    return _LETTERS.get(escape[1], escape[1])


def _garbled(text: str) -> bool:
    """Whether a run of characters, taken as bytes, is UTF-8."""
    return not text.isascii() and any(_is_utf8(run) for run in _RUN.findall(text))


def _is_utf8(run: str) -> bool:
    if run[0] not in "ÂÃ" and set(run[1:]) <= _CLOSING:
        return False
    try:
        return len(b"".join(map(_byte, run)).decode()) < len(run)
    except (UnicodeDecodeError, UnicodeEncodeError):
        return False


def _byte(character: str) -> bytes:
    """The character's byte in Windows-1252, or in Latin-1 for the five bytes that it lacks."""
    try:
        return character.encode("cp1252")
    except UnicodeEncodeError:
        return character.encode("latin-1")


# Checks of queries to a passage.

# The operation of queries that are questions.
_QUESTION = "question"
_WORD = re.compile(r"\w+")
MOST = 40
_AGAIN = 3
# Minimum number of words of a query that count as copied from its passage.
_FEW = 4


def query_faults(answers: pa.Table) -> Iterator[tuple[int, str, str]]:
    """(row, reason, explanation) of the most serious fault of each faulty query.

    answers: text, source (the passage with its context), operation (the kind), checks; only rows
        with the check `query` are checked. Unlike in `faults`, a query may not repeat the passage,
        since a searcher has not seen it.

    Reasons: several_lines, too_long (over `MOST` words), repetition (of a word), preamble,
    speaks_of_text, copied_words (`GRAM` consecutive words of the passage, or the whole query), and
    for a question no_question.
    """
    checks = answers["checks"].to_pylist()
    rows = [row for row, names in enumerate(checks) if "query" in (names or ())]
    if not rows:
        return
    queries = answers.select(["text", "source", "operation"]).take(pa.array(rows))
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
        elif reference := _spoken(text, source):
            yield row, "speaks_of_text", f"it speaks of the text: {reference}"
        elif copied := _copied(text, source):
            yield row, "copied_words", f"the passage has it: {copied}"
        elif kind == _QUESTION and not wording.ENDS_AS_QUESTION.search(text):
            yield row, "no_question", "it does not end in a question mark"


def _looped(text: str) -> str | None:
    """A longer word that the query repeats `_AGAIN` times, since small models loop; else None."""
    words = Counter(word for word in _WORD.findall(text.lower()) if len(word) > 3)
    return next((word for word, times in words.items() if times >= _AGAIN), None)


def _spoken(text: str, source: str) -> str | None:
    """A reference of the query to the text that it was written for; None without one."""
    if match := wording.POINTING.search(text):
        return match[0]
    match = wording.OF_TEXT.search(text)
    return match[0] if match and match[0].lower() not in source.lower() else None


def _copied(text: str, source: str) -> str | None:
    """The first `GRAM` consecutive words of the query, or all if it has fewer, in the passage.

    None without such words, and for fewer than `_FEW` words, which may be a common term.
    """
    words, passage = _WORD.findall(text.lower()), f" {' '.join(_WORD.findall(source.lower()))} "
    size = min(GRAM, max(len(words), _FEW))
    runs = (" ".join(words[at : at + size]) for at in range(len(words) - size + 1))
    return next((run for run in runs if f" {run} " in passage), None)
