"""Reads wordnets in the XML form WN-LMF: `lmf:FILE.xml`, plain, .gz or .zst.

Each definition of a synset is a row: `entry` (the synset's words, with | between them),
`definition`, and `part_of_speech` in one letter. The library `wn` holds the file in memory, in some
ten times its size.
"""

import codecs
import errno
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from tercet.tasks.corpus.sources.corpora import CorpusConfig
from tercet.tasks.corpus.sources.reader import Table
from tercet.tasks.corpus.sources.streams import (
    CHUNK,
    COMPRESSIONS,
    SHOWN,
    content_digest,
    decompressed,
)
from tercet.tasks.corpus.sources.tables import Row, bounded
from tercet.tasks.corpus.sources.values import table_reader
from tercet.tasks.stage import BadInput

PREFIX = "lmf:"
COLUMNS = ["entry", "definition", "part_of_speech"]

_Synset: TypeAlias = tuple[str, str | None, str | None]


def path_of(source: str) -> Path:
    """The file that a source names."""
    return Path(source.removeprefix(PREFIX))


def digest(corpus: CorpusConfig) -> str:
    """SHA-256, in hex, over the file's content.

    Raises:
        BadInput: the file cannot be read.
    """
    return content_digest(path_of(corpus.source))


def tables(corpus: CorpusConfig, max_bytes: int) -> Iterator[Table]:
    """All lexicons of the file as one table.

    Raises:
        BadInput: the file is missing, damaged, or not WN-LMF.
    """
    path = path_of(corpus.source)
    try:
        state = path.stat()
    except OSError as error:
        raise BadInput("unreadable", f"{path} cannot be read: {error.strerror or error}") from None
    synsets = _synsets(path, state.st_mtime_ns, state.st_size)
    rows = partial(_rows, synsets, max_bytes)
    # A wordnet has entries such as null and nan.
    yield Table(path.name, COLUMNS, rows, corpus.source, text="definition", words_are_words=True)


def portable(source: str) -> str:
    """The source with the file's full path."""
    return f"{PREFIX}{path_of(source).resolve()}"


def _rows(synsets: Sequence[_Synset], max_bytes: int, columns: Sequence[str]) -> Iterator[Row]:
    for number, synset in enumerate(synsets, 1):
        values = dict(zip(COLUMNS, synset, strict=True))
        yield bounded(number, {column: values[column] for column in columns}, max_bytes)


@lru_cache(maxsize=1)
def _synsets(path: Path, changed: int, size: int) -> list[_Synset]:
    """The file's rows. changed, size: time and size of the file, which key the cache."""
    families: dict[tuple[str, str], list[Any]] = defaultdict(list)
    bases: dict[tuple[str, str], tuple[str, str]] = {}
    for lexicon in _loaded(path)["lexicons"]:
        key = base = (lexicon["id"], lexicon["version"])
        if extended := lexicon.get("extends"):
            base = (extended["id"], extended["version"])
            base = bases.get(base, base)
        bases[key] = base
        families[base].append(lexicon)
    return [row for lexicons in families.values() for row in _rows_of(path, lexicons)]


def _rows_of(path: Path, lexicons: Sequence[Any]) -> Iterator[_Synset]:
    """The rows of a lexicon and its extensions, which add senses to its entries and definitions to
    its synsets.
    """
    entries = [entry for lexicon in lexicons for entry in lexicon.get("entries", [])]
    synsets = [synset for lexicon in lexicons for synset in lexicon.get("synsets", [])]
    for what, those in (("entries", entries), ("synsets", synsets)):
        ids = Counter(one["id"] for one in those if not one.get("external"))
        for name, count in ids.most_common(1):
            if count > 1:
                raise BadInput(
                    "bad_row",
                    f"{path} has {count} {what} with the id {name!r} in the lexicon "
                    f"{lexicons[0]['id']!r}: which of them is meant cannot be told",
                )
    lemmas = {
        entry["id"]: entry["lemma"]["writtenForm"]
        for entry in entries
        if "writtenForm" in (entry.get("lemma") or {})
    }
    parts = {one["id"]: one["partOfSpeech"] for one in synsets if one.get("partOfSpeech")}
    words: dict[str, dict[str, None]] = defaultdict(dict)
    for entry in entries:
        for sense in entry.get("senses", []):
            if entry["id"] in lemmas and "synset" in sense:
                words[sense["synset"]][lemmas[entry["id"]]] = None
    for one in synsets:
        nothing = [] if one.get("external") else [{"text": None}]
        for definition in one.get("definitions") or nothing:
            yield "|".join(words[one["id"]]), definition["text"], parts.get(one["id"])


def _loaded(path: Path) -> Any:
    try:
        from wn import lmf
    except ImportError:
        raise BadInput(
            "missing_package",
            f"{path}: wordnets need the package wn: pip install 'tercet[wordnet]'",
        ) from None
    try:
        with path.open("rb") as file, tempfile.NamedTemporaryFile(suffix=".xml") as plain:
            compression = path.suffix.lower() if path.suffix.lower() in COMPRESSIONS else ""
            stream = decompressed(file, compression)
            start = stream.read(len(codecs.BOM_UTF8))
            plain.write(start.removeprefix(codecs.BOM_UTF8))
            shutil.copyfileobj(stream, plain, CHUNK)
            plain.flush()
            return lmf.load(plain.name, progress_handler=None)
    except Exception as error:  # wn raises errors of any kind for damaged files
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOSPC:
            raise
        message = (str(error).splitlines() or [type(error).__name__])[0]
        what = f"is not a whole wordnet in the form WN-LMF ({message[:SHOWN]})"
        # A damaged archive raises OSError too, without a message of the system.
        if isinstance(error, OSError) and error.strerror:
            what = f"cannot be read: {error.strerror}"
        raise BadInput("unreadable", f"{path} {what}") from None


READER = table_reader(PREFIX, f"{PREFIX}FILE.xml", digest, tables, portable)
