"""Labelled corpora in files of every form, and what the stage makes of them."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Made = dict[str, list[dict[str, Any]]]
Run = Callable[..., Made]
TRIPLET = ["anchor", "positive", "negative"]


def write(path: Path, rows: list[list[Any]], names: list[str]) -> str:
    """A table in the form that the path's name asks for."""
    if ".parquet" in path.name:
        columns = list(zip(*rows, strict=True))
        pq.write_table(pa.table([list(c) for c in columns], names=names), path)
        return str(path)
    if ".jsonl" in path.name:
        text = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    else:
        mark = "\t" if ".tsv" in path.name else ","
        lines = [names, *([str(v) if v is not None else "" for v in row] for row in rows)]
        text = "".join(mark.join(line) + "\n" for line in lines)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def short(made: Made) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in (*TRIPLET, "label")) for row in made["labelled"]]


def reasons(made: Made) -> list[tuple[str, str]]:
    return [(row["reason"], row["text"]) for row in made["rejects"]]
