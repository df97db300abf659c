"""Entities in texts of any language, by the named-entity recogniser of a spaCy pipeline.

A pipeline is a directory with `meta.json` and `config.cfg`. It is loaded by path; its package is
never imported, since that would run third-party code.
"""

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from tercet.models.errors import Unusable
from tercet.models.knowledge.extraction import (
    IDENTIFIER_TYPE,
    Mentions,
    identifiers,
    outside_code,
)
from tercet.models.knowledge.quantities import (
    Quantity,
    find,
    find_in_any_language,
    is_year_like,
)
from tercet.models.knowledge.tokens import tokenise

# Languages in which an article or preposition is elided before a vowel ("l'Italie").
ELIDING = ("ca", "fr", "it")
EXTRA = "pip install 'tercet[language]'"
_BATCH = 256
# Labels of numbers, which are quantities instead of entities.
_NUMERIC = frozenset(("CARDINAL", "DATE", "MONEY", "ORDINAL", "PERCENT", "QUANTITY", "TIME"))
# Components that the recogniser may share as its word vectors.
_VECTORS = ("tok2vec", "transformer")
# Punctuation that the recogniser sometimes includes in a name.
_QUOTES = '"“”„«»()[]'
_EDGES = f" \t\n\u00a0‘,;:{_QUOTES}"
_POSSESSIVE = re.compile(r"['’]s\Z")
# Elided words that the recogniser sometimes includes in a name: "l'Italie", "d'Anne".
_ELIDED = re.compile(r"\A(?:l|d|qu)['’](?=\w)", re.IGNORECASE)
_ARTICLES = {
    "de": r"(?:der|die|das|den|dem|des|ein|eine) ",
    "en": r"(?:the|an?) ",
    "es": r"(?:el|la|los|las|una?) ",
    "fr": r"(?:le|la|les|une?|des) ",
    "it": r"(?:il|lo|la|i|gli|le|un[ao]?) ",
    "nl": r"(?:de|het|een) ",
    "pt": r"(?:[oa]s?|uma?) ",
}

# Start and end in the buffer, type, and the quantity (None for an entity).
_Span: TypeAlias = tuple[int, int, str, Quantity | None]


@dataclass(frozen=True)
class Pipeline:
    """Directory and language of a pipeline (as "fr"; "xx" for several languages)."""

    path: Path
    language: str


def find_pipeline(folder: Path) -> Pipeline:
    """Finds the pipeline in the folder or, as in an installed package, in a subfolder.

    Reads meta.json only. Raises Unusable if there is none that fits.
    """
    try:
        installed = metadata.version("spacy")
    except metadata.PackageNotFoundError:
        raise Unusable(
            "missing_package", f"A pipeline is read by spaCy, which is not installed: {EXTRA}."
        ) from None
    places = [folder, *sorted(folder.glob("*"))]
    path = next((place for place in places if (place / "config.cfg").is_file()), None)
    if path is None:
        raise Unusable(
            "missing_file",
            f"{str(folder)!r} holds no pipeline of spaCy, which has a config.cfg: name an "
            "installed package, a directory, or package:PACKAGE/FOLDER.",
        )
    try:
        meta = json.loads((path / "meta.json").read_text("utf-8"))
        language, required = str(meta["lang"]), str(meta.get("spacy_version", ""))
        fits = SpecifierSet(required).contains(installed, prereleases=True)
        recognises = "ner" in meta["pipeline"]
    except (OSError, ValueError, KeyError, TypeError, InvalidSpecifier) as error:
        raise Unusable(
            "unreadable",
            f"{path / 'meta.json'} cannot be read ({error!r}): install the pipeline anew.",
        ) from None
    if not fits:
        raise Unusable(
            "unfit_model",
            f"{path.name} is made for spaCy {required}, and {installed} is installed: take the "
            "pipeline's version for that.",
        )
    if not recognises:
        raise Unusable(
            "unfit_model",
            f"{path.name} has no component `ner`, which finds the entities: name another pipeline.",
        )
    return Pipeline(path, language)


def load(path: Path) -> Any:
    """Loads the pipeline's recogniser and the components it needs; cached until a file changes.

    Raises Unusable.
    """
    places = sorted(place for place in path.rglob("*") if place.is_file())
    stats = [place.stat() for place in places]
    return _load(path, tuple((stat.st_mtime_ns, stat.st_size) for stat in stats))


@lru_cache(maxsize=1)
def _load(path: Path, _files: tuple[tuple[int, int], ...]) -> Any:
    import spacy

    try:
        config = spacy.util.load_config(path / "config.cfg")
        shares = "Listener" in str(config["components"]["ner"])
        needed = ("ner", *_VECTORS) if shares else ("ner",)
        others = [name for name in config["components"] if name not in needed]
        return spacy.load(path, exclude=others)
    except Exception as error:
        # No text has been read yet, so any error is the pipeline's.
        raise Unusable(
            "unreadable",
            f"The pipeline {path.name} cannot be loaded ({type(error).__name__}: "
            f"{' '.join(str(error).split())}): install it anew, with what it needs.",
        ) from error


def extract_named(texts: Sequence[str], pipeline: Pipeline) -> Mentions:
    """Entities with the pipeline's labels as types, identifiers and quantities of the texts.

    Identifiers and quantities that overlap an entity are left out; no quantity has a counted
    entity. Languages other than English have the quantities of `find_in_any_language`.
    """
    tokens = tokenise(texts, {}, identifiers=True)
    offsets = tokens.offsets.tolist()
    named: list[_Span] = [
        (offsets[row] + start, offsets[row] + end, label, None)
        for row, start, end, label in _named(texts, pipeline)
    ]
    ends = [end for _, end, _, _ in named]
    code = identifiers(tokens).first
    others: list[_Span] = [
        (start, end, IDENTIFIER_TYPE, None)
        for start, end in zip(tokens.starts[code].tolist(), tokens.ends[code].tolist(), strict=True)
    ]
    read = find if pipeline.language == "en" else find_in_any_language
    for quantity in outside_code(read(tokens.buffer), tokens):
        if is_year_like(tokens.buffer, quantity):
            quantity = replace(quantity, form="year")
        if not quantity.needs_noun:
            others.append((quantity.start, quantity.end, quantity.form, quantity))
    free = [
        one
        for one in others
        if (at := bisect_right(ends, one[0])) == len(named) or one[1] <= named[at][0]
    ]
    spans = sorted([*named, *free], key=lambda one: one[0])
    return _assembled(texts, offsets, spans, pipeline.language)


def dictionary_form(text: str, language: str) -> str:
    """The casefolded text of an entity without a leading article."""
    folded = " ".join(text.casefold().split())
    article = re.match(_ARTICLES.get(language, r"(?!)"), folded)
    return folded[article.end() :] if article and article.end() < len(folded) else folded


def _named(texts: Sequence[str], pipeline: Pipeline) -> Iterator[tuple[int, int, int, str]]:
    """(text's number, start, end, label) of each entity, in order."""
    recogniser = load(pipeline.path)
    # Outside a memory zone spaCy keeps every word that it has ever read.
    with recogniser.memory_zone():
        for row, doc in enumerate(recogniser.pipe(texts, batch_size=_BATCH)):
            for span in doc.ents:
                inner = span.text.strip(_EDGES)
                if pipeline.language in ELIDING:
                    inner = _ELIDED.sub("", inner)
                elif pipeline.language == "en":
                    inner = _POSSESSIVE.sub("", inner)
                # Half of a quotation is no name.
                whole = any(map(str.isalpha, inner)) and not any(mark in inner for mark in _QUOTES)
                if span.label_.upper() not in _NUMERIC and whole:
                    start = span.start_char + span.text.index(inner)
                    yield row, start, start + len(inner), span.label_


def _assembled(
    texts: Sequence[str],
    offsets: Sequence[int],
    spans: Sequence[_Span],
    language: str,
) -> Mentions:
    """The sorted spans of the buffer as columns."""
    rows = [bisect_right(offsets, start) - 1 for start, _, _, _ in spans]
    places = [
        (row, start - offsets[row], end - offsets[row])
        for row, (start, end, _, _) in zip(rows, spans, strict=True)
    ]
    span_texts = [texts[row][start:end] for row, start, end in places]
    numeric = [quantity for _, _, _, quantity in spans]
    about: dict[int, Counter[str]] = {}
    for row, (_, _, label, quantity) in zip(rows, spans, strict=True):
        if quantity is None:
            about.setdefault(row, Counter())[label] += 1
    columns = np.array(places, dtype=np.int64).reshape(-1, 3)
    return Mentions(
        row=columns[:, 0],
        start=columns[:, 1],
        end=columns[:, 2],
        text=span_texts,
        entity=np.array([one is None for one in numeric], dtype=np.bool_),
        node=[
            dictionary_form(text, language) if one is None else " ".join(text.casefold().split())
            for text, one in zip(span_texts, numeric, strict=True)
        ],
        type=[label for _, _, label, _ in spans],
        value=np.array([np.nan if one is None else one.value for one in numeric], dtype=float),
        unit=[None if one is None else one.unit for one in numeric],
        counted=np.full(len(spans), -1, dtype=np.int64),
        categories=(
            np.array(list(about), dtype=np.int64),
            [counts.most_common(1)[0][0] for counts in about.values()],
        ),
    )
