"""Stage `labelled`: reads the recipe's labelled corpora, of any kind and source, into one table.

Each row of a source becomes a row of its kind (`kinds.py`) or a reject; a kind may combine several
rows. Rows that share eight words with dev or test are rejected too. A share of the definitions is
held out for measuring. Everything streams: rows are written to a scratch directory, and DuckDB
combines them within its memory limit. `ingest` does not read these corpora, so none of their texts
becomes an anchor.
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field

from tercet.models import seeding
from tercet.models.seeding import Ids
from tercet.models.text.shingles import shared_words
from tercet.storage.rows import read_parquet_sql
from tercet.tasks.corpus.held_out import (
    HELD_OUT_DEFINITIONS,
    are_drawn,
    choose_held_out,
    held_out_definitions,
    held_out_shingles,
)
from tercet.tasks.corpus.kind_registry import KINDS
from tercet.tasks.corpus.kinds import Kind, Labelled, labelled_rows, layout_of
from tercet.tasks.corpus.sources.corpora import CorpusConfig
from tercet.tasks.corpus.sources.reader import Table
from tercet.tasks.corpus.sources.registry import reader_of
from tercet.tasks.corpus.sources.values import without_html
from tercet.tasks.rejects import Rejects
from tercet.tasks.stage import BadInput, Config, Stage, Work, connection

LABELLED = pa.schema(
    [
        ("row_id", pa.uint64()),
        ("corpus", pa.string()),
        ("kind", pa.string()),
        ("anchor", pa.string()),
        ("positive", pa.string()),
        ("negative", pa.string()),
        ("label", pa.float32()),
        ("entries", pa.list_(pa.int32())),
    ]
)
"""Table `labelled`. One training row from a corpus with `role: labelled`, of any kind. Texts are
normalised as in `sentences`. No row shares a run of eight words with dev or test, except set
phrases.

Inference pairs are `pairs` with a class: `entailment`, `neutral` or `contradiction` in any letter
case, or 0, 1 and 2 in that order. Every entailment makes a row with its hypothesis as the
positive. If its premise also has contradictions, one of them is the row's negative: the first
entailment takes the first contradiction, the second the second, and so on, starting over if there
are fewer contradictions than entailments. Premises are the same if their normalised texts are
equal. Unused rows are rejects: `neutral`, `no_positive` (a contradiction without an entailment),
`surplus` (more contradictions than entailments), `ambiguous` (the same pair under two classes).

The kind `entailment` reads the same pairs and keeps every contradiction, for discriminators: one
that no entailment took is a row without a positive, which training phases leave out.

Key: `row_id`, `corpus`.

Columns:
    row_id: id of anchor, positive and negative, with an empty text for NULL; unique within a
        corpus
    corpus: the corpus's name in the recipe
    kind: `triplets`, `pairs`, `scored`, `definitions` or `entailment`, as the recipe says
    anchor: the first text; the premise of an inference pair, the definition for `definitions`
    positive: the text that belongs to it; for `scored` the second text; NULL for `definitions`,
        and for an `entailment` row that is only a contradiction
    negative: a text that does not belong to it; for `pairs` and `entailment` only with a
        contradiction (above), NULL for `scored` and `definitions`
    label: for `scored` the score as given; for `triplets` the teacher's cosine of anchor and
        negative, if the source has it; otherwise NULL
    entries: for `definitions` every entry (→ `entries.entry_id`) to which the corpus gives this
        definition; otherwise NULL
"""
ENTRIES = pa.schema([("entry_id", pa.int32()), ("text", pa.string())])
"""Table `entries`. The words and terms that have definitions, numbered from 0 in order of their
texts over all corpora of kind `definitions`. This is all that training on definitions needs: the
definition is the input, and each of its `entries` is a right answer. Another set of definitions
may number the same entry differently, so join within one version.

Key: `text`.

Columns:
    entry_id: number of the entry, from 0 without gaps
    text: the entry; distinct
"""
HELD_OUT = "held_out_definitions"

_READ = pa.schema(
    [
        ("number", pa.int64()),
        ("anchor", pa.string()),
        ("positive", pa.string()),
        ("negative", pa.string()),
        ("label", pa.float32()),
        ("word", pa.string()),
    ]
)
_KEPT = pa.schema(
    [field for field in LABELLED if field.name != "entries"]
    + [("entries", pa.list_(pa.string())), ("drawn", pa.bool_())]
)
_TEXTS = ("anchor", "positive", "negative")
_ROW_ID = """md5_number_lower(concat_ws(chr(31), anchor, coalesce(positive, ''),
    coalesce(negative, '')))"""
_DUPLICATE = ("duplicate", "the same texts stand further up")
_COMBINED = f"""
WITH made AS ({{made}}), numbered AS (
    SELECT *, row_number() OVER
        (PARTITION BY anchor, positive, negative, reason IS NULL ORDER BY number) AS nth
    FROM made)
SELECT anchor, positive, negative, label, entries, {_ROW_ID} AS row_id,
    coalesce(reason, CASE WHEN nth > 1 THEN '{_DUPLICATE[0]}' END) AS reason,
    coalesce(detail, CASE WHEN nth > 1 THEN '{_DUPLICATE[1]}' END) AS detail
FROM numbered ORDER BY number
"""
# Where no rows are combined, the texts stream by; only ids and numbers are held.
_IN_ORDER = f"""
SELECT anchor, positive, negative, label, NULL::VARCHAR[] AS entries, {_ROW_ID} AS row_id FROM read
"""
_REPEATED = f"""
WITH numbered AS (
    SELECT number, row_number() OVER (PARTITION BY row_id ORDER BY number) AS nth
    FROM (SELECT number, {_ROW_ID} AS row_id FROM read))
SELECT number FROM numbered WHERE nth > 1
"""
# The reason of a corpus's single reject that shows an example of removed HTML.
HTML = "html"
# A row that was combined into another one, and is neither kept nor rejected.
_USED = "used"
BATCH_ROWS = 20_000


class LabelledConfig(Config):
    """The labelled corpora, and the longest line or value to read, in bytes."""

    corpora: list[CorpusConfig] = Field(min_length=1)
    max_line_bytes: int = Field(default=1_000_000, ge=100)


def externals(config: LabelledConfig) -> dict[str, str]:
    """A digest of each corpus's content, by its name."""
    return {corpus.name: reader_of(corpus.source).digest(corpus) for corpus in config.corpora}


def check_labelled(config: LabelledConfig) -> None:
    """Checks that each corpus has a row and its kind's columns, without reading everything.

    Raises:
        BadInput: a source is missing or empty, or lacks a column.
    """
    for corpus in config.corpora:
        empty = True
        for table in reader_of(corpus.source).tables(corpus, config.max_line_bytes):
            columns = columns_of(corpus, _kind_of(corpus), table)
            empty = empty and next(table.rows(list(columns.values())), None) is None
        if empty:
            raise BadInput(
                "no_rows",
                f"{corpus.source}: the labelled corpus {corpus.name!r} is empty; name a table with "
                "rows",
            )


def columns_of(corpus: CorpusConfig, kind: Kind, table: Table) -> dict[str, str]:
    """The table's columns, by the kind's names: as the recipe names them, else as a layout does.

    Raises:
        BadInput: a column is missing, or one of `kind.unread` would not be read.
    """
    listed = ", ".join(map(repr, table.columns))
    if corpus.columns:
        for ours, theirs in corpus.columns.items():
            if theirs not in table.columns:
                raise BadInput(
                    "missing_column",
                    f"{table.name} has no column {theirs!r} ({ours} of corpus {corpus.name!r}); "
                    f"its columns are {listed}",
                )
        return dict(corpus.columns)
    layout = layout_of(kind, table.columns)
    if layout is None:
        usual = " or ".join(", ".join(names.values()) for names in kind.layouts)
        raise BadInput(
            "missing_column",
            f"{table.name} has none of the layouts of kind {corpus.kind} ({usual}); name the "
            f"columns of corpus {corpus.name!r} under `columns`: its columns are {listed}",
        )
    unread = [name for name in kind.unread if name in table.columns and name not in layout.values()]
    if unread:
        raise BadInput(
            "missing_column",
            f"{table.name} has a column {unread[0]!r}, which kind {corpus.kind} would leave unread "
            f"here: name the columns of corpus {corpus.name!r} under `columns`, with `label` only "
            "for classes of inference, or take kind: scored",
        )
    return layout


def run(work: Work) -> None:
    """Emits `labelled`, `entries` and `held_out_definitions`; every other row is a reject.

    Raises:
        BadInput: as `check_labelled`; or a corpus without a single usable row.
    """
    config: LabelledConfig = work.config
    check_labelled(config)
    folder = work.scratch / "labelled"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rejects = Rejects(STAGE.name, work.emit, work.resources.part_rows)
    with connection(work) as db:
        held_out: Ids = np.empty(0, np.uint64)
        if "sentences" in work.inputs:
            held_out = held_out_shingles(db, work)
        files = []
        for number, corpus in enumerate(config.corpora):
            faults: Counter[str] = Counter()
            read = folder / f"read-{number}.parquet"
            _read(work, corpus, read, rejects, faults)
            files.append(folder / f"kept-{number}.parquet")
            rows = _combined(db, read, _kind_of(corpus))
            if not _keep(corpus, rows, files[-1], held_out, rejects, faults):
                why = ", ".join(f"{count} {reason}" for reason, count in faults.most_common(3))
                raise BadInput(
                    "no_rows",
                    f"{corpus.source}: no row of the labelled corpus {corpus.name!r} can be used "
                    f"({why}); look at its columns and its encoding",
                )
            read.unlink()
        _emit(db, work, [str(path) for path in files])
    rejects.flush()
    shutil.rmtree(folder, ignore_errors=True)


def _kind_of(corpus: CorpusConfig) -> Kind:
    assert corpus.kind is not None
    return KINDS[corpus.kind]


def _read(
    work: Work, corpus: CorpusConfig, path: Path, rejects: Rejects, faults: Counter[str]
) -> None:
    """Writes every usable row of a source to a file, numbered in order."""
    with pq.ParquetWriter(path, _READ, compression="lz4") as writer:
        usable = _usable(work.config, corpus, rejects, faults)
        done = 0
        while lot := list(islice(usable, BATCH_ROWS)):
            rows = [(done + number, *row) for number, row in enumerate(lot)]
            done += len(lot)
            columns = [list(column) for column in zip(*rows, strict=True)]
            writer.write_table(pa.table(columns, schema=_READ))
            work.resources.progress(done, None, "rows read")


def _usable(
    config: LabelledConfig, corpus: CorpusConfig, rejects: Rejects, faults: Counter[str]
) -> Iterator[Labelled]:
    kind = _kind_of(corpus)
    left = corpus.limit
    has_example = False
    for table in reader_of(corpus.source).tables(corpus, config.max_line_bytes):
        columns = columns_of(corpus, kind, table)
        for row in islice(table.rows(list(columns.values())), left):
            left = None if left is None else left - 1
            where = f"{corpus.name}: {table.name}:{row.number}"
            values, html = without_html(row.values, [columns[text] for text in kind.texts])
            if html and not has_example:
                has_example = True
                row_id = seeding.text_id(corpus.name, HTML)
                rejects.add(row_id, HTML, f"{where}: the first row in HTML", html)
            result = labelled_rows(kind, columns, row._replace(values=values))
            if isinstance(result, list):
                yield from result
                continue
            fault, text = result
            faults[fault.reason] += 1
            row_id = seeding.text_id(corpus.name, where, fault.reason, text)
            rejects.add(row_id, fault.reason, f"{where}: {fault.detail}", text)


def _combined(db: Any, path: Path, kind: Kind) -> Iterator[pa.RecordBatch]:
    """The corpus's rows in order with their ids, combined by the kind's SQL, with reasons for rows
    to reject.
    """
    db.execute(f"CREATE OR REPLACE VIEW read AS SELECT * FROM {read_parquet_sql([str(path)])}")
    if kind.combine is not None:
        query = _COMBINED.format(made=kind.combine)
        yield from db.sql(query).to_arrow_reader(BATCH_ROWS)
        return
    repeated = db.sql(_REPEATED).fetchnumpy()["number"]
    done = 0
    for batch in db.sql(_IN_ORDER).to_arrow_reader(BATCH_ROWS):
        numbers = np.arange(done, done + batch.num_rows)
        done += batch.num_rows
        again = np.isin(numbers, repeated).tolist()
        for name, text in zip(("reason", "detail"), _DUPLICATE, strict=True):
            column = pa.array([text if one else None for one in again], pa.string())
            batch = batch.append_column(name, column)
        yield batch


def _keep(
    corpus: CorpusConfig,
    batches: Iterator[pa.RecordBatch],
    path: Path,
    held_out: Ids,
    rejects: Rejects,
    faults: Counter[str],
) -> int:
    """Writes the rows that are kept to a file; returns their number."""
    total = 0
    with pq.ParquetWriter(path, _KEPT, compression="lz4") as writer:
        for batch in batches:
            rows = pa.Table.from_batches([batch]).combine_chunks()
            reasons, details = rows["reason"].to_pylist(), rows["detail"].to_pylist()
            for name in _TEXTS if len(held_out) else ():
                texts = pc.fill_null(rows[name].cast(pa.string()), "").combine_chunks()
                hits, words = shared_words(texts, held_out)
                for row, shared in zip(hits.tolist(), words, strict=True):
                    if reasons[row] is None:
                        reasons[row], details[row] = "held_out_text", f"{name}: {shared}"
            for row, reason in enumerate(reasons):
                if reason is not None and reason != _USED:
                    faults[reason] += 1
                    row_id, text = (rows[name][row].as_py() for name in ("row_id", "anchor"))
                    rejects.add(row_id, reason, f"{corpus.name}: {details[row]}", text)
            rows = rows.filter(pa.array([reason is None for reason in reasons]))
            table = pa.table(
                {
                    "corpus": pa.repeat(corpus.name, rows.num_rows),
                    "kind": pa.repeat(corpus.kind, rows.num_rows),
                    **{name: rows[name] for name in ("row_id", *_TEXTS, "label", "entries")},
                    "drawn": are_drawn(corpus.held_out, rows["row_id"].to_numpy()),
                }
            )
            writer.write_table(table.select(_KEPT.names).cast(_KEPT))
            total += rows.num_rows
    return total


def _emit(db: Any, work: Work, files: Sequence[str]) -> None:
    """Numbers the entries by their texts, and emits the tables."""
    rows = read_parquet_sql(files)
    db.execute(
        f"""CREATE TEMP TABLE entries AS
            SELECT (row_number() OVER (ORDER BY text) - 1)::INTEGER AS entry_id, text
            FROM (SELECT DISTINCT unnest(entries) AS text FROM {rows})"""
    )
    entries = db.sql("SELECT entry_id, text FROM entries ORDER BY entry_id")
    for batch in entries.to_arrow_reader(BATCH_ROWS):
        work.emit("entries", pa.Table.from_batches([batch]).cast(ENTRIES))
    texts = db.sql("SELECT text FROM entries ORDER BY entry_id").to_arrow_table()["text"]
    texts = texts.combine_chunks()
    choose_held_out(db, rows)
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_ROWS, use_threads=False):
                if batch.num_rows:
                    table = pa.Table.from_batches([batch]).combine_chunks()
                    numbered = _numbered(table["entries"], texts)
                    table = table.drop_columns("entries").append_column("entries", numbered)
                    held = held_out_definitions(db, table)
                    for name, mask in (("labelled", pc.invert(held)), (HELD_OUT, held)):
                        schema, some = STAGE.tables[name], table.filter(mask)
                        if some.num_rows:
                            work.emit(name, some.select(schema.names).cast(schema))


def _numbered(entries: pa.ChunkedArray, texts: pa.Array) -> pa.Array:
    """Lists of texts as lists of their numbers."""
    lists = entries.combine_chunks()
    flat = pc.index_in(lists.flatten(), texts).cast(pa.int32())
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    ends = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))])
    offsets = pa.array(ends.astype(np.int32))
    return pa.ListArray.from_arrays(offsets, flat, mask=lists.is_null())


def readers_and_kinds(config: LabelledConfig) -> list[object]:
    """The readers and kinds that these corpora need."""
    return [
        use for corpus in config.corpora for use in (reader_of(corpus.source), _kind_of(corpus))
    ]


STAGE = Stage(
    name="labelled",
    config=LabelledConfig,
    tables={"labelled": LABELLED, "entries": ENTRIES, HELD_OUT: HELD_OUT_DEFINITIONS},
    run=run,
    seeded=False,
    externals=externals,
    # Versions cover a corpus's content by its digest; labelled corpora have no share.
    locations=("corpora.*.source", "corpora.*.share"),
    uses=readers_and_kinds,
)
