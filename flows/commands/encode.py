"""`tercet encode`: the texts of a table with their vectors, as a Parquet file."""

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from tercet.errors import kind_of
from tercet.flows.commands.evaluate import model_path
from tercet.flows.exports.writing import check_file, whole_file
from tercet.flows.results.queries import final_model
from tercet.flows.terminal.progress import reporter
from tercet.storage.store import open_store
from tercet.tasks.corpus.sources.streams import format_of
from tercet.tasks.corpus.sources.tables import (
    Row,
    columns_of,
    first_rows,
    joined,
    missing,
    rows,
    text_fault,
)
from tercet.tasks.corpus.sources.values import text_column
from tercet.tasks.stage import BadInput

_BATCH, _MAX_BYTES = 4_096, 1 << 24


def encode_table(
    source: str, output: str, column: str | None, model: str | None, store: str, run_ref: str | None
) -> None:
    """Writes `id` (the row's number, from 1), `text` and `vector`, of length one.

    If the encoder has prompts, texts are encoded with the prompt of documents. Memory does not grow
    with the table. column: None: the column that reads like text.
    model: named as in `tercet eval`; None: the run's last.
    Raises: BadInput for a table without texts, a model that cannot be loaded, and a file that
        exists.
    """
    table, target = Path(source).expanduser(), Path(output).expanduser()
    check_file(target)
    if not table.is_file():
        raise BadInput(
            "missing_file", f"{source}: no such file; give a table (.csv, .tsv, .jsonl, .parquet)."
        )
    if format_of(table)[0] == ".txt":
        raise BadInput(
            "missing_column",
            f"{source}: a .txt has no columns; name a .csv, .tsv, .jsonl or .parquet.",
        )
    read = partial(rows, table, _MAX_BYTES)
    columns = columns_of(table, _MAX_BYTES)
    if column is not None and column not in columns:
        raise BadInput(
            "missing_column", f"{source} has no column {column!r}; it has: {', '.join(columns)}."
        )
    chosen = column or text_column(source, columns, first_rows(read))
    model = model or final_model(open_store(store, create=False), run_ref)
    folder = model_path(model, store, run_ref)

    from tercet.flows.running.gpus import device
    from tercet.models.encoders.encoder import dimension, encode, load_encoder

    try:
        encoder = load_encoder(folder, device=device("auto"))
    except ValueError as error:
        raise BadInput(kind_of(error, "unfit_model"), str(error)) from None
    kind = pa.list_(pa.float32(), dimension(encoder))
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("vector", kind)])
    texts = _texts(read(columns=[chosen]), chosen)
    total = count = 0
    with (
        whole_file(target) as sink,
        pq.ParquetWriter(sink, schema, compression="zstd") as writer,
        reporter("encode", sys.stderr.isatty()) as progress,
    ):
        while batch := list(islice(texts, _BATCH)):
            total += len(batch)
            if not (batch := [(number, text) for number, text in batch if text is not None]):
                continue
            ids, lines = zip(*batch, strict=True)
            vectors = encode(encoder, lines, side="document")
            lists = pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), vectors.shape[1])
            writer.write_table(pa.table([ids, lines, lists], schema=schema))
            count += len(batch)
            progress(count, None, "texts")
        if not count:
            raise BadInput(
                "no_rows", f"{source} has no text in its column {chosen!r}: name another one."
            )
    without = f"; {total - count:,} of {total:,} rows have none" if count < total else ""
    typer.echo(
        f"{count:,} texts of the column {chosen!r} are in {target}, with their vectors{without}."
    )


def _texts(read: Iterable[Row], column: str) -> Iterator[tuple[int, str | None]]:
    """Number and text of each row; the text is None if the row has none."""
    for number, (_, values, fault) in enumerate(read, start=1):
        value = joined(values.get(column))
        lacking = fault or missing(value) or text_fault({column: value}, column)
        yield number, None if lacking else str(value)
