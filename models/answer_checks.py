"""What a language model's answer must be to stand for a sentence: wrapping taken off, faults told.

All checks are conservative: a sentence that only resembles a fault passes, and what the source
says itself is no fault of its answer.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models.knowledge.whole_words import inside
from tercet.models.knowledge.words import singulars
from tercet.models.languages import foreign_language, foreign_script
from tercet.models.rules import numerals
from tercet.models.rules.words import plural

Flags: TypeAlias = npt.NDArray[np.bool_]

# Operation of a sentence that was written from a changed record.
_RECORD = "write_from_changed_knowledge"
# A piece of the prompt that comes again in the answer has at least so many characters.
_ECHO = 30

_THOUGHTS = r"(?s)^.*</think(?:ing)?>"
_OPEN = r"^<think(?:ing)?>"
_FENCE = r"(?s)^```(?:[A-Za-z]*[ \t]*\n)?(.*?)```$"
_QUOTES = ('""', "''", "``", "“”", "‘’", "«»", "„“", "「」")
_QUOTED = "|".join(f"{pair[0]}([^{pair}]*){pair[1]}" for pair in _QUOTES)
_UNQUOTED = "".join(f"\\{number}" for number in range(1, len(_QUOTES) + 1))

_SORRY = (
    r"(?:i(?:['’]m| am)(?: very| so| really| truly)? (?:sorry|afraid)|sorry|(?:my )?apologies"
    r"|i apologi[sz]e|unfortunately|regrettably)[,.:;!—– -]+"
)
_MACHINE = (
    r"as an? (?:ai|artificial intelligence|(?:ai |large )?language model|chatbot)"
    r"(?: language)?(?: model| assistant| system)?,? (?:i|my|we|it)\b"
)
_CANNOT = (
    r"i(?:(?:['’]m| am) (?:unable|not able)(?: to)?|['’]ll have to decline(?: to)?"
    r"| (?:can(?:not| not|['’]t)|could not|couldn['’]t|will not|won['’]t|must decline(?: to)?))"
)
_SERVE = (
    r" (?:assist|help (?:you|with)|fulfil|fulfill|comply|provide|re-?write|rephrase|paraphrase"
    r"|generate|write (?:that|this|the|an?|such|about)|respond|engage in|contradict"
    r"|(?:create|produce) (?:that|this|such|content)|(?:answer|complete|process) (?:that|this|your)"
    r"|do (?:that|this|so)|(?:see|find|identify) (?:the|any|a) (?:sentence|text))\b"
)
_REFUSAL = (
    rf"^(?:(?:{_SORRY})?(?:but |that )?{_MACHINE}"
    rf"|{_SORRY}(?:but|that) {_CANNOT}\b"
    rf"|(?:{_SORRY})?(?:but |that )?{_CANNOT}{_SERVE}"
    r"|(?:please|(?:could|can|would) you(?: please)?) (?:provide|share|give)(?: me)?(?: with)? "
    r"(?:the|a|your|more) (?:(?:original|full) )?(?:sentence|text|context)\b"
    r"|(?:there (?:is|was)|there['’]s) no (?:sentence|text) (?:provided|given|to|in your|below)\b"
    r"|you (?:have not|haven['’]t|did not|didn['’]t) (?:provided?|given?) (?:the|an?|any) "
    r"(?:sentence|text)\b)"
)
_WORDED = (
    r"(?:re-?written|rephrased|paraphrased|reworded|revised|modified|changed|edited|altered|updated"
    r"|corrected|contradict(?:ing|ory)|opposite|preceding|resulting|transformed)"
)
_PIECE = r"(?:sentence|text|version|statement|rewrite|rewriting|paraphrase|rephrasing|revision)"
_OPENING = (
    r"(?:sure|certainly|of course|absolutely|ok|okay|alright|no problem|gladly|great)"
    r"(?: thing)?[,.!:;—– -]+"
)
_PREAMBLE = (
    rf"^[*#\s]*(?:(?:{_OPENING})?(?:here|below|this|the following)(?: is| are|['’]s| you go)\b"
    rf"[^.?!\n]{{0,80}}\b(?:{_WORDED}|{_PIECE})\b[^.?!\n:]{{0,60}}:"
    rf"|{_OPENING}(?:here|below|this)(?: is| are|['’]s| you go)\b[^.?!\n:]{{0,80}}(?::|[.!]?\n)"
    rf"|{_OPENING}(?:i(?:['’]ll| will| can|['’]d)|let me|happy to)[^.?!\n]{{0,20}} "
    r"(?:rewrite|rephrase|paraphrase|help you|help with|revise|provide you|do that for you)\b"
    rf"|(?:(?:the |your |my )?(?:{_WORDED}|new|original|final|previous|next|generated|output)"
    rf"(?: version of the)? (?:{_PIECE}|answer|passage|output)|sentence|answer|assistant"
    r"|rewrite|rewriting|rewritten|paraphrase|paraphrased|rephrasing|rephrased|reworded)"
    r"(?: \d+)?[*\s]*:)"
)
_BLANK_LINE = r"\n[ \t\r]*\n"
_PARTS = re.compile(r"\n+|[.:;!?][\"”’]?\s+")


def without_thoughts(raws: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The answers behind what was only thought (up to the last ``</think>``), trimmed, and
    whether a thought was never closed."""
    texts = pc.utf8_trim_whitespace(pc.fill_null(raws, ""))
    texts = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, _THOUGHTS, ""))
    return texts, pc.match_substring_regex(texts, _OPEN)


def unwrapped(raws: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The same without one code fence and one pair of quotation marks around the whole answer."""
    texts, unclosed = without_thoughts(raws)
    texts = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, _FENCE, r"\1"))
    texts = pc.replace_substring_regex(texts, f"(?s)^(?:{_QUOTED})$", _UNQUOTED)
    return pc.utf8_trim_whitespace(texts), unclosed


def faults(said: pa.Table, unclosed: pa.ChunkedArray) -> list[tuple[str, str] | None]:
    """For each answer (reason, why, in words), or None where nothing is wrong with it.

    said: text (unwrapped), source (the sentence it stands for), prompt (as it was rendered), and
        operation, old, new, pool, as `DETAIL` has them; strings, null where there is none.
    unclosed: whether its thought was never closed, as `unwrapped` tells.

    Reasons: cut_off, refusal, preamble, echo (of the prompt), several_paragraphs, wrong_script,
    wrong_language, unchanged_entity, missing_entity, missing_number.
    """
    texts, sources = said["text"], pc.fill_null(said["source"], "")
    found: list[tuple[str, str] | None] = _changes(said)
    # From the weakest to the strongest: a later one takes a former one's place.
    flagged: list[tuple[Flags, str, str]] = [
        (foreign_language(texts, sources), "wrong_language", "the sentence is of another language"),
        (foreign_script(texts, sources), "wrong_script", "the sentence is of another script"),
        (_new(texts, sources, _BLANK_LINE), "several_paragraphs", "there is an empty line in it"),
        (_new(texts, sources, _PREAMBLE), "preamble", "it speaks of the answer first"),
        (_echoes(said, sources), "echo", "it repeats the prompt"),
        (_new(texts, sources, _REFUSAL), "refusal", "the model declined"),
        (unclosed.to_numpy(), "cut_off", "its thought was never closed"),
    ]
    for flags, reason, because in flagged:
        for row in np.flatnonzero(flags).tolist():
            found[row] = (reason, because)
    return found


def _new(texts: pa.ChunkedArray, sources: pa.ChunkedArray, pattern: str) -> Flags:
    """Whether the pattern fits a text and not its source."""
    fits = pc.match_substring_regex(texts, pattern, ignore_case=True)
    already = pc.match_substring_regex(sources, pattern, ignore_case=True)
    return np.asarray(pc.and_not(fits, already).to_numpy())


def _echoes(said: pa.Table, sources: pa.ChunkedArray) -> Flags:
    """Whether a longer piece of the prompt, that is not the source's own, stands in the answer."""
    flags = np.zeros(said.num_rows, dtype=np.bool_)
    columns = [pc.utf8_lower(column) for column in (said["prompt"], said["text"], sources)]
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    for row, (prompt, text, source) in enumerate(rows):
        if prompt is None or len(text) < _ECHO:
            continue
        flags[row] = any(
            len(piece) >= _ECHO and piece in text and piece not in source
            for piece in _PARTS.split(prompt)
        )
    return flags


def _changes(said: pa.Table) -> list[tuple[str, str] | None]:
    """What is wrong with the entity or the number that was to be changed, row by row."""
    found: list[tuple[str, str] | None] = [None] * said.num_rows
    changes = pc.is_in(said["operation"], pa.array(["revise_entity", "revise_quantity", _RECORD]))
    rows = np.flatnonzero(pc.fill_null(changes, False).to_numpy(zero_copy_only=False))
    columns = [said[name].take(pa.array(rows)) for name in ("operation", "old", "new", "pool")]
    listed = zip(rows.tolist(), *(c.to_pylist() for c in columns), strict=True)
    told = [said[name].take(pa.array(rows)).to_pylist() for name in ("text", "source")]
    for (row, operation, old, new, pool), text, source in zip(listed, *told, strict=True):
        if new is None:
            continue
        # A record's change says where the entity came from; a number comes from nowhere.
        if operation == "revise_quantity" or (operation == _RECORD and pool is None):
            if not _is_said(text, source or "", new):
                found[row] = ("missing_number", f"{new} is not there")
            continue
        there, left = stands(text, new), old is not None and stands(text, old)
        if not there:
            found[row] = (
                ("unchanged_entity", f"{old} is not changed for {new}")
                if left
                else ("missing_entity", f"{new} is not there")
            )
        elif left and operation == "revise_entity" and not stands(new, old):
            found[row] = ("unchanged_entity", f"{old} is still there beside {new}")
    return found


def stands(text: str, name: str) -> bool:
    """Whether the text has the name as whole words, in whatever letter case and number."""
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


def _is_said(text: str, source: str, number: str) -> bool:
    """Whether the text has the number, in digits or in words, more often than the source has."""
    wanted = numerals.find(number)
    if not wanted:
        return _whole(text.lower(), number.lower())
    there = Counter(one.value for one in numerals.find(text))
    before = Counter(one.value for one in numerals.find(source))
    return all(there[one.value] > before[one.value] for one in wanted)
