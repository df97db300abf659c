"""Streams data sets of the Hugging Face hub: `hf:NAME[/CONFIG][:SPLIT]`, split `train` by default.

NAME is `owner/name`, an old name without owner, or a local directory that `datasets.load_dataset`
opens. That library refuses data sets with their own code.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from tercet.storage.objects import first_line
from tercet.tasks.corpus.sources.corpora import CorpusConfig
from tercet.tasks.corpus.sources.json_rows import DEPTH, by_path
from tercet.tasks.corpus.sources.reader import Table
from tercet.tasks.corpus.sources.streams import SHOWN, content_digest
from tercet.tasks.corpus.sources.tables import Row, bounded
from tercet.tasks.corpus.sources.values import table_reader
from tercet.tasks.stage import BadInput

PREFIX = "hf:"


class Place(NamedTuple):
    """The parts of a source. name: on the hub, or a directory's path (`local`)."""

    name: str
    config: str | None
    split: str
    local: bool

    @property
    def shown(self) -> str:
        """The name in tables; it does not depend on where a directory lies."""
        name = Path(self.name).resolve().name if self.local else self.name
        return f"{name}{'/' + self.config if self.config else ''}:{self.split}"


def place_of(source: str) -> Place:
    """The parts of a source.

    Raises:
        BadInput: it has no name, or more parts than owner, name and configuration.
    """
    name, _, split = source.removeprefix(PREFIX).partition(":")
    name, split = name.rstrip("/"), split or "train"
    above, _, last = name.rpartition("/")
    if name and Path(name).is_dir():
        return Place(name, None, split, True)
    if above and Path(above).is_dir():
        return Place(above, last, split, True)
    parts = name.split("/")
    if not all(parts) or len(parts) > 3:
        raise BadInput(
            "bad_value",
            f"{source}: write hf:OWNER/NAME, hf:OWNER/NAME/CONFIG or hf:DIRECTORY, each with "
            ":SPLIT behind it unless that is train",
        )
    return Place("/".join(parts[:2]), parts[2] if len(parts) == 3 else None, split, False)


def digest(corpus: CorpusConfig) -> str:
    """SHA-256, in hex, over configuration, split and the data set's revision or its files."""
    place = place_of(corpus.source)
    whole = hashlib.sha256(f"{place.config or ''}\0{place.split}\0".encode())
    if not place.local:
        whole.update(_revision(place.name).encode())
        return whole.hexdigest()
    folder = Path(place.name)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        line = f"{path.relative_to(folder).as_posix()}\0{content_digest(path)}\n"
        whole.update(line.encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def tables(corpus: CorpusConfig, max_bytes: int) -> Iterator[Table]:
    """The data set as one table; none if it has no rows."""
    place = place_of(corpus.source)
    dataset = _open(corpus.source, place)
    if dataset.features is None:  # unknown until a row is read
        columns = list(by_path(next(_raw_rows(corpus.source, dataset), {})))
    else:
        columns = list(dataset.features.flatten(DEPTH))
    if columns:
        rows = partial(_rows, corpus.source, dataset, max_bytes)
        yield Table(place.shown, columns, rows, corpus.source)


def portable(source: str) -> str:
    """A directory with its full path; a name on the hub unchanged."""
    place = place_of(source)
    if not place.local:
        return source
    config = f"/{place.config}" if place.config else ""
    return f"{PREFIX}{Path(place.name).resolve()}{config}:{place.split}"


@lru_cache
def _revision(name: str) -> str:
    """The commit of the data set's main branch, which the whole process reads."""
    from huggingface_hub import HfApi

    try:
        return str(HfApi().dataset_info(name).sha)
    except Exception as error:
        raise _unreachable(PREFIX + name, error) from None


def _open(source: str, place: Place) -> Any:
    import datasets

    # Errors are reported as one sentence instead.
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    datasets.disable_progress_bars()
    revision = None if place.local else _revision(place.name)
    try:
        return datasets.load_dataset(
            place.name, place.config, split=place.split, streaming=True, revision=revision
        )
    except Exception as error:
        if place.local or isinstance(error, ValueError):
            raise BadInput(
                "unreachable",
                f"{source}: the data set cannot be opened ({first_line(error)[:SHOWN]})",
            ) from None
        raise _unreachable(source, error) from None


def _unreachable(source: str, error: Exception) -> BadInput:
    return BadInput(
        "unreachable",
        f"{source}: the hub does not give this data set ({first_line(error)[:SHOWN]}); check its "
        "name and the network, or save it as .parquet and name that file",
    )


def _rows(source: str, dataset: Any, max_bytes: int, columns: Sequence[str]) -> Iterator[Row]:
    """The rows with these columns, with names of class labels."""
    features = {} if dataset.features is None else dataset.features.flatten(DEPTH)
    names = {c: features[c].names for c in columns if hasattr(features.get(c), "names")}
    if dataset.column_names:
        paths = [f"{column}." for column in columns]
        outer = [c for c in dataset.column_names if any(p.startswith(f"{c}.") for p in paths)]
        dataset = dataset.select_columns(outer)
    for number, raw in enumerate(_raw_rows(source, dataset), 1):
        row = by_path(raw)
        values = {column: row.get(column) for column in columns}
        for column, label_names in names.items():
            label = values[column]
            values[column] = label_names[label] if isinstance(label, int) and label >= 0 else None
        yield bounded(number, values, max_bytes)


def _raw_rows(source: str, dataset: Any) -> Iterator[dict[str, Any]]:
    number = 0
    try:
        for raw in dataset:
            number += 1
            yield raw
    except Exception as error:
        raise BadInput(
            "unreadable",
            f"{source}: the rows behind row {number} cannot be read ({first_line(error)[:SHOWN]}); "
            "run again, or save the data set as .parquet and name that file",
        ) from None


READER = table_reader(PREFIX, f"{PREFIX}NAME", digest, tables, portable)
