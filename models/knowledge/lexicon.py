"""The lexicon: typed nouns by which entities are recognised, synonyms and antonyms.

A lexicon is a UTF-8 file, plain or gzipped. Its header tells which of two formats it has:

- Tercet's: tab-separated ``noun, types`` and optionally ``synonyms, antonyms``. Several values of a
  cell are separated by ``|``; the preferred type is first. A noun with a capital letter matches
  capitalised text only.
- Open English WordNet's: tab-separated ``synset_id, pos, lexfile, members, definition, examples``;
  members are separated by ``|``. The lexfile is the type of a noun ("noun.food" gives "food").
  Words with a single meaning that share a synset are synonyms.

The built-in pairs (antonyms.tsv, synonyms.tsv) are added to every lexicon.
"""

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tercet.models.knowledge.tokens import CAPITALISED, CAPITALS, LOWER, kind_of, words_of

Ints = npt.NDArray[np.int64]
MAX_WORDS = 4


@dataclass(frozen=True)
class Phrases:
    """A trie of phrases of 1 to `MAX_WORDS` words.

    words: from word to number, below `len(words)`; these numbers are the nodes of the first level.
    keys: sorted, ``node << 32 | word`` for each step from a node to a longer phrase.
    nodes: the node that each key leads to.
    entries: from node to the number of the phrase that ends there; -1 for none.
    """

    words: dict[str, int]
    keys: npt.NDArray[np.uint64]
    nodes: Ints
    entries: Ints

    def step(self, node: Ints, word: Ints) -> Ints:
        """The node one word further, row by row; -1 for none."""
        if not len(self.keys):
            return np.full(len(node), -1, dtype=np.int64)
        valid = (node >= 0) & (word >= 0)
        key = (np.where(valid, node, 0).astype(np.uint64) << np.uint64(32)) | np.where(
            valid, word, 0
        ).astype(np.uint64)
        at = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        return np.where(valid & (self.keys[at] == key), self.nodes[at], -1)

    def entry(self, node: Ints) -> Ints:
        """The phrase that ends at each node; -1 for none and for the node -1."""
        return np.where(node >= 0, self.entries[node], -1)


def phrase_trie(phrases: Iterable[Sequence[str]]) -> Phrases:
    """The trie of phrases, which are sequences of words; the n-th phrase has the number n.

    A repeated phrase keeps its first number. Raises ValueError for a phrase without words or with
    more than `MAX_WORDS`.
    """
    words: dict[str, int] = {}
    rows = [tuple(phrase) for phrase in phrases]
    for row in rows:
        if not 1 <= len(row) <= MAX_WORDS:
            raise ValueError(f"a phrase has 1 to {MAX_WORDS} words, not {len(row)}: {row!r}")
        for word in row:
            if word not in words:
                words[word] = len(words)
    count = len(words)
    steps: dict[int, int] = {}
    ends: dict[int, int] = {}
    for number, row in enumerate(rows):
        node = words[row[0]]
        for word in row[1:]:
            key = node << 32 | words[word]
            node = steps.setdefault(key, count + len(steps))
        ends.setdefault(node, number)
    keys = np.fromiter(steps.keys(), dtype=np.uint64, count=len(steps))
    nodes = np.fromiter(steps.values(), dtype=np.int64, count=len(steps))
    order = np.argsort(keys)
    entries = np.full(max(1, count + len(steps)), -1, dtype=np.int64)
    entries[np.fromiter(ends.keys(), dtype=np.int64, count=len(ends))] = np.fromiter(
        ends.values(), dtype=np.int64, count=len(ends)
    )
    return Phrases(words, keys[order], nodes[order], entries)


DATA_FILES = ("lexicon.tsv", "antonyms.tsv", "synonyms.tsv")

_HERE = Path(__file__).parent
_OURS = ("noun", "types")
_WORDNET = ("synset_id", "pos", "lexfile", "members")
_POS = {"n": "noun", "v": "verb", "a": "adjective", "s": "adjective", "r": "adverb"}


@dataclass(frozen=True)
class Group:
    """Synonyms of each other, or a pair of antonyms.

    pos: noun, verb, adjective, adverb, preposition, linking (words like "however"), or entity:
        words so alike that swapping entities between them changes nothing.
    loose: words that may replace the group's other words but are not replaced themselves, since
    they have more
        senses; in parentheses in synonyms.tsv.
    """

    pos: str
    words: tuple[str, ...]
    loose: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lexicon:
    """Nouns as a trie of phrases, each with its types.

    types: names of the types. nouns: casefolded text of each entry.
    ordinary, proper: from entry to a set of types, for text without and with a capital letter; -1
        if the entry has no such sense. capitals: whether all senses of an entry are written in
        capitals (USA); the text must then be in capitals too.
    set_starts, set_types: set i is ``set_types[set_starts[i]:set_starts[i+1]]``, the preferred type
        first.
    """

    types: tuple[str, ...]
    nouns: tuple[str, ...]
    phrases: Phrases
    ordinary: Ints
    proper: Ints
    capitals: npt.NDArray[np.bool_]
    set_starts: Ints
    set_types: Ints
    synonyms: tuple[Group, ...]
    antonyms: tuple[Group, ...]

    def types_of(self, noun: str) -> tuple[str, ...]:
        """The types of a noun, the preferred first; () if unknown. Letter case matters."""
        folded = words_of(noun)
        if not 1 <= len(folded) <= MAX_WORDS:
            return ()
        node = np.array([self.phrases.words.get(folded[0], -1)])
        for word in folded[1:]:
            node = self.phrases.step(node, np.array([self.phrases.words.get(word, -1)]))
        entry = int(self.phrases.entry(node)[0])
        if entry < 0:
            return ()
        type_set = int((self.proper if noun[:1].isupper() else self.ordinary)[entry])
        if type_set < 0:
            return ()
        chosen = self.set_types[self.set_starts[type_set] : self.set_starts[type_set + 1]]
        return tuple(self.types[number] for number in chosen)


def load_lexicon(path: Path | None = None) -> Lexicon:
    """Loads a lexicon, by default the built-in one; cached in memory until the file changes.

    Raises ValueError with one sentence that names the file and line at fault.
    """
    chosen = _HERE / "lexicon.tsv" if path is None else Path(path)
    try:
        stat = chosen.stat()
    except OSError as error:
        raise ValueError(f"lexicon {chosen}: the file cannot be read ({error.strerror})") from None
    return _load(str(chosen), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=2)
def _load(path: str, _modified: int, _size: int) -> Lexicon:
    source = Path(path)
    lines = _lines(source)
    header = tuple(next(lines, (0, ""))[1].split("\t"))
    if header[:2] == _OURS:
        senses, synonyms, antonyms = _read_ours(source, header, lines)
    elif header[:4] == _WORDNET:
        senses, synonyms, antonyms = _read_wordnet(source, header, lines)
    else:
        raise ValueError(
            f"{source}, line 1: a lexicon begins with the columns {', '.join(_OURS)} or "
            f"{', '.join(_WORDNET)}, parted by tabs"
        )
    if not senses:
        raise ValueError(f"{source}, line 1: the lexicon has no noun")
    shipped = load_pairs()
    return _built(senses, (*shipped[0], *synonyms), (*shipped[1], *antonyms))


@lru_cache(maxsize=1)
def load_pairs() -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    """The built-in groups of synonyms and pairs of antonyms."""
    return _read_groups(_HERE / "synonyms.tsv"), _read_groups(_HERE / "antonyms.tsv")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The non-empty lines with their numbers, from 1."""
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (OSError, EOFError) as error:
        raise ValueError(f"lexicon {path}: the file cannot be read ({error})") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: the lexicon is not UTF-8 text") from None
    for number, row in enumerate(text.split("\n"), start=1):
        stripped = row.rstrip("\r")
        if stripped:
            yield number, stripped


def _values(cell: str) -> list[str]:
    return [value.strip() for value in cell.split("|") if value.strip()]


_Senses = dict[str, list[tuple[str, str]]]


def _read_ours(
    path: Path, header: Sequence[str], lines: Iterator[tuple[int, str]]
) -> tuple[_Senses, list[Group], list[Group]]:
    unknown = [name for name in header[2:] if name not in ("synonyms", "antonyms")]
    if unknown:
        raise ValueError(
            f"{path}, line 1: there is no column {unknown[0]!r} in a lexicon; after noun and types "
            "only synonyms and antonyms may follow"
        )
    senses: _Senses = {}
    pairs: dict[str, list[Group]] = {"synonyms": [], "antonyms": []}
    for number, line in lines:
        cells = line.split("\t")
        if not 2 <= len(cells) <= len(header):
            raise ValueError(
                f"{path}, line {number}: {len(cells)} columns where {len(header)} were promised"
            )
        noun, types = cells[0].strip(), _values(cells[1])
        if not noun or not types:
            missing = "type" if noun else "noun"
            raise ValueError(f"{path}, line {number}: the {missing} is missing")
        for name in types:
            senses.setdefault(noun.casefold(), []).append((noun, name))
        for name, cell in zip(header[2:], cells[2:], strict=False):
            others = _values(cell)
            if name == "antonyms":
                pairs[name] += [Group("noun", (noun, other)) for other in others]
            elif others:
                pairs[name].append(Group("noun", (noun, *others)))
    return senses, pairs["synonyms"], pairs["antonyms"]


def _read_wordnet(
    path: Path, header: Sequence[str], lines: Iterator[tuple[int, str]]
) -> tuple[_Senses, list[Group], list[Group]]:
    senses: _Senses = {}
    sets: list[tuple[str, list[str]]] = []
    meanings: Counter[str] = Counter()
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) < 4 or len(cells) > len(header):
            raise ValueError(
                f"{path}, line {number}: {len(cells)} columns where {len(header)} were promised"
            )
        pos, lexfile = cells[1], cells[2]
        members = cells[3].split("|")
        if pos not in _POS or not cells[3]:
            wrong = f"the part of speech {pos!r} is unknown" if cells[3] else "no member is named"
            raise ValueError(f"{path}, line {number}: {wrong}")
        folded = [member.casefold() for member in members]
        meanings.update(folded)
        if len(members) > 1:
            sets.append((_POS[pos], members))
        if pos == "n":
            name = lexfile.removeprefix("noun.")
            for member, fold in zip(members, folded, strict=True):
                senses.setdefault(fold, []).append((member, name))
    synonyms = []
    for part, members in sets:
        alone = tuple(word for word in members if meanings[word.casefold()] == 1)
        if len(alone) > 1:
            synonyms.append(Group(part, alone))
    return senses, synonyms, []


def _read_groups(path: Path) -> tuple[Group, ...]:
    groups = []
    for _, line in islice(_lines(path), 1, None):
        part, *cells = line.split("\t")
        members = _values("|".join(cells))
        plain = tuple(member.strip("()") for member in members)
        loose = tuple(
            word for word, spelling in zip(plain, members, strict=True) if word != spelling
        )
        groups.append(Group(part, plain, loose))
    return tuple(groups)


def _built(senses: _Senses, synonyms: tuple[Group, ...], antonyms: tuple[Group, ...]) -> Lexicon:
    numbers: dict[str, int] = {}
    sets: dict[tuple[int, ...], int] = {}
    nouns: dict[tuple[str, ...], str] = {}
    merged: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for fold, typed_nouns in senses.items():
        row = tuple(words_of(fold))
        if 1 <= len(row) <= MAX_WORDS and (len(row) > 1 or len(row[0]) > 1):
            if row in merged:
                merged[row] = merged[row] + typed_nouns
            else:
                merged[row] = typed_nouns
                nouns[row] = fold
    ordinary, proper, capitals = [], [], []
    for typed_nouns in merged.values():
        plain: dict[int, None] = {}
        names: dict[int, None] = {}
        only_capitals = True
        for noun, kind in typed_nouns:
            # The letter case that a text needs to match this noun.
            case = LOWER if noun == noun.lower() else CAPITALISED
            if case != LOWER and (noun.isupper() or kind_of(noun) == CAPITALS):
                case = CAPITALS
            only_capitals = only_capitals and case == CAPITALS
            (plain if case == LOWER else names)[numbers.setdefault(kind, len(numbers))] = None
        ordinary.append(sets.setdefault(tuple(plain), len(sets)) if plain else -1)
        proper.append(sets.setdefault(tuple(names | plain), len(sets)))
        capitals.append(only_capitals)
    sizes = [len(each) for each in sets]
    return Lexicon(
        types=tuple(numbers),
        nouns=tuple(nouns.values()),
        phrases=phrase_trie(merged),
        ordinary=np.array(ordinary, dtype=np.int64),
        proper=np.array(proper, dtype=np.int64),
        capitals=np.array(capitals, dtype=np.bool_),
        set_starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        set_types=np.array([number for each in sets for number in each], dtype=np.int64),
        synonyms=synonyms,
        antonyms=antonyms,
    )
