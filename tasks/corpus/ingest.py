"""Stage `ingest`: turns the recipe's corpora into clean, distinct sentences in splits.

The first pass streams every source, folds texts, and writes sentences of fitting length to a file
in the scratch directory, and the keys by which texts are compared, sorted. Only ids and numbers
stay in memory, about 0.1 GB a million sentences. These decide exact duplicates and splits. The
second pass streams the file and emits the tables in pieces of about `part_rows` sentences, cut
between documents.

Results do not depend on the sizes of batches or pieces. The previous version only decides in which
pieces old documents lie (`former_parts`); a version that the recipe keeps also decides the splits
of its documents.
"""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tercet.models import seeding
from tercet.models.runs import begins, pieces
from tercet.tasks.corpus import gather, questions, splits
from tercet.tasks.corpus.former_parts import former_parts
from tercet.tasks.corpus.shared_keys import Flags
from tercet.tasks.corpus.sources.corpora import IngestConfig
from tercet.tasks.corpus.sources.reader import Reader
from tercet.tasks.corpus.sources.registry import reader_of
from tercet.tasks.rejects import Rejects
from tercet.tasks.stage import OnePart, Stage, Work

DOCUMENTS = pa.schema(
    [
        ("doc_id", pa.uint64()),
        ("source", pa.string()),
        ("path", pa.string()),
        ("corpus", pa.string()),
        ("split", pa.string()),
        ("label", pa.string()),
    ]
)
"""Table `documents`. One row per document that gave at least one sentence or pair: a line of a
`.txt` file, a row of a table, a file of prose or Markdown (or 20 paragraphs of it), a docstring.

Key: `doc_id`.

Columns:
    doc_id: id of the document's whole text, pairs included; among documents with the same text,
        only the first is kept
    source: the file, relative to the folder before the first wild card; for `pydocs` the package
    path: place in the source: `file:line` or `file:row`, counted from 1; for HTML `file#id`, with
        the last id before the document, or `file`; for `pydocs` `module:qualified name`
    corpus: the corpus's name in the recipe
    split: `train`, `dev` or `test`; a document is never divided between them
    label: its value in the column `corpora[].labels`; NULL without one. Training never reads it
"""
SENTENCES = pa.schema(
    [
        ("sentence_id", pa.uint64()),
        ("text", pa.string()),
        ("corpus", pa.string()),
        ("source", pa.string()),
        ("doc_id", pa.uint64()),
        ("paragraph", pa.int32()),
        ("position", pa.int32()),
        ("n_words", pa.int32()),
        ("split", pa.string()),
    ]
)
"""Table `sentences`, `pretrain_sentences`. One row per distinct sentence; among equal ones the
first, in the order of the corpora, is kept.

`pretrain_sentences`: The sentences of corpora with role `pretrain`, from the step
`ingest.pretrain`. They are in no other table, so only `pretrain` reads them; the same text may also
occur in `sentences`.

No two sentences in different splits share a run of eight words (ignoring case and punctuation),
except set phrases, which more than 1 % of the documents have (`ingest.common`), and no shorter
sentence occurs in two splits. No two sentences in different splits, as sets of words (letters and
digits, ignoring case), have a Jaccard index of 0.8 or more; words of set phrases are left out if a
sentence has eight others. `rejects` lists the sentences that this cost (`shared_with_test`,
`shared_with_dev`, `like_test`, `like_dev`).

Key: `sentence_id`.

Columns:
    sentence_id: id of `text`: `md5_number_lower(text)`
    text: the sentence: Unicode NFC, without control characters, white space as single blanks
    corpus: the corpus's name in the recipe
    source: as in `documents`
    doc_id: → `documents.doc_id`
    paragraph: number of the paragraph in its document, from 0
    position: number of the sentence in its document, from 0; sentences rejected for their length
        are counted, so there are gaps
    n_words: number of words, from `ingest.min_words` to `ingest.max_words`
    split: that of the document
"""
DOCUMENT_PAIRS = pa.schema(
    [
        ("pair_id", pa.uint64()),
        ("doc_id", pa.uint64()),
        ("query", pa.string()),
        ("answer", pa.string()),
        ("split", pa.string()),
    ]
)
"""Table `document_pairs`. Two texts that naturally belong together: the columns `query` and
`answer` of the corpus, or for `pydocs` a docstring's summary paragraph and the paragraph after
it. Retrieval is measured on them.

Key: `pair_id`.

Columns:
    pair_id: id of `query` and `answer`
    doc_id: → `documents.doc_id`
    query: the query; distinct among the pairs
    answer: the text to find; distinct among the pairs
    split: that of the document
"""


# Splits of documents and reasons of items, as they would be without ties.
Parted: TypeAlias = tuple[splits.Codes, splits.Codes]
# Libraries that read and cut texts.
LIBRARIES = (
    "blingfire",
    "chardet",
    "lxml",
    "markdown-it-py",
    "mdit-py-plugins",
    "selectolax",
)
_REASONS = (
    "",
    "duplicate",
    "shared_with_test",
    "shared_with_dev",
    "duplicate_query",
    "duplicate_answer",
    "like_test",
    "like_dev",
)
_KEPT, _DUPLICATE, _WITH_TEST, _WITH_DEV, _SAME_QUERY, _SAME_ANSWER, _LIKE_TEST, _LIKE_DEV = range(
    8
)


def externals(config: IngestConfig) -> dict[str, str]:
    """A digest of each corpus's content, by its name."""
    return {corpus.name: reader_of(corpus.source).digest(corpus) for corpus in config.corpora}


def check_corpora(config: IngestConfig) -> None:
    """Checks that each corpus can be read, without reading everything.

    Raises:
        BadInput: a file, a column or a package is missing, a corpus is empty, or a kind of file is
            unknown.
    """
    for corpus in config.corpora:
        reader_of(corpus.source).check(corpus, config.max_line_bytes)


def run(work: Work) -> None:
    """Emits documents, sentences, document_pairs and questions; all other rows are rejects.

    Also emits `corpus_outcomes`, the counts by corpus.

    Raises:
        BadInput: as `check_corpora`; or a corpus without a single usable sentence.
    """
    config: IngestConfig = work.config
    check_corpora(config)
    folder = work.scratch / "ingest"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rejects = Rejects("ingest", work.emit, work.resources.part_rows)
    gathered = gather.gather(config, folder, rejects, work.resources.progress)
    split, large, reasons, parted = _decide(gathered, work)
    gathered.texts = None
    names = [corpus.name for corpus in config.corpora]
    counted = outcomes(names, gathered, split, large, reasons, _REASONS, parted)
    work.emit("corpus_outcomes", counted)
    tables = {"documents": DOCUMENTS, "sentences": SENTENCES, "document_pairs": DOCUMENT_PAIRS}
    with former_parts(work, tables) as ordered:
        _emit(ordered, folder, gathered, split, reasons, rejects)
    rejects.flush()
    shutil.rmtree(folder, ignore_errors=True)


def run_pretrain(work: Work) -> None:
    """`run` for corpora to pretrain on: emits only `pretrain_sentences` and rejects."""
    tables = {"sentences": "pretrain_sentences", "rejects": "rejects"}

    def emit(table: str, rows: pa.Table) -> None:
        if table in tables:
            work.emit(tables[table], rows)

    run(replace(work, emit=emit))


def _decide(
    gathered: gather.Gathered, work: Work
) -> tuple[splits.Codes, Flags, splits.Codes, Parted | None]:
    """Each document's split, whether its cluster's size decided it, and each item's reason.

    And `Parted`, if ties keep many documents out of test.
    """
    config: IngestConfig = work.config
    kinds, seed = gathered.kinds, work.seed
    reasons = np.zeros(len(kinds), dtype=np.int8)
    for ids, items, _ in gathered.equal:
        for kind, reason in (
            (gather.SENTENCE, _DUPLICATE),
            (gather.QUERY, _SAME_QUERY),
            (gather.ANSWER, _SAME_ANSWER),
        ):
            members = kinds[items] == kind
            reasons[items[members][~begins(ids[members])]] = reason
    _join_pairs(kinds, reasons)
    shared = splits.SharedShingles(gathered.shingles)
    documents = len(gathered.document_ids)
    first = splits.whole_files(gathered.file_of_document, config.largest_cluster)
    leader = splits.leaders(
        shared.ties(gathered.document_of_item, documents, config.max_shingle_frequency),
        gathered.texts.ties(gathered.document_of_item, documents, config.max_shingle_frequency),
        first=first,
    )
    former = _former(work, gathered.document_ids)
    split = splits.assign(
        leader, gathered.document_ids, seed, config.dev, config.test, config.largest_cluster
    )
    split = splits.keep(split, leader, former)
    repeated = reasons.copy()
    _leave_out(gathered, shared, split, reasons)
    large = splits.too_large(leader, config.largest_cluster) & (split == splits.TRAIN)
    parted = None
    tested = np.unique(gathered.document_of_item[reasons == _KEPT])
    few = 3 * np.sum(split[tested] == splits.TEST) < config.test * len(tested)
    if config.max_shingle_frequency > 1 and (few or large.any()):
        apart = splits.assign(first, gathered.document_ids, seed, config.dev, config.test, 1.0)
        apart = splits.keep(apart, first, former)
        _leave_out(gathered, shared, apart, repeated)
        parted = apart, repeated
    return split, large, reasons, parted


def _former(work: Work, document_ids: seeding.Ids) -> splits.Codes:
    """These documents' splits in the kept version; -1 for documents missing there."""
    if "kept" not in work.inputs:
        return np.full(len(document_ids), -1, dtype=np.int8)
    rows = work.inputs["kept"].table("documents", ["doc_id", "split"])
    ids, first = np.unique(rows["doc_id"].to_numpy(), return_index=True)
    codes = pc.index_in(rows["split"], pa.array(splits.SPLITS)).to_numpy()[first]
    at = np.searchsorted(ids, document_ids).clip(max=len(ids) - 1)
    return np.where(ids[at] == document_ids, codes[at], -1).astype(np.int8)


def _leave_out(
    gathered: gather.Gathered,
    shared: splits.SharedShingles,
    split: splits.Codes,
    reasons: splits.Codes,
) -> None:
    """Sets the reasons of items that share text across splits."""
    split_of_item = split[gathered.document_of_item]
    for shared_with, in_test, in_dev in (
        (shared.shared_with, _WITH_TEST, _WITH_DEV),
        (gathered.texts.shared_with, _LIKE_TEST, _LIKE_DEV),
    ):
        with_test, with_dev = splits.excluded(shared_with, split_of_item, reasons == _KEPT)
        reasons[with_test & (reasons == _KEPT)] = in_test
        reasons[with_dev & (reasons == _KEPT)] = in_dev
    _join_pairs(gathered.kinds, reasons)


def _join_pairs(kinds: splits.Codes, reasons: splits.Codes) -> None:
    """Drops a pair with either of its texts: both get the query's reason, else the answer's."""
    queries = np.flatnonzero(kinds == gather.QUERY)
    either = np.where(reasons[queries] != _KEPT, reasons[queries], reasons[queries + 1])
    reasons[queries] = reasons[queries + 1] = either


def _emit(
    work: Work,
    folder: Path,
    gathered: gather.Gathered,
    split: splits.Codes,
    reasons: splits.Codes,
    rejects: Rejects,
) -> None:
    """The second pass: emits the kept items, in pieces cut between documents."""
    config: IngestConfig = work.config
    names = np.array([corpus.name for corpus in config.corpora], dtype=object)
    splits_named = np.array(splits.SPLITS, dtype=object)
    standing = reasons == _KEPT
    sentences_kept = standing & (gathered.kinds == gather.SENTENCE)
    counts = np.bincount(gathered.document_of_item[sentences_kept], minlength=len(split))
    cuts = [0, *(piece.stop for piece in pieces(counts, work.resources.part_rows))]
    item_cuts = np.searchsorted(gathered.document_of_item, cuts).tolist()
    items = _slices(folder / "items.parquet", item_cuts)
    documents = _slices(folder / "documents.parquet", cuts)
    for piece, (item_table, document_table) in enumerate(zip(items, documents, strict=True)):
        docs = slice(cuts[piece], cuts[piece + 1])
        rows = slice(item_cuts[piece], item_cuts[piece + 1])
        owner = gathered.document_of_item[rows]
        local = owner - cuts[piece]
        ids = gathered.item_ids[rows]
        kinds, kept, why = gathered.kinds[rows], standing[rows], reasons[rows]
        for name, values in (
            ("corpus", pa.array(names[gathered.corpus_of_document[docs]], pa.string())),
            ("doc_id", pa.array(gathered.document_ids[docs])),
            ("split", pa.array(splits_named[split[docs]], pa.string())),
        ):
            document_table = document_table.append_column(name, values)
        everything = item_table.append_column("id", pa.array(ids))
        for name in ("doc_id", "source", "corpus", "split"):
            everything = everything.append_column(name, document_table[name].take(pa.array(local)))
        sentences = everything.filter(pa.array(kept & (kinds == gather.SENTENCE)))
        if sentences.num_rows:
            work.emit("sentences", _arranged(sentences, SENTENCES, sentence_id="id"))
        used = np.zeros(cuts[piece + 1] - cuts[piece], dtype=np.bool_)
        used[local[kept]] = True
        work.emit("documents", _arranged(document_table.filter(pa.array(used)), DOCUMENTS))
        queries = everything.filter(pa.array(kept & (kinds == gather.QUERY)))
        answers = everything.filter(pa.array(kept & (kinds == gather.ANSWER)))
        if queries.num_rows:
            both = [queries["text"], answers["text"]]
            pair_ids = seeding.text_ids(*(column.to_pylist() for column in both))
            columns = [pa.array(pair_ids), queries["doc_id"], *both, queries["split"]]
            work.emit("document_pairs", pa.table(columns, schema=DOCUMENT_PAIRS))
        # A reject for each sentence, and for each pair by its query, that is left out.
        paths = document_table["path"].to_pylist()
        fallen = np.flatnonzero((why != _KEPT) & (kinds != gather.ANSWER))
        texts = item_table["text"].take(pa.array(fallen)).to_pylist()
        for index, text in zip(fallen.tolist(), texts, strict=True):
            what = "sentence" if kinds[index] == gather.SENTENCE else "pair"
            detail = f"{paths[local[index]]}: {what}"
            rejects.add(int(ids[index]), _REASONS[why[index]], detail, text)
        work.resources.progress(rows.stop, item_cuts[-1], "sentences")
    offered = pq.read_table(folder / "questions.parquet")
    if offered.num_rows:
        kept_ids = gathered.item_ids[sentences_kept]
        kept_splits = split[gathered.document_of_item[sentences_kept]]
        rows = questions.standing(offered, kept_ids, kept_splits, split, gathered.document_ids)
        work.emit("questions", rows)


def _arranged(table: pa.Table, schema: pa.Schema, **renamed: str) -> pa.Table:
    columns = [
        table[renamed.get(name, name)].cast(schema.field(name).type) for name in schema.names
    ]
    return pa.table(columns, schema=schema)


def _slices(path: Path, cuts: Iterable[int]) -> Iterator[pa.Table]:
    """Streams the file's rows between neighbouring cuts."""
    ends = list(cuts)
    # A reader that reads ahead holds the whole file.
    with pq.ParquetFile(path, pre_buffer=False) as file:
        held = file.schema_arrow.empty_table()
        batches = file.iter_batches(gather.BATCH_ITEMS, use_threads=False)
        for start, end in pairwise(ends):
            while held.num_rows < end - start:
                held = pa.concat_tables([held, pa.Table.from_batches([next(batches)])])
            yield held.slice(0, end - start)
            held = held.slice(end - start)


def readers(config: IngestConfig) -> list[Reader]:
    """The readers that these corpora need."""
    return [reader_of(corpus.source) for corpus in config.corpora]


CORPUS_OUTCOMES = pa.schema(
    [
        ("corpus", pa.string()),
        ("unit", pa.string()),
        ("outcome", pa.string()),
        ("n", pa.int64()),
    ]
)
"""Table `corpus_outcomes`. Counts of the items of each corpus in each split, and of those left out,
by reason. `warnings` has the findings from it.

Key: `corpus`, `unit`, `outcome`.

Columns:
    corpus: the corpus's name in the recipe
    unit: `document`, `sentence`, `pair`, or `row` (that a reader could not use); `text`: only texts
        from which HTML was removed, with the outcome `html`; `parted`: documents as they would be
        with `ingest.max_shingle_frequency: 1`, if few are in test or a cluster is too large
    outcome: a split, for kept items; else the reason of `rejects`. For documents also
        `large_cluster`: in train because of `ingest.largest_cluster`; and `nothing_kept`: in no
        table
    n: their number
"""
# Outcomes of documents besides the splits: in train because of `ingest.largest_cluster`; and in no
# table.
LARGE_CLUSTER, NOTHING_KEPT = "large_cluster", "nothing_kept"
# The unit of documents as they would be without ties (`ingest.max_shingle_frequency: 1`).
PARTED = "parted"
# The units of reasons of `gather`; other reasons concern a `row`.
_UNIT_OF = {"too_short": "sentence", "too_long": "sentence", "incomplete_pair": "pair"}
_UNITS = {gather.SENTENCE: "sentence", gather.QUERY: "pair"}


def outcomes(
    names: Sequence[str],
    gathered: gather.Gathered,
    split: splits.Codes,
    large: Flags,
    reasons: splits.Codes,
    reasons_named: Sequence[str],
    parted: Parted | None = None,
) -> pa.Table:
    """The rows of `corpus_outcomes`: counts of documents, sentences, pairs and unread rows.

    Args:
        names: the corpora's names.
        split, large: each document's split, and whether its cluster was too large.
        reasons: each item's reason, an index of `reasons_named`; 0: it is kept.
        parted: split and reasons without ties.
    """
    owner = gathered.document_of_item
    named = (*splits.SPLITS, *reasons_named[1:], LARGE_CLUSTER, NOTHING_KEPT)
    totals: Counter[tuple[int, str, str]] = Counter()

    def count(unit: str, corpora: splits.Index, outcome: npt.NDArray[Any]) -> None:
        codes, counts = np.unique(
            corpora.astype(np.int64) * len(named) + outcome, return_counts=True
        )
        for code, n in zip(codes.tolist(), counts.tolist(), strict=True):
            totals[code // len(named), unit, named[code % len(named)]] += n

    for number in range(len(names)):
        for reason, n in gathered.faults[number].items():
            totals[number, _UNIT_OF.get(reason, "row"), reason] += n
        totals[number, "text", gather.HTML] += gathered.cleaned[number]
    keeps_any = np.isin(np.arange(len(split)), owner[reasons == 0])
    of_kept = np.where(large, named.index(LARGE_CLUSTER), split)
    of_document = np.where(keeps_any, of_kept, named.index(NOTHING_KEPT))
    count("document", gathered.corpus_of_document, of_document)
    if parted is not None:
        alone = np.unique(owner[parted[1] == 0])
        count(PARTED, gathered.corpus_of_document[alone], parted[0][alone])
    of_item = np.where(reasons == 0, split[owner], len(splits.SPLITS) - 1 + reasons)
    for kind, unit in _UNITS.items():
        members = gathered.kinds == kind
        count(unit, gathered.corpus_of_document[owner[members]], of_item[members])
    rows = [(names[number], *key, n) for (number, *key), n in sorted(totals.items()) if n]
    return pa.Table.from_arrays(
        [pa.array(values) for values in zip(*rows, strict=True)], schema=CORPUS_OUTCOMES
    )


STAGE = Stage(
    name="ingest",
    config=IngestConfig,
    tables={
        "documents": DOCUMENTS,
        "sentences": SENTENCES,
        "document_pairs": DOCUMENT_PAIRS,
        "questions": questions.QUESTIONS,
        "corpus_outcomes": CORPUS_OUTCOMES,
    },
    run=run,
    libraries=LIBRARIES,
    externals=externals,
    # A corpus's content counts by its digest; the other keys concern only `sample`.
    locations=tuple(
        f"corpora.*.{key}" for key in ("source", "role", "share", "min_context_sentences")
    ),
    uses=readers,
    cut=OnePart(continues=True, keeps=True),
)


PRETRAIN = replace(
    STAGE,
    tables={"pretrain_sentences": SENTENCES},
    run=run_pretrain,
    cut=OnePart(),
)
