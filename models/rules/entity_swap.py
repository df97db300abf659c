"""Negatives by swapping an entity for a graph neighbour of its type (GCSE §3.1, eqs. 5-8).

A mention can be swapped if it is surely a noun, the head of its phrase, and not part of a term.
Entities of a spaCy pipeline, in any language, are names: they must only be separate from their
neighbours, and are swapped for names of exactly their type.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from tercet.models import seeding
from tercet.models.english.context import (
    BOUNDARY,
    DETERMINERS,
    Around,
    around,
    is_noun,
    is_number,
)
from tercet.models.english.inflection import is_plural, openers, plural
from tercet.models.english.words import (
    PREPOSITIONS,
    STOP_WORDS,
    capitalised,
    has_kind,
    of_one_kind,
    replaced,
    word_lists,
    word_set,
)
from tercet.models.generation import Method, MethodInput, Output, Several, methods
from tercet.models.knowledge.lexicon import load_pairs
from tercet.models.knowledge.pipeline import ELIDING, dictionary_form
from tercet.models.knowledge.replacements import POOLS, PREFERRED, Pick, Replacements
from tercet.models.runs import begins

DATA_FILES = ("entity_swap.tsv",)

_LISTS = word_lists(__file__)
_IDIOMATIC = _LISTS["idiomatic"]
# Endings of nouns that often name an action instead of a thing ("the application of").
_DEEDS = ("tion", "sion", "ment", "ing", "al", "ure", "sis", "use", "age", "ance", "ence")
_MASS = _LISTS["mass"]
_MASS_ENDS = ("ness", "ism", "ance", "ence", "ity", "ics", "ship", "cy", "osis", "itis", "emia")
_COUNTED = _LISTS["counted"]
# Types whose nouns can be swapped before "of": "the author of the book", not "the end of the book".
_WHOLE_TYPES = frozenset(("person", "animal", "plant", "illness", "food"))
_BARE_TYPES = frozenset(("substance", "food", "illness"))
# Types that measure something after a number or preposition: "two years", "for a year".
_MEASURES = frozenset(("time", "money", "attribute"))
_NEXT_TO = re.compile(r"(?:(\S+)\s+)?[\"“‘'`(\[]?$")
_BEHIND = re.compile(r"[\"”’'`]?\s+(\S+)")
# Languages in which all nouns are capitalised.
_CAPITALISING = ("de", "lb")
_TIED_BEFORE = frozenset("-/_.=@#~<$\\'’+*:&")
_TIED_AFTER = frozenset("-/_=(@~<>\\+*^[&'’")
# An elided word before a name: "L'Italie", "qu'Anne", "dell'Arno".
_ELIDED = re.compile(r"(?<!\w)[^\W\d]{1,6}['’]\Z")
# Nouns that often follow an identifier ("the foo parameter").
_CODE = _LISTS["code"]
_ACRONYM = re.compile(r"[A-Z0-9]*[A-Z][A-Z0-9]+s?")
_CLASSES = _LISTS["classes"]
_GIVEN_NAMES = _LISTS["given_names"]


def name_class(name: str) -> str:
    """The class of a proper name (river, person, …) by one of its words; "" if unknown."""
    words = name.split(" ")
    # "Secretary of State" is no state.
    for word in (words[0],) if "of" in words else (words[-1], words[0]):
        if word in _CLASSES:
            return word.removesuffix("s").casefold()
    return "person" if len(words) > 1 and words[0] in _GIVEN_NAMES else ""


def is_mass(noun: str) -> bool:
    """Whether the last word is a mass noun: without plural and indefinite article."""
    last = noun.rpartition(" ")[2].casefold()
    if last in _COUNTED:
        return False
    return last in _MASS or last.endswith(_MASS_ENDS) or plural(last) == last


def takes_count_noun(text: str, start: int, end: int, lemma: str | None) -> bool:
    """Whether only a count noun fits in the place of text[start:end]."""
    before = text[max(0, start - 12) : start].casefold().split()
    last = before[-1].lstrip("([\"'“‘`") if before else ""
    return last in ("a", "an", "each", "every", "one", "another") or is_plural(
        text[start:end], lemma
    )


def swappable(
    texts: Sequence[str],
    mentions: pa.Table,
    lemmas: Sequence[str | None],
    language: str | None = None,
) -> npt.NDArray[np.bool_]:
    """Which of the mentions of entities (row, text, type, start, end) can be swapped.

    lemmas: dictionary forms of their entities. language: of the pipeline that named them, else
    None. A mention cannot be swapped if its neighbours do not show that it is a noun and the head
    of its phrase, inside a hyphenated word, a longer name or an idiom, or if it measures something.
    """
    columns = (mentions[name].to_pylist() for name in ("row", "type", "start", "end"))
    fits = [
        _is_apart(texts[row], start, end)
        and (language in _CAPITALISING or not _is_within(texts[row], start, end))
        if by_pipeline(kind, language)
        else _fits(texts[row], start, end, kind, lemma)
        for row, kind, start, end, lemma in zip(*columns, lemmas, strict=True)
    ]
    return np.array(fits, dtype=np.bool_)


def by_pipeline(kind: str, language: str | None) -> bool:
    """Whether the type is a spaCy pipeline's. language: of the pipeline, None without one."""
    return language is not None and kind != "identifier"


def _is_apart(text: str, start: int, end: int) -> bool:
    """Whether no neighbour is joined to the mention, as in hyphenated words; "l'" may precede."""
    tied = start and text[start - 1] in _TIED_BEFORE
    if tied and not _ELIDED.search(text[max(0, start - 8) : start]):
        return False
    if text[end : end + 1] in _TIED_AFTER:
        return False
    return not (text[end : end + 1] == "." and text[end + 1 : end + 2].isalnum())


def _is_within(text: str, start: int, end: int) -> bool:
    """Whether a capitalised neighbour or a following number shows that the name is longer."""
    before = _NEXT_TO.search(text, max(0, start - 30), start)
    if before is not None and before.start(1) > 0 and before.group(1)[0].isupper():
        return True
    behind = _BEHIND.match(text, end)
    return behind is not None and (behind.group(1)[0].isupper() or behind.group(1)[0].isdigit())


def _fits(text: str, start: int, end: int, kind: str, lemma: str | None) -> bool:
    if (start and text[start - 1] in "'’") or not _is_apart(text, start, end):
        return False
    phrase = text[start:end]
    context = around(text, start, end)
    if phrase.isupper() and len(phrase) > 1 and has_kind(phrase.lower()):
        return False  # "FLOAT" is the name of a type
    if kind == "identifier":
        return not is_number(context.before) and (context.head or context.after in _CODE)
    if kind == "time" and phrase[0].isupper() and not has_kind(phrase):
        return False
    if kind == "name" or (phrase[0].isupper() and not context.opens):
        is_common = lemma is not None and lemma == lemma.lower()
        return _is_whole_name(text, start, end, kind, context, is_common)
    if phrase != phrase.lower() and not context.opens:
        return False
    if phrase == "row" and (context.earlier, context.before) == ("in", "a"):
        return False
    many = is_plural(phrase, lemma)
    folded = phrase.casefold()
    if folded in _IDIOMATIC or (lemma or "").casefold() in _IDIOMATIC:
        return False
    if kind in _MEASURES and (is_number(context.before) or context.before in PREPOSITIONS):
        return False
    if context.after == "of" and " " not in phrase and kind not in _WHOLE_TYPES:
        return False
    if " " not in phrase and folded.endswith(_DEEDS) and kind in ("code", "system", "tool"):
        return False
    if is_noun(context, many):
        return True
    if not context.head or context.after in _TIED_AFTER:
        return False
    bare = many or kind in _BARE_TYPES
    if context.before in PREPOSITIONS:
        return bare and context.before not in ("to", "as", "like", "by", "at", "on")
    if context.before in ("and", "or"):
        return many and context.after in (BOUNDARY, "are", "were", "can", "will")
    return many and context.before in openers() and context.before.endswith("s")


def _is_whole_name(
    text: str, start: int, end: int, kind: str, context: Around, is_common: bool
) -> bool:
    """Whether a name is complete, not part of a longer name, and has a known class."""
    name = text[start:end]
    before = _NEXT_TO.search(text, max(0, start - 30), start)
    last = before.group(1) if before is not None and before.group(1) else ""
    if last[:1].isupper() and last.casefold() not in STOP_WORDS:
        return False
    if last.casefold().strip(".,") in ("mr", "mrs", "ms", "dr", "st", "von", "van", "de", "sir"):
        return False
    behind = _BEHIND.match(text, end)
    if behind is not None and (behind.group(1)[0].isupper() or behind.group(1)[0].isdigit()):
        return False
    if context.before == "of" and context.earlier not in DETERMINERS and kind == "name":
        return False
    if _ACRONYM.fullmatch(name.replace(".", "")):
        return text[start - 1 : start] != "(" and not is_number(context.before) and context.head
    if has_kind(name):
        return (
            context.head
            and context.before not in ("the", "and", "or", "of")
            and context.after != "and"
        )
    if kind == "name":
        return name_class(name) != "" and context.after not in ("of", "and", "'s")
    return context.head and not is_common and context.before not in ("the", "and", "or")


_PARTS = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}(?![a-z])")
_LONGEST_ACRONYM = 5
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}")

# Mentions of a name with one type that are needed before the type is trusted.
_LEAST = 2

Option: TypeAlias = tuple[int, str, str]  # node, text, pool


def of_kind(kind: str | None, old: str, option: Option) -> bool:
    """Whether the option has the old entity's narrow kind, class of names or identifier family."""
    _, new, pool = option
    if of_one_kind(old, new):
        return True
    if kind == "name":
        near = pool == POOLS[PREFERRED]
        return near and name_class(old) != "" and name_class(old) == name_class(new)
    if kind == "identifier":
        return pool == POOLS[PREFERRED] and _of_one_family(old, new)
    return False


def _of_one_family(old: str, new: str) -> bool:
    """Whether two identifiers share a namespace ("np.sum", "np.mean"), or their first or last word
    ("fit_mean", "fit_transform")."""
    if "." in old or "." in new:
        return "." in old and old.rpartition(".")[0] == new.rpartition(".")[0]
    old_parts, new_parts = _PARTS.findall(old), _PARTS.findall(new)
    if old.casefold().rstrip("s") == new.casefold().rstrip("s"):
        return False
    # A function only replaces a function: not "own_dtype" by "set_dtype".
    if (not openers().isdisjoint(old_parts[:1])) != (not openers().isdisjoint(new_parts[:1])):
        return False
    return len(old_parts) > 1 < len(new_parts) and (
        old_parts[0] == new_parts[0] or old_parts[-1] == new_parts[-1]
    )


def same(lemma: str | None, text: str) -> bool:
    """Whether two entities are known synonyms, as "film" and "movie"."""
    return lemma is not None and text.casefold() in _synonyms().get(lemma.casefold(), ())


@lru_cache(maxsize=1)
def _synonyms() -> dict[str, set[str]]:
    synonyms: dict[str, set[str]] = {}
    for group in load_pairs()[0]:
        if group.pos in ("noun", "entity"):
            for word in group.words:
                synonyms.setdefault(word, set()).update(group.words)
    return synonyms


def shape(text: str) -> str:
    """The style of an identifier or a name: "DataFrame" is "camel", "np.array()" is "dotted()"."""
    core = text.removesuffix("()")
    if core.startswith("--"):
        kind = "flag"
    elif _ACRONYM.fullmatch(core.replace(".", "")):
        kind = "acronym" if len(core) <= _LONGEST_ACRONYM else "capitals"
    elif "." in core and " " not in core:
        kind = "dotted class" if core.rpartition(".")[2][:1].isupper() else "dotted"
    elif "_" in core:
        kind = "constant" if core.isupper() else "snake"
    elif " " not in core and _CAMEL.search(core):
        kind = "camel"
    elif core[:1].isupper():
        kind = f"capital {name_class(core)}".strip()
    else:
        kind = "plain"
    return kind + text[len(core) :]


def stands_in(new: str, old: str, language: str) -> bool:
    """Whether a name fits in another's place: the same letter case, both or neither with an
    article and, in languages with elision, the same kind of first letter."""
    if language in ELIDING and _onset(new) != _onset(old):
        return False
    return _case(new) == _case(old) and _articled(new, language) == _articled(old, language)


def _case(name: str) -> tuple[bool, bool]:
    return name[:1].isupper(), name.isupper()


def _articled(name: str, language: str) -> bool:
    return dictionary_form(name, language) != dictionary_form(name, "")


def _onset(name: str) -> str:
    """The kind of the first letter: vowel, consonant, or h or y, which may be either in French."""
    letter = unicodedata.normalize("NFD", name.casefold())[:1]
    return letter if letter in "hy" else "vowel" if letter in "aeiouœæ" else "consonant"


def is_name(text: str) -> bool:
    """Whether a text has a capital letter."""
    return text != text.lower()


# Rounds in which a sentence without enough replacements tries its next entities.
_ROUNDS = 6
# Additional replacements to examine, to find one that is written like the old entity.
_LOOKAHEAD = 5
# Types that are too broad, so that replacements must also have the same `shape`.
_SHAPED = frozenset(("identifier", "name"))
# The lookahead for these types and for uniform draws, which may hit entities of the sentence.
_FAR_LOOKAHEAD = 11
# The lookahead for narrow kinds, whose members are rare and scattered over their type's ring.
_KIND_LOOKAHEAD = 63
# Types whose entities are so similar that any of T_r fits without a model's help. For other types
# ("data", "code", "clothing") only T_p fits.
_ALIKE = word_set("person place animal food illness plant vehicle building")


class Swaps(Several):
    """Parameters of `entity_swap`."""

    choice: Pick = Field(
        "nearest",
        description="nearest: the most alike in the graph of some of the type, if their letters "
        "and articles fit; uniform (GCSE): each of T_p is equally likely, or each of its type if "
        "T_p is empty",
    )
    same_case: bool = Field(
        True, description="a name for a name, and a common noun for a common noun"
    )
    one_kind: bool = Field(
        True,
        description="only what is of the old entity's own narrow kind; false: whatever is of its "
        "type, which gives several times the rows, and odder ones",
    )


@dataclass(frozen=True)
class Entities:
    """The graph as `entity_swap` reads it.

    replacements: the search. ids: sorted node ids. texts: text of each node, in the order of
    `ids`. names: names of the types by id. hard: hard edges.
    """

    replacements: Replacements
    ids: seeding.Ids
    texts: pa.Array
    names: dict[int, str]
    hard: Sequence[pa.RecordBatch]

    @cached_property
    def types(self) -> dict[int, str]:
        """The type of most mentions of each entity, if at least `_LEAST` mentions have it. Rarer
        types may be errors of the pipeline."""
        counted = sorted(
            (count, self.names[target], source)
            for batch in self.hard
            for source, target, count in zip(
                *(batch[name].to_pylist() for name in ("source", "target", "count")), strict=True
            )
            if target in self.names and count >= _LEAST
        )
        return {source: name for _, name, source in counted}

    def texts_of(self, ids: seeding.Ids) -> list[str | None]:
        """The texts of nodes; None for ids that are not in the graph."""
        at = np.searchsorted(self.ids, ids).clip(max=max(len(self.ids) - 1, 0))
        listed = self.ids[at] == ids if len(self.ids) else np.zeros(len(ids), dtype=bool)
        return list(self.texts.take(pa.array(at, mask=~listed)).to_pylist())


@dataclass(frozen=True)
class Place:
    """One mention of an entity."""

    mention_id: int
    start: int
    end: int


@dataclass(frozen=True)
class Choice:
    """An entity of a sentence: its mentions there, its dictionary form, and its replacements."""

    places: tuple[Place, ...]
    lemma: str | None
    options: tuple[Option, ...]


def open_graph(nodes: pa.Table, edges: Iterable[pa.RecordBatch]) -> Entities:
    """The graph of kg_nodes and kg_edges, prepared for `entity_swap`."""
    ids = nodes["node_id"].to_numpy()
    order = np.argsort(ids)
    texts = nodes["text"].combine_chunks().take(pa.array(order))
    types = nodes.filter(pc.equal(nodes["kind"], "type")).select(["node_id", "text"])
    names = dict(zip(*(column.to_pylist() for column in types.columns), strict=True))
    hard: list[pa.RecordBatch] = []

    def read() -> Iterator[pa.RecordBatch]:
        for batch in edges:
            hard.append(batch.filter(pc.equal(batch["kind"], "hard")).drop_columns("kind"))
            yield batch

    return Entities(Replacements(nodes, read()), ids[order], texts, names, hard)


def entity_swap(inputs: MethodInput, params: Swaps, seed: int) -> pa.Table:
    """Swaps an entity in all its mentions in the sentence; entities are tried in a seeded order.

    An entity is skipped if one of its mentions cannot be swapped (`swappable`).

    The replacement comes from T_p, else from T_r (`detail.pool`), and does not occur in the
    sentence. With `one_kind` it has the same narrow kind (`english/kinds.tsv`). A proper name or an
    identifier is replaced from T_p by an entity of the same class or family and, with
    `choice: nearest`, of the same `shape`. An entity without such a replacement is skipped.
    Further generations swap other entities, and use other replacements when those run out.
    `detail` has the first mention and its new node.
    """
    output = Output()
    texts, ids = inputs.texts(), inputs.ids().tolist()
    mentions = _swappable(inputs)
    by_row = choices(inputs, params, seed, "entity_swap", mentions)
    for row, listed in sorted(by_row.items()):
        text = texts[row]
        count = 0
        depth = max((len(choice.options) for choice in listed), default=0)
        for level in range(depth):
            ready = [choice for choice in listed if level < len(choice.options)]
            for choice in ready:
                if count < params.per_sentence:
                    count += _swapped(
                        output, ids[row], text, choice, choice.options[level], inputs.english
                    )
    return output.table()


def _swapped(
    output: Output, sentence_id: int, text: str, choice: Choice, option: Option, english: bool
) -> bool:
    node_id, entity, pool = option
    edits = sorted(
        (
            place.start,
            place.end,
            place.mention_id,
            surface(text, place.start, place.end, choice.lemma, entity),
        )
        for place in choice.places
    )
    raw = text
    for start, end, _, new in reversed(edits):
        raw = replaced(raw, start, end, new, english)
    if raw == text:
        return False
    start, end, mention_id, new = edits[0]
    old = text[start:end]
    return output.add(sentence_id, raw, "swap_entity", old, new, mention_id, node_id, pool)


def surface(text: str, start: int, end: int, lemma: str | None, new: str) -> str:
    """The form of the entity `new` in the place of text[start:end]: plural if the old one is, and
    capitalised at the beginning of a sentence."""
    old = text[start:end]
    if is_plural(old, lemma) and new.rpartition(" ")[2].isalpha():
        new = plural(new)
    at_head = start == 0 or text[:start].endswith((". ", '"', "“"))
    plain = not any(c in new for c in "_.(/")
    return capitalised(new) if at_head and old[0].isupper() and plain else new


def _swappable(inputs: MethodInput) -> pa.Table:
    """The mentions of entities whose mentions in the sentence can all be swapped."""
    mentions = inputs.located("entity")
    nodes = mentions["node_id"].to_numpy()
    lemmas = _entities(inputs, "entity_swap").texts_of(nodes)
    fits = swappable(inputs.texts(), mentions, lemmas, inputs.language)
    rows = mentions["row"].to_numpy()
    order = np.lexsort((nodes, rows))
    entity = np.empty(len(order), dtype=np.int64)
    entity[order] = np.cumsum(begins(rows[order], nodes[order])) - 1
    all_fit = np.bincount(entity, weights=~fits) == 0
    return mentions.filter(pa.array(all_fit[entity]))


def _entities(inputs: MethodInput, purpose: str) -> Entities:
    if inputs.replacements is None:
        raise ValueError(f"the method {purpose!r} needs the knowledge graph")
    entities: Entities = inputs.replacements
    return entities


def choices(
    inputs: MethodInput,
    params: Swaps,
    seed: int,
    purpose: str,
    mentions: pa.Table,
    by_model: bool = False,
) -> dict[int, list[Choice]]:
    """The entities to swap with their replacements, by anchor, in the order drawn for `purpose`.

    mentions: as from `MethodInput.located`. by_model: whether a language model will adapt the
    sentence; replacements that do not fit grammatically, and of every type, are then allowed.
    Anchors without such an entity are left out.
    """
    entities = _entities(inputs, purpose)
    texts = inputs.texts()
    named = _named(mentions, seed, purpose)
    ids = mentions["mention_id"].to_numpy()[named.lead]
    nodes = mentions["node_id"].to_numpy()[named.lead]
    types = mentions["type"].take(pa.array(named.lead)).to_pylist()
    needed = params.per_sentence
    turns = int(named.place.max(initial=0)) // needed + 1
    by_row: dict[int, list[Choice]] = {}
    shaped = np.array([name in _SHAPED for name in types], dtype=bool)
    short = np.ones(len(texts), dtype=bool)
    for turn in range(turns if by_model else min(turns, _ROUNDS)):
        turned = np.flatnonzero((named.place // needed == turn) & short[named.row])
        for by_shape in (False, True):
            tried = turned[shaped[turned] == by_shape]
            if not len(tried):
                continue
            far = by_shape or params.choice == "uniform"
            ahead = _FAR_LOOKAHEAD if far else _LOOKAHEAD
            width = params.per_sentence + (_KIND_LOOKAHEAD if params.one_kind else ahead)
            drawn, pools = entities.replacements.draw(
                nodes[tried],
                ids[tried],
                seed,
                f"{purpose}.node",
                width,
                [types[i] for i in tried.tolist()],
                params.choice,
            )
            new_texts = entities.texts_of(drawn.ravel())
            lemmas = entities.texts_of(nodes[tried])
            for at, (i, lemma, new_ids, codes) in enumerate(
                zip(tried.tolist(), lemmas, drawn.tolist(), pools.tolist(), strict=True)
            ):
                row, place = int(named.row[i]), named.places(i)[0]
                folded = texts[row].casefold()
                of_pipeline = by_pipeline(types[i], inputs.language)
                if of_pipeline:
                    # Compare with the name as it is written: names have no plural.
                    lemma = texts[row][place.start : place.end]
                options = [
                    (node, text, POOLS[code])
                    for node, code, text in zip(
                        new_ids, codes, new_texts[at * width : (at + 1) * width], strict=True
                    )
                    if code and text and text.casefold() not in folded and not same(lemma, text)
                ]
                if of_pipeline:
                    language = str(inputs.language)
                    # If most other mentions have another type, this one is an error.
                    entity_type = entities.types.get(int(nodes[i]), types[i])
                    options = [
                        o for o in options if entities.types.get(o[0]) == types[i] == entity_type
                    ]
                    fitting = [o for o in options if stands_in(o[1], lemma or "", language)]
                    options = fitting or (options if by_model else [])
                else:
                    if params.one_kind:
                        options = [o for o in options if of_kind(types[i], lemma or "", o)]
                    if params.choice == "nearest" and options:
                        fitting = _fitting(options, params, texts[row], place, lemma, types[i])
                        options = fitting or (options if by_model else [])
                    elif params.same_case:
                        options = _alike(options, lemma or "")
                if options:
                    choice = Choice(named.places(i), lemma, tuple(options))
                    by_row.setdefault(row, []).append(choice)
        for row in np.unique(named.row[turned]).tolist():
            short[row] = len(by_row.get(row, ())) < needed
    return by_row


def _fitting(
    options: list[Option], params: Swaps, text: str, place: Place, lemma: str | None, kind: str
) -> list[Option]:
    """The options that fit in the entity's place without other changes to the sentence."""
    if kind in _SHAPED and not of_one_kind(lemma or "", options[0][1]):
        old_shape = shape(text[place.start : place.end])
        alike = [option for option in options if shape(option[1]) == old_shape]
        options = alike[: params.per_sentence + _LOOKAHEAD]
        if old_shape == "acronym" and kind == "name":
            options = [o for o in options if o[2] == POOLS[PREFERRED]]
        return options
    if kind not in _ALIKE and not params.one_kind:
        options = [o for o in options if o[2] == POOLS[PREFERRED]]
    counted = takes_count_noun(text, place.start, place.end, lemma)
    options = [o for o in options if not (counted and is_mass(o[1]))]
    return _alike(options, lemma or "") if params.same_case else options


@dataclass(frozen=True)
class _Named:
    """The distinct entities of each sentence, in a drawn order, as columns.

    row: the anchor. lead: the entity's first mention. place: its place in the drawn order of its
    sentence. first, behind: the entity's mentions are by_node[first:behind]. mentions: columns id,
    start and end of all mentions.
    """

    row: npt.NDArray[np.int64]
    lead: npt.NDArray[np.int64]
    place: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    behind: npt.NDArray[np.int64]
    by_node: npt.NDArray[np.int64]
    mentions: tuple[list[int], list[int], list[int]]

    def places(self, i: int) -> tuple[Place, ...]:
        """All mentions of the i-th entity in its sentence."""
        ids, starts, ends = self.mentions
        numbers = self.by_node[self.first[i] : self.behind[i]].tolist()
        return tuple(Place(ids[m], starts[m], ends[m]) for m in numbers)


def _named(mentions: pa.Table, seed: int, purpose: str) -> _Named:
    rows = mentions["row"].to_numpy()
    nodes = mentions["node_id"].to_numpy()
    by_node = np.lexsort((np.arange(len(rows)), nodes, rows))
    first = np.flatnonzero(begins(rows[by_node], nodes[by_node]))
    lead = by_node[first]
    keys = seeding.draws(seed, purpose, mentions["mention_id"].to_numpy()[lead])
    order = np.lexsort((keys, rows[lead]))
    row = rows[lead][order]
    place = np.arange(len(order)) - np.searchsorted(row, row)
    behind = np.append(first[1:], len(rows))
    columns = [mentions[name].to_pylist() for name in ("mention_id", "start", "end")]
    return _Named(
        row,
        lead[order],
        place,
        first[order],
        behind[order],
        by_node,
        (columns[0], columns[1], columns[2]),
    )


def _alike(options: list[Option], old: str) -> list[Option]:
    """The names among the options if the old entity is a name, else the common nouns."""
    name = is_name(old)
    return [option for option in options if is_name(option[1]) == name]


METHODS = methods(
    Method(
        *("entity_swap", "negative", "alters", entity_swap, Swaps, ("mentions", "graph")),
        open_graph=open_graph,
        languages=(),
    )
)
