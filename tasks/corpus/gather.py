"""The first pass of `ingest`: reads every corpus and writes texts of fitting length to files.

Documents and their items go to two files in a scratch directory, words to the files of
`near_duplicates`, shingles to the files of `shared_keys`. Some 40 bytes a sentence stay in
memory: ids, and where each belongs.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tercet.models import seeding
from tercet.models.runs import begins
from tercet.models.seeding import Ids
from tercet.models.text.shingles import (
    GRAM,
    grams,
    normalised,
    shingles_of_words,
    word_hashes,
)
from tercet.models.text.words import count_words
from tercet.tasks.corpus import near_duplicates, questions
from tercet.tasks.corpus.shared_keys import Flags, Places, SharedKeys, append
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Document, Fault, IngestConfig
from tercet.tasks.corpus.sources.registry import reader_of
from tercet.tasks.rejects import Rejects
from tercet.tasks.stage import BadInput

# Items are a document's sentences, then its pairs' queries and answers, alternating. `paragraph`
# numbers a sentence's paragraph within its document, `position` the sentence.
ITEMS = pa.schema(
    [
        ("text", pa.string()),
        ("paragraph", pa.int32()),
        ("position", pa.int32()),
        ("n_words", pa.int32()),
    ]
)
READ_DOCUMENTS = pa.schema([("source", pa.string()), ("path", pa.string()), ("label", pa.string())])
SENTENCE, QUERY, ANSWER = range(3)
BATCH_ITEMS = 20_000

# The reason of a corpus's single reject that shows an example of removed HTML.
HTML = "html"

Item: TypeAlias = tuple[str, int, int, int]
Progress: TypeAlias = Callable[[int, int | None, str], None]


@dataclass
class Gathered:
    """Arrays of the first pass, an entry per document or item; lists of parts until `close`.

    equal: the items by their ids. shingles: the items by the shingles that begin in them.
    """

    equal: SharedKeys
    shingles: SharedKeys
    document_ids: Any = field(default_factory=list)  # uint64 (documents,)
    corpus_of_document: Any = field(default_factory=list)  # int32 (documents,)
    # By document: the first document of its file; itself if it is a whole file or a row.
    file_of_document: Any = field(default_factory=list)  # int32 (documents,)
    document_of_item: Any = field(default_factory=list)  # int32 (items,)
    kinds: Any = field(default_factory=list)  # int8 (items,)
    item_ids: Any = field(default_factory=list)  # uint64 (items,)
    texts: Any = None  # the items by their words (`near_duplicates.Texts`)
    # By batch: the numbers of words of its items, and their paragraphs, int32 (items,).
    words: list[tuple[Any, Any]] = field(default_factory=list)
    # By corpus: the numbers of rows and sentences that were left out, by reason.
    faults: list[Counter[str]] = field(default_factory=list)
    # By corpus: the number of documents from which HTML was removed.
    cleaned: list[int] = field(default_factory=list)

    def close(self) -> None:
        kinds: dict[str, npt.DTypeLike] = {
            "document_ids": np.uint64,
            "corpus_of_document": np.int32,
            "file_of_document": np.int32,
            "document_of_item": np.int32,
            "kinds": np.int8,
            "item_ids": np.uint64,
        }
        for name, kind in kinds.items():
            parts = getattr(self, name)
            setattr(self, name, np.concatenate(parts) if parts else np.empty(0, kind))


class _Files(NamedTuple):
    """The files that the first pass writes."""

    items: pq.ParquetWriter
    documents: pq.ParquetWriter
    words: BinaryIO
    questions: pq.ParquetWriter


class _Batch:
    """Documents and items that are not written yet."""

    def __init__(self) -> None:
        # The columns of READ_DOCUMENTS, the whole text, the number of the corpus, and that of the
        # first document of the file.
        self.documents: list[tuple[str, str, str | None, str, int, int]] = []
        # The columns of ITEMS, the kind, and the number of the document in the batch.
        self.items: list[tuple[str, int, int, int, int, int]] = []
        self.questions: list[tuple[int, str, str, str, list[str]]] = []

    def add(self, document: Document, corpus: int, first: int, items: list[Item]) -> None:
        place = len(self.documents)
        named = (document.source, document.path, document.label)
        self.documents.append((*named, document.text(), corpus, first))
        self.items += [(*item, SENTENCE, place) for item in items]
        pairs = (text for pair in document.pairs for text in pair)
        # Each text of a pair is a separate paragraph.
        self.items += [
            (text, -1 - number, -1, 0, ANSWER if number % 2 else QUERY, place)
            for number, text in enumerate(pairs)
        ]
        self.questions += [(place, *question) for question in document.questions]

    def write(self, gathered: Gathered, counts: list[int], files: "_Files") -> None:
        if not self.items:
            return
        *columns, kinds, places = map(list, zip(*self.items, strict=True))
        table = pa.table(columns, schema=ITEMS)
        files.items.write_table(table)
        *named, bodies, corpora, firsts = map(list, zip(*self.documents, strict=True))
        files.documents.write_table(pa.table(named, schema=READ_DOCUMENTS))
        hashes, counted = word_hashes(normalised(table.column("text").combine_chunks()))
        owner = np.array(places, dtype=np.int32)
        paragraphs = np.cumsum(begins(owner, table["paragraph"].to_numpy()), dtype=np.int32)
        shingles, rows = shingles_of_words(hashes, counted, paragraphs)
        append(files.words, hashes)
        gathered.words.append((counted.astype(np.int32), paragraphs))
        gathered.document_ids.append(seeding.text_ids(bodies))
        gathered.corpus_of_document.append(np.array(corpora, dtype=np.int32))
        gathered.file_of_document.append(np.array(firsts, dtype=np.int32))
        gathered.document_of_item.append(owner + np.int32(counts[0]))
        gathered.kinds.append(np.array(kinds, dtype=np.int8))
        gathered.item_ids.append(seeding.text_ids(columns[0]))
        gathered.equal.add(gathered.item_ids[-1], np.arange(counts[1], counts[1] + len(kinds)))
        gathered.shingles.add(shingles, rows + counts[1])
        files.questions.write_table(questions.offered(self.questions, counts[0]))
        counts[0] += len(self.documents)
        counts[1] += len(self.items)


def example_id(corpus: str) -> int:
    """The row id of the reject that shows a corpus's first text in HTML."""
    return seeding.text_id(corpus, HTML)


def gather(config: IngestConfig, folder: Path, rejects: Rejects, progress: Progress) -> Gathered:
    """The first pass: reads every corpus, writes usable texts, returns ids and shingles."""
    gathered = Gathered(SharedKeys(folder / "equal"), SharedKeys(folder / "shingles"))
    counts = [0, 0]  # documents and items written so far
    batch = _Batch()
    with (
        pq.ParquetWriter(folder / "items.parquet", ITEMS, compression="lz4") as items,
        pq.ParquetWriter(folder / "documents.parquet", READ_DOCUMENTS) as documents,
        (folder / "words").open("wb") as words,
        pq.ParquetWriter(folder / "questions.parquet", questions.OFFERED) as offered,
    ):
        files = _Files(items, documents, words, offered)
        for number, corpus in enumerate(config.corpora):
            faults: Counter[str] = Counter()
            gathered.faults.append(faults)
            gathered.cleaned.append(0)
            usable = 0
            first: int | None = None  # the first document of the file
            for reading in reader_of(corpus.source).read(corpus, config.max_line_bytes):
                if isinstance(reading, Fault):
                    faults[reading.reason] += 1
                    row_id = seeding.text_id(
                        corpus.name, reading.path, reading.reason, reading.text
                    )
                    detail = f"{reading.path}: {reading.detail}"
                    rejects.add(row_id, reading.reason, detail, reading.text)
                    continue
                if reading.html:
                    gathered.cleaned[-1] += 1
                    if gathered.cleaned[-1] == 1:
                        detail = f"{reading.path}: the first text of {corpus.name!r} in HTML"
                        rejects.add(example_id(corpus.name), HTML, detail, reading.html)
                standing = _within_bounds(reading, config, rejects, faults)
                usable += len(standing)
                if not reading.continued:
                    first = None
                if standing or reading.pairs:
                    first = counts[0] + len(batch.documents) if first is None else first
                    batch.add(reading, number, first, standing)
                if len(batch.items) >= BATCH_ITEMS:
                    batch.write(gathered, counts, files)
                    batch = _Batch()
                    progress(counts[1], None, "sentences read")
            if not usable:
                raise BadInput("no_rows", _nothing_usable(corpus, faults))
        batch.write(gathered, counts, files)
    gathered.close()
    _compare(gathered, folder, config.common)
    return gathered


def _compare(gathered: Gathered, folder: Path, common: float) -> None:
    """Prepares the comparison of items: their words and shingles without set phrases.

    Whole items that very many documents have are not compared: as duplicates, only the first is
    kept anyway.
    """
    gathered.equal.close()
    gathered.shingles.close()
    documents, owner = len(gathered.document_ids), gathered.document_of_item
    phrases = set_phrases(gathered.shingles, owner, documents, common)
    repeated = set_phrases(gathered.equal, owner, documents, common)
    if len(phrases):
        gathered.shingles = SharedKeys(folder / "other_shingles")
    writer, first = near_duplicates.Writer(folder / "near_duplicates"), 0
    with (folder / "words").open("rb") as file:
        for counts, paragraphs in gathered.words:
            hashes = np.fromfile(file, dtype=np.uint64, count=int(counts.sum()))
            counts = counts.astype(np.int64)
            in_runs, in_sets = without(phrases, hashes, counts, paragraphs)
            ids = gathered.item_ids[first : first + len(counts)]
            writer.add(*without_texts(np.isin(ids, repeated), *in_sets))
            if len(phrases):
                shingles, rows = shingles_of_words(*in_runs, paragraphs)
                gathered.shingles.add(shingles, rows + first)
            first += len(counts)
    gathered.words.clear()
    if len(phrases):
        gathered.shingles.close()
    gathered.texts = writer.texts()


def _within_bounds(
    document: Document, config: IngestConfig, rejects: Rejects, faults: Counter[str]
) -> list[Item]:
    """The sentences of fitting length, as items."""
    standing = []
    position = 0
    for paragraph, sentences in enumerate(document.paragraphs):
        if paragraph in document.code:
            continue
        for text in sentences:
            words = count_words(text)
            if config.min_words <= words <= config.max_words:
                standing.append((text, paragraph, position, words))
            else:
                reason = "too_short" if words < config.min_words else "too_long"
                faults[reason] += 1
                rejects.add(seeding.text_id(text), reason, f"{document.path}: {words} words", text)
            position += 1
    return standing


def _nothing_usable(corpus: CorpusConfig, faults: Counter[str]) -> str:
    if not faults:
        return f"{corpus.source}: the corpus {corpus.name!r} is empty; name files with text"
    why = ", ".join(f"{count} {reason}" for reason, count in faults.most_common(3))
    return (
        f"{corpus.source}: no sentence of corpus {corpus.name!r} can be used ({why}); look at its "
        "text and the bounds"
    )


# Set phrases: runs of eight words that very many documents have, such as a letter's opening.
#
# They do not show that documents are related, so they tie no documents and keep none out of train:
# their words are removed before texts are compared. A text with fewer than eight other words is
# still compared as a set of all its words, so that texts that differ only in a number stay
# near-duplicates.

Index: TypeAlias = npt.NDArray[np.int32]
# The words of texts as hashes, shape (words,), and their number in each text, shape (texts,).
Words: TypeAlias = tuple[Ids, Places]

LEAST = 20  # documents that share a set phrase, also in a small corpus


def set_phrases(shared: SharedKeys, document_of_item: Index, documents: int, share: float) -> Ids:
    """The keys in more than this share of the documents, and in more than `LEAST`, sorted."""
    least = max(LEAST, int(share * documents))
    phrases = [np.empty(0, np.uint64)]
    for keys, items, _ in shared:
        starts = np.flatnonzero(begins(keys))
        held = np.add.reduceat(begins(keys, document_of_item[items]).astype(np.int32), starts)
        phrases.append(keys[starts[held > least]])
    return np.concatenate(phrases)


def without(phrases: Ids, hashes: Ids, counts: Places, paragraphs: Index) -> tuple[Words, Words]:
    """The words of texts without set phrases, for the comparison by runs and as sets.

    Args:
        phrases: shingles, from `set_phrases`.
        hashes, counts: the texts' words, from `word_hashes`.
        paragraphs: of each text, as for `shingles`.
    """
    if not len(phrases) or len(hashes) < GRAM:
        return (hashes, counts), (hashes, counts)
    text = np.repeat(np.arange(len(counts)), counts)
    paragraph = np.cumsum(np.diff(paragraphs, prepend=paragraphs[:1]) != 0)
    shingles, first = grams(hashes, paragraph[text], GRAM)
    begins = first[np.isin(shingles, phrases)]
    change = np.zeros(len(hashes) + 1, dtype=np.int64)
    np.add.at(change, begins, 1)
    np.add.at(change, begins + GRAM, -1)
    outside = np.cumsum(change[:-1]) == 0
    left = np.bincount(text[outside], minlength=len(counts))
    # Few other words make no run, and would not represent the text as a set.
    few = (left < counts) & (left < GRAM)
    in_runs, in_sets = outside & ~few[text], outside | few[text]
    return (
        (hashes[in_runs], np.bincount(text[in_runs], minlength=len(counts))),
        (hashes[in_sets], np.bincount(text[in_sets], minlength=len(counts))),
    )


def without_texts(left_out: Flags, hashes: Ids, counts: Places) -> Words:
    """The words of all texts except those in `left_out`, of shape (texts,)."""
    return hashes[np.repeat(~left_out, counts)], np.where(left_out, 0, counts)
