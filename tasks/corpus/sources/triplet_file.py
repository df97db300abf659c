"""Triplets that somebody else made: a file in place of the recipe's own."""

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models import seeding
from tercet.storage.rows import quoted
from tercet.tasks.stage import REJECTS, BadInput

_NAMES = {"sent0": "anchor", "sent1": "positive", "hard_neg": "negative"}
_TEXTS = ("anchor", "positive", "negative")
_LABEL = "negative_similarity"
# Values as they stand: no number, date or NA is looked for in a text.
_READERS = {
    ".parquet": "read_parquet(?)",
    ".csv": "read_csv(?, all_varchar = true, header = true, delim = ',', quote = '\"')",
    ".tsv": "read_csv(?, all_varchar = true, header = true, delim = '\t', quote = '\"')",
    ".jsonl": "read_json(?, maximum_depth = 1, sample_size = -1)",
}


def file_triplets(path: Path) -> tuple[pa.Table, pa.Table]:
    """Triplets of a file (row_id, anchor, positive, negative, label), and its rows' rejects.

    Columns anchor, positive, negative, or SimCSE's sent0, sent1, hard_neg; the teacher's cosine
    of the negative, if known, as negative_similarity. Raises BadInput where that fails.
    """
    table = _read(path)
    texts = [pc.fill_null(table[name], "") for name in _TEXTS]
    ids = pa.array(seeding.text_ids(*(column.to_pylist() for column in texts)), pa.uint64())
    label = _labels(path, table)
    rows = pa.table([ids, *texts, label], ["row_id", *_TEXTS, "label"])
    empty = np.stack([pc.equal(pc.utf8_trim_whitespace(column), "") for column in texts])
    kept = pa.array(~empty.any(axis=0))
    fallen = np.flatnonzero(empty.any(axis=0))
    rejects = [
        {
            "stage": "train",
            "row_id": rows["row_id"][row].as_py(),
            "reason": "missing_text",
            "detail": f"{path.name}: row {row + 1} has no {_TEXTS[int(empty[:, row].argmax())]}",
            "text": rows["anchor"][row].as_py(),
        }
        for row in fallen.tolist()
    ]
    return rows.filter(kept), pa.Table.from_pylist(rejects, REJECTS)


def _read(path: Path) -> pa.Table:
    """The file's texts under our names as strings, and negative_similarity if it has one."""
    import duckdb

    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".zst")]
    reader = _READERS.get(suffixes[-1] if suffixes else "")
    if reader is None:
        raise BadInput(f"train: {path} is no .parquet, .csv, .tsv or .jsonl file of triplets.")
    if not path.is_file():
        raise BadInput(f"train: there is no file of triplets at {path}: give another path.")
    try:
        with duckdb.connect() as connection:
            relation = connection.sql(f"SELECT * FROM {reader}", params=[str(path)])
            columns = _columns(path, relation.columns)
            types = dict(zip(relation.columns, map(str, relation.types), strict=True))
            for name in columns.values():
                if types[name].endswith("]") or types[name].startswith(("STRUCT", "MAP", "BLOB")):
                    raise BadInput(
                        f"train: {path} has no texts or numbers in its column {name!r}, but "
                        f"{types[name]}: give one value a row."
                    )
            parts = []
            for ours, name in columns.items():
                column = '"' + name.replace('"', '""') + '"'
                value = f"{column}->>'$'" if types[name] == "JSON" else f"{column}::VARCHAR"
                if types[name] == "JSON":
                    value = (
                        f"CASE WHEN json_type({column}) IN ('ARRAY', 'OBJECT') THEN error("
                        f"{quoted(f'column {name!r} holds lists or objects')}) ELSE {value} END"
                    )
                parts.append(f"{value} AS {ours}")
            # By the query again: a relation's own projection would lose the parameter.
            return connection.sql(
                f"SELECT {', '.join(parts)} FROM {reader}", params=[str(path)]
            ).to_arrow_table()
    except duckdb.Error as error:
        reason = str(error).strip().splitlines()[0]
        raise BadInput(f"train: the triplets of {path} cannot be read: {reason}") from error


def _columns(path: Path, there: list[str]) -> dict[str, str]:
    """The file's column of each of our names."""
    columns: dict[str, str] = {_LABEL: _LABEL} if _LABEL in there else {}
    for other, ours in _NAMES.items():
        found = [name for name in (ours, other) if name in there]
        if len(found) == 2:
            raise BadInput(
                f"train: {path} has both columns {ours!r} and {other!r}, which mean the same: "
                "leave one of them out."
            )
        if not found:
            raise BadInput(
                f"train: {path} has no column {ours!r}, only {', '.join(there)}: "
                "name its columns anchor, positive, negative."
            )
        columns[ours] = found[0]
    return columns


def _labels(path: Path, table: pa.Table) -> pa.Array:
    """The teacher's cosines as numbers, null where there is none."""
    if _LABEL not in table.column_names:
        return pa.nulls(table.num_rows, pa.float64())
    values: list[float | None] = []
    for row, text in enumerate(table[_LABEL].to_pylist()):
        try:
            value = float(text) if text and text.strip() else math.nan
        except ValueError:
            value = math.inf
        if abs(value) > 1:
            raise BadInput(
                f"train: {path} has the {_LABEL} {text!r} in row {row + 1}, which is no cosine: "
                "give a number from -1 to 1, or nothing where it is not known."
            )
        values.append(None if math.isnan(value) else value)
    return pa.array(values, pa.float64())
